//! Server side of the handshake, as a state machine over bytes that may be split anywhere.
//!
//! At most [`MAX_OPTION`] bytes of an option are held in memory. A longer option is skipped and
//! refused; one above [`MAX_SKIP`] ends the connection.
//!
//! ```text
//!   greeting --> flags --> options --+--> Negotiated      GO, EXPORT_NAME
//!                            ^   |   +--> the end         ABORT
//!                            '---'   +--> ProtocolError   a breach of the protocol
//! ```

use super::wire::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, BEST_BLOCK, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES,
    INFO_BLOCK_SIZE, INFO_DESCRIPTION, INFO_EXPORT, INFO_NAME, INIT_MAGIC, MAX_PAYLOAD, MIN_BLOCK,
    OPT_ABORT, OPT_CONTROL, OPT_EXPORT_NAME, OPT_GO, OPT_INFO, OPT_LIST, OPT_LIST_META_CONTEXT,
    OPT_SET_META_CONTEXT, OPT_STRUCTURED_REPLY, OPTION_MAGIC, OPTION_REPLY_MAGIC, REP_ACK,
    REP_CONTROL, REP_ERR_INVALID, REP_ERR_POLICY, REP_ERR_TOO_BIG, REP_ERR_UNKNOWN, REP_ERR_UNSUP,
    REP_INFO, REP_META_CONTEXT, REP_SERVER, TRANSMIT_CAN_MULTI_CONN, TRANSMIT_HAS_FLAGS,
    TRANSMIT_READ_ONLY, TRANSMIT_SEND_CACHE, TRANSMIT_SEND_DF, TRANSMIT_SEND_FLUSH,
    TRANSMIT_SEND_FUA, TRANSMIT_SEND_TRIM, TRANSMIT_SEND_WRITE_ZEROES,
};
use super::{ProtocolError, be_u32, be_u64, len_u32, options};

/// Export and features that a server offers.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'o> {
    /// Export name; also used for clients that request the empty name.
    pub name: &'o str,
    /// Description for people, in one line.
    pub description: &'o str,
    /// Export size in bytes.
    pub size: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// Control requests are accepted.
    pub has_control: bool,
}

/// Result of a handshake.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Negotiated {
    /// Export size in bytes.
    pub size: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// Reads are answered with structured replies.
    pub structured: bool,
    /// The client may request block status (`base:allocation`).
    pub base_allocation: bool,
}

/// Handshake in progress.
#[derive(Clone, Debug, Default)]
pub struct Handshake {
    /// Flags of the client; None until they arrive.
    flags: Option<u16>,
    structured: bool,
    base_allocation: bool,
    /// Bytes left to skip of an option that is too long.
    skip: u32,
}

/// Result of one step of a handshake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HandshakeStep<'b> {
    /// More bytes are needed.
    More,
    /// An option was answered; there may be another one.
    Answered,
    /// A control request with this text; reply with [`Handshake::answer`].
    Control(&'b str),
    /// The handshake is complete: requests follow.
    Agreed(Negotiated),
    /// The client has aborted the handshake.
    End,
}

/// Length limit of an option that is parsed, in bytes.
pub const MAX_OPTION: u32 = 64 << 10;
/// Length limit of an option that is skipped, in bytes. A longer one ends the connection.
pub const MAX_SKIP: u32 = 4 << 20;

/// Length of an option's header: magic, option, length.
const OPTION_HEAD: usize = 16;

impl Handshake {
    /// Creates a handshake and appends its greeting to `out`.
    #[must_use]
    pub fn begin(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&INIT_MAGIC.to_be_bytes());
        out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
        Self::default()
    }

    /// Parses at most one item from the front of `bytes` and appends the reply to `out`. Returns
    /// the number of bytes consumed and the result.
    ///
    /// # Errors
    ///
    /// If the client breaks the protocol, or requests an export that does not exist by an option
    /// that has no error reply.
    #[expect(clippy::missing_panics_doc, reason = "an option's length is checked first")]
    pub fn step<'b>(
        &mut self,
        bytes: &'b [u8],
        offer: &Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(usize, HandshakeStep<'b>), ProtocolError> {
        if self.skip > 0 {
            let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
            self.skip -= len_u32(skipped);
            return Ok((
                skipped,
                if self.skip > 0 { HandshakeStep::More } else { HandshakeStep::Answered },
            ));
        }
        let Some(flags) = self.flags else { return self.take_flags(bytes) };
        if bytes.len() >= 8 && be_u64(bytes) != OPTION_MAGIC {
            return Err(ProtocolError::Magic { of: "option", found: be_u64(bytes) });
        }
        let Some(head) = bytes.first_chunk::<OPTION_HEAD>() else {
            return Ok((0, HandshakeStep::More));
        };
        let (option, len) = (be_u32(&head[8..]), be_u32(&head[12..]));
        if flags & FLAG_FIXED_NEWSTYLE == 0 && option != OPT_EXPORT_NAME {
            return Err(ProtocolError::NotFixed);
        }
        if len > MAX_OPTION {
            if len > MAX_SKIP || option == OPT_EXPORT_NAME {
                return Err(ProtocolError::TooBig { len });
            }
            self.skip = len;
            reply(out, option, REP_ERR_TOO_BIG, &[b"an option of this length"]);
            return Ok((OPTION_HEAD, HandshakeStep::Answered));
        }
        let end = OPTION_HEAD
            + usize::try_from(len).expect("an option's length was checked against MAX_OPTION");
        let Some(data) = bytes.get(OPTION_HEAD..end) else { return Ok((0, HandshakeStep::More)) };
        Ok((end, self.option(option, data, offer, out)?))
    }

    /// Appends the reply to a control request.
    pub fn answer(&self, answer: &Result<String, String>, out: &mut Vec<u8>) {
        match answer {
            Ok(text) => reply(out, OPT_CONTROL, REP_CONTROL, &[text.as_bytes()]),
            Err(text) => reply(out, OPT_CONTROL, REP_ERR_INVALID, &[text.as_bytes()]),
        }
    }

    fn take_flags<'b>(
        &mut self,
        bytes: &[u8],
    ) -> Result<(usize, HandshakeStep<'b>), ProtocolError> {
        let Some(flags) = bytes.first_chunk().map(|flags| u32::from_be_bytes(*flags)) else {
            return Ok((0, HandshakeStep::More));
        };
        match u16::try_from(flags) {
            Ok(known) if known & !(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) == 0 => {
                self.flags = Some(known);
                Ok((4, HandshakeStep::Answered))
            }
            _ => Err(ProtocolError::Flags(flags)),
        }
    }

    fn option<'b>(
        &mut self,
        option: u32,
        data: &'b [u8],
        offer: &Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<HandshakeStep<'b>, ProtocolError> {
        match option {
            OPT_EXPORT_NAME => {
                return self.export_name(data, offer, out).map(HandshakeStep::Agreed);
            }
            OPT_ABORT => {
                reply(out, option, REP_ACK, &[]);
                return Ok(HandshakeStep::End);
            }
            OPT_LIST if data.is_empty() => {
                let name = offer.name.as_bytes();
                let (len, about) = (len_u32(name.len()), offer.description.as_bytes());
                reply(out, option, REP_SERVER, &[&len.to_be_bytes(), name, about]);
                reply(out, option, REP_ACK, &[]);
            }
            OPT_INFO | OPT_GO => {
                if self.info(option, data, offer, out) && option == OPT_GO {
                    return Ok(HandshakeStep::Agreed(self.agreed(offer)));
                }
            }
            OPT_STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                reply(out, option, REP_ACK, &[]);
            }
            OPT_LIST | OPT_STRUCTURED_REPLY => {
                reply(out, option, REP_ERR_INVALID, &[b"this option has no data"]);
            }
            OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT => {
                self.meta_context(option, data, offer, out);
            }
            OPT_CONTROL if !offer.has_control => {
                reply(
                    out,
                    option,
                    REP_ERR_POLICY,
                    &[b"control requests are not allowed on this \
                                                       connection"],
                );
            }
            OPT_CONTROL => match std::str::from_utf8(data) {
                Ok(text) => return Ok(HandshakeStep::Control(text)),
                Err(_) => reply(out, option, REP_ERR_INVALID, &[b"a control request is text"]),
            },
            _ => reply(out, option, REP_ERR_UNSUP, &[]),
        }
        Ok(HandshakeStep::Answered)
    }

    /// Handles `NBD_OPT_EXPORT_NAME`, which has no error reply: a wrong name ends the connection.
    fn export_name(
        &self,
        name: &[u8],
        offer: &Offer<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Negotiated, ProtocolError> {
        if !name.is_empty() && name != offer.name.as_bytes() {
            return Err(ProtocolError::NoSuchExport);
        }
        out.extend_from_slice(&offer.size.to_be_bytes());
        out.extend_from_slice(&self.transmission_flags(offer).to_be_bytes());
        if self.flags.is_some_and(|flags| flags & FLAG_NO_ZEROES == 0) {
            out.extend_from_slice(&[0; 124]);
        }
        Ok(self.agreed(offer))
    }

    /// Replies with information about the export. Returns false if the request was refused.
    fn info(&self, option: u32, data: &[u8], offer: &Offer<'_>, out: &mut Vec<u8>) -> bool {
        let Some((name, wanted)) = options::info(data) else {
            reply(out, option, REP_ERR_INVALID, &[b"the option's lengths are inconsistent"]);
            return false;
        };
        if !is_here(name, offer, option, out) {
            return false;
        }
        let mut wants = [false; 4];
        for kind in wanted {
            if let Some(wants) = wants.get_mut(usize::from(kind)) {
                *wants = true;
            }
        }
        let mut info = |kind: u16, parts: [&[u8]; 3]| {
            let [a, b, c] = parts;
            reply(out, option, REP_INFO, &[&kind.to_be_bytes(), a, b, c]);
        };
        let flags = self.transmission_flags(offer).to_be_bytes();
        info(INFO_EXPORT, [&offer.size.to_be_bytes(), &flags, &[]]);
        if wants[usize::from(INFO_NAME)] {
            info(INFO_NAME, [offer.name.as_bytes(), &[], &[]]);
        }
        if wants[usize::from(INFO_DESCRIPTION)] {
            info(INFO_DESCRIPTION, [offer.description.as_bytes(), &[], &[]]);
        }
        if wants[usize::from(INFO_BLOCK_SIZE)] {
            let [min, best, max] = [MIN_BLOCK, BEST_BLOCK, MAX_PAYLOAD].map(u32::to_be_bytes);
            info(INFO_BLOCK_SIZE, [&min, &best, &max]);
        }
        reply(out, option, REP_ACK, &[]);
        true
    }

    fn meta_context(&mut self, option: u32, data: &[u8], offer: &Offer<'_>, out: &mut Vec<u8>) {
        let Some((name, count, mut questions)) = options::meta_context(data) else {
            return reply(
                out,
                option,
                REP_ERR_INVALID,
                &[b"the option's lengths are inconsistent"],
            );
        };
        if !self.structured {
            return reply(out, option, REP_ERR_INVALID, &[b"negotiate structured replies first"]);
        }
        let is_set = option == OPT_SET_META_CONTEXT;
        if is_set {
            self.base_allocation = false;
        }
        if !is_here(name, offer, option, out) {
            return;
        }
        let is_wanted = if is_set {
            questions.any(|question| question == BASE_ALLOCATION)
        } else {
            count == 0 || questions.any(|it| it == BASE_ALLOCATION || it == "base:")
        };
        if is_wanted {
            let id = if is_set { BASE_ALLOCATION_ID } else { 0 };
            let context = BASE_ALLOCATION.as_bytes();
            reply(out, option, REP_META_CONTEXT, &[&id.to_be_bytes(), context]);
            self.base_allocation |= is_set;
        }
        reply(out, option, REP_ACK, &[]);
    }

    fn transmission_flags(&self, offer: &Offer<'_>) -> u16 {
        let always = TRANSMIT_HAS_FLAGS
            | TRANSMIT_SEND_FLUSH
            | TRANSMIT_SEND_FUA
            | TRANSMIT_CAN_MULTI_CONN
            | TRANSMIT_SEND_CACHE;
        // Some clients ignore the read-only flag and check for these.
        let changes = if offer.read_only {
            TRANSMIT_READ_ONLY
        } else {
            TRANSMIT_SEND_TRIM | TRANSMIT_SEND_WRITE_ZEROES
        };
        let df = if self.structured { TRANSMIT_SEND_DF } else { 0 };
        always | changes | df
    }

    fn agreed(&self, offer: &Offer<'_>) -> Negotiated {
        let Self { structured, base_allocation, .. } = *self;
        let Offer { size, read_only, .. } = *offer;
        Negotiated { size, read_only, structured, base_allocation }
    }
}

/// Returns true if `name` is this export; otherwise replies with an error.
fn is_here(name: &str, offer: &Offer<'_>, option: u32, out: &mut Vec<u8>) -> bool {
    let is_here = name.is_empty() || name == offer.name;
    if !is_here {
        reply(out, option, REP_ERR_UNKNOWN, &[b"no export of this name"]);
    }
    is_here
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let len = len_u32(parts.iter().map(|part| part.len()).sum());
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}
