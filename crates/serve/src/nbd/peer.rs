//! The client's side: what it sends, and how it reads what it gets.
//!
//! In:    bytes of a server, split anywhere; what to ask.
//! Out:   heads of answers and replies, and where their data is; bytes to send.
//! Never: a length that the server names, trusted: each has a bound.

use super::handshake::Negotiated;
use super::wire::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, INFO_EXPORT, INIT_MAGIC, MAX_PAYLOAD, OPTION_MAGIC,
    OPTION_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, TRANSMIT_READ_ONLY,
};
use super::{ProtocolError, be_u16, be_u32, be_u64, len_u32};

/// The length of the server's greeting.
pub const GREETING: usize = 18;
/// The longest answer to an option that is looked at, in bytes.
pub const MAX_ANSWER: u32 = 16 << 20;

const ANSWER_HEAD: usize = 20;

/// The flags to answer a greeting with; None if it has not all come.
///
/// # Errors
///
/// If it is the greeting of something else.
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

/// Puts an option out, whose data are these parts.
pub fn option(out: &mut Vec<u8>, option: u32, parts: &[&[u8]]) {
    let len = len_u32(parts.iter().map(|part| part.len()).sum());
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Puts `INFO` or `GO` out, which also ask for these kinds of information.
///
/// # Panics
///
/// If more than 65535 kinds are wanted.
pub fn info(out: &mut Vec<u8>, kind: u32, name: &str, wanted: &[u16]) {
    let wanted_bytes: Vec<u8> = wanted.iter().flat_map(|kind| kind.to_be_bytes()).collect();
    let count = u16::try_from(wanted.len())
        .expect("a client asks for fewer than 65536 kinds of information");
    let len = len_u32(name.len()).to_be_bytes();
    option(out, kind, &[&len, name.as_bytes(), &count.to_be_bytes(), &wanted_bytes]);
}

/// Puts a question for metadata contexts out.
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

/// One answer to an option.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OptionReply<'b> {
    /// To which.
    pub option: u32,
    /// What it is.
    pub kind: u32,
    /// What is in it.
    pub data: &'b [u8],
}

impl<'b> OptionReply<'b> {
    /// The answer that `bytes` begin with, and its length; None if it has not all come.
    ///
    /// # Errors
    ///
    /// If it is none, or too long.
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

    /// Whether it says no.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.kind & 0x8000_0000 != 0
    }

    /// Its text, as far as it is one.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.data).into_owned()
    }

    /// Takes size and flags over, if it is about these.
    pub fn note_export(&self, agreed: &mut Negotiated) {
        if let Some(data) = self.data.first_chunk::<12>()
            && be_u16(data) == INFO_EXPORT
        {
            agreed.size = be_u64(&data[2..]);
            agreed.read_only = be_u16(&data[10..]) & TRANSMIT_READ_ONLY != 0;
        }
    }
}

/// The head of a reply, or of one of its chunks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReplyHead {
    /// A simple one; the data of a read follows if `errno` is 0.
    Simple {
        /// What failed; 0: nothing.
        errno: u32,
        /// Which request.
        cookie: u64,
    },
    /// A chunk of a structured one, after which `len` bytes follow.
    Chunk {
        /// [`super::wire::REPLY_FLAG_DONE`] with the last.
        flags: u16,
        /// What is in it.
        kind: u16,
        /// Which request.
        cookie: u64,
        /// How many bytes follow.
        len: u32,
    },
}

impl ReplyHead {
    /// The head that `bytes` begin with, and its length; None if it has not all come.
    ///
    /// # Errors
    ///
    /// If it is none, or of a chunk that is too long.
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
