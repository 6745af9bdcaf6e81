//! Client side of the protocol: encodes options, and parses greetings, option replies and reply
//! headers from bytes that may be split anywhere. Lengths from the server are checked against
//! bounds.

use super::handshake::Negotiated;
use super::wire::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, INFO_EXPORT, INIT_MAGIC, MAX_PAYLOAD, OPTION_MAGIC,
    OPTION_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, TRANSMIT_READ_ONLY,
};
use super::{ProtocolError, be_u16, be_u32, be_u64, len_u32};

/// Length of the server's greeting.
pub const GREETING: usize = 18;
/// Length limit of an option reply, in bytes.
pub const MAX_ANSWER: u32 = 16 << 20;

const ANSWER_HEAD: usize = 20;

/// Returns the client flags that reply to a greeting; None if it is incomplete.
///
/// # Errors
///
/// If the peer is no NBD server, or has no fixed newstyle handshake.
pub fn greeting(bytes: &[u8]) -> Result<Option<u32>, ProtocolError> {
    for (at, magic) in [(0, INIT_MAGIC), (8, OPTION_MAGIC)] {
        if bytes.len() >= at + 8 && be_u64(&bytes[at..]) != magic {
            return Err(ProtocolError::Magic { of: "NBD server", found: be_u64(&bytes[at..]) });
        }
    }
    let Some(greeting) = bytes.first_chunk::<GREETING>() else { return Ok(None) };
    let flags = be_u16(&greeting[16..]) & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
    if flags & FLAG_FIXED_NEWSTYLE == 0 {
        return Err(ProtocolError::NotFixed);
    }
    Ok(Some(flags.into()))
}

/// Appends an option; its data are the concatenated parts.
pub fn option(out: &mut Vec<u8>, option: u32, parts: &[&[u8]]) {
    let len = len_u32(parts.iter().map(|part| part.len()).sum());
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends `INFO` or `GO` with a list of requested kinds of information.
///
/// # Panics
///
/// If more than 65,535 kinds are requested.
pub fn info(out: &mut Vec<u8>, kind: u32, name: &str, wanted: &[u16]) {
    let wanted_bytes: Vec<u8> = wanted.iter().flat_map(|kind| kind.to_be_bytes()).collect();
    let count = u16::try_from(wanted.len())
        .expect("a client asks for fewer than 65536 kinds of information");
    let len = len_u32(name.len()).to_be_bytes();
    option(out, kind, &[&len, name.as_bytes(), &count.to_be_bytes(), &wanted_bytes]);
}

/// Appends a query for metadata contexts.
pub fn meta_context(out: &mut Vec<u8>, kind: u32, name: &str, questions: &[&str]) {
    let mut data = len_u32(name.len()).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&len_u32(questions.len()).to_be_bytes());
    for question in questions {
        data.extend_from_slice(&len_u32(question.len()).to_be_bytes());
        data.extend_from_slice(question.as_bytes());
    }
    option(out, kind, &[&data]);
}

/// One reply to an option.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OptionReply<'b> {
    /// Option that it replies to.
    pub option: u32,
    /// Reply type (`NBD_REP_*`).
    pub kind: u32,
    /// Payload.
    pub data: &'b [u8],
}

impl<'b> OptionReply<'b> {
    /// Parses the option reply at the start of `bytes` and returns it with its length; None if it
    /// is incomplete.
    ///
    /// # Errors
    ///
    /// If the bytes are no option reply, or it is longer than [`MAX_ANSWER`].
    #[expect(clippy::missing_panics_doc, reason = "an answer's length is checked first")]
    pub fn parse(bytes: &'b [u8]) -> Result<Option<(Self, usize)>, ProtocolError> {
        if bytes.len() >= 8 && be_u64(bytes) != OPTION_REPLY_MAGIC {
            return Err(ProtocolError::Magic { of: "answer", found: be_u64(bytes) });
        }
        let Some(head) = bytes.first_chunk::<ANSWER_HEAD>() else { return Ok(None) };
        let len = be_u32(&head[16..]);
        if len > MAX_ANSWER {
            return Err(ProtocolError::TooBig { len });
        }
        let end = ANSWER_HEAD
            + usize::try_from(len).expect("an answer's length was checked against MAX_ANSWER");
        let Some(data) = bytes.get(ANSWER_HEAD..end) else { return Ok(None) };
        Ok(Some((Self { option: be_u32(&head[8..]), kind: be_u32(&head[12..]), data }, end)))
    }

    /// Returns true for an error reply.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.kind & 0x8000_0000 != 0
    }

    /// Returns the payload as text; invalid UTF-8 is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.data).into_owned()
    }

    /// Copies size and flags from an `NBD_INFO_EXPORT` reply; other replies change nothing.
    pub fn note_export(&self, agreed: &mut Negotiated) {
        if let Some(data) = self.data.first_chunk::<12>()
            && be_u16(data) == INFO_EXPORT
        {
            agreed.size = be_u64(&data[2..]);
            agreed.read_only = be_u16(&data[10..]) & TRANSMIT_READ_ONLY != 0;
        }
    }
}

/// Header of a simple reply, or of a chunk of a structured one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReplyHead {
    /// Simple reply; the data of a read follows if `errno` is 0.
    Simple {
        /// Error number; 0 for success.
        errno: u32,
        /// Cookie of the request.
        cookie: u64,
    },
    /// Chunk of a structured reply; `len` bytes of payload follow.
    Chunk {
        /// [`super::wire::REPLY_FLAG_DONE`] on the last chunk.
        flags: u16,
        /// Chunk type (`NBD_REPLY_TYPE_*`).
        kind: u16,
        /// Cookie of the request.
        cookie: u64,
        /// Length of the payload in bytes.
        len: u32,
    },
}

impl ReplyHead {
    /// Parses the header at the start of `bytes` and returns it with its length; None if it is
    /// incomplete.
    ///
    /// # Errors
    ///
    /// If the bytes are no reply header, or a chunk is too long.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, ProtocolError> {
        if bytes.len() < 4 {
            return Ok(None);
        }
        match be_u32(bytes) {
            SIMPLE_REPLY_MAGIC => Ok(bytes.first_chunk::<16>().map(|head| {
                (Self::Simple { errno: be_u32(&head[4..]), cookie: be_u64(&head[8..]) }, 16)
            })),
            STRUCTURED_REPLY_MAGIC => {
                let Some(head) = bytes.first_chunk::<20>() else { return Ok(None) };
                let len = be_u32(&head[16..]);
                if len > MAX_PAYLOAD + 8 {
                    return Err(ProtocolError::TooBig { len });
                }
                let (flags, kind) = (be_u16(&head[4..]), be_u16(&head[6..]));
                Ok(Some((Self::Chunk { flags, kind, cookie: be_u64(&head[8..]), len }, 20)))
            }
            found => Err(ProtocolError::Magic { of: "reply", found: found.into() }),
        }
    }
}
