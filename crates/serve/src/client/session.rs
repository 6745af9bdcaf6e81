//! Requests and replies of a client that has taken an export.
//!
//! In:    requests, one or many at a time.
//! Out:   answers, in the order in which they come.
//! Never: an answer that matches no request.

use std::collections::HashMap;

use super::{ClientError, ClientSocket};
use crate::nbd::handshake::Negotiated;
use crate::nbd::peer::ReplyHead;
use crate::nbd::request::NbdRequest;
use crate::nbd::wire;

/// A client that has taken an export.
#[derive(Debug)]
pub struct Session {
    wire: ClientSocket,
    agreed: Negotiated,
    /// Offset and length of reads: simple replies do not carry them.
    reads: HashMap<u64, (u64, u32)>,
    out: Vec<u8>,
    next_cookie: u64,
}

/// A piece of an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReplyPiece<'b> {
    /// Data at an offset.
    Data(u64, &'b [u8]),
    /// Offset and number of zeroes.
    Zeroes(u64, u32),
    /// Extents: a length and a state, in the protocol's bytes, eight each.
    Extents(&'b [u8]),
    /// The request failed with this error number.
    Error(u32),
    /// The reply is complete.
    Done,
}

impl Session {
    pub(super) fn new(wire: ClientSocket, agreed: Negotiated) -> Self {
        Self { wire, agreed, reads: HashMap::new(), out: Vec::new(), next_cookie: 1 }
    }

    /// Returns the result of the handshake.
    #[must_use]
    pub fn agreed(&self) -> &Negotiated {
        &self.agreed
    }

    /// Sends requests in one piece, each with its payload.
    ///
    /// # Errors
    ///
    /// If the server is gone.
    pub fn send(&mut self, requests: &[(NbdRequest, &[u8])]) -> Result<(), ClientError> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        for (request, payload) in requests {
            out.extend_from_slice(&request.bytes());
            out.extend_from_slice(payload);
            if request.command == wire::CMD_READ && !self.agreed.structured {
                self.reads.insert(request.cookie, (request.offset, request.len));
            }
        }
        let sent = self.wire.send(&out);
        self.out = out;
        sent
    }

    /// Handles received replies; blocks only until one is complete. Returns the number of requests
    /// that were answered.
    ///
    /// # Errors
    ///
    /// If the server is gone, or breaks the protocol.
    pub fn receive(
        &mut self,
        mut take: impl FnMut(u64, ReplyPiece<'_>),
    ) -> Result<usize, ClientError> {
        let (mut done, mut is_any) = (0, false);
        loop {
            while let Some(used) = self.one(&mut take, &mut done)? {
                self.wire.start += used;
                is_any = true;
            }
            if is_any {
                return Ok(done);
            }
            self.wire.receive()?;
        }
    }

    fn one(
        &mut self,
        take: &mut impl FnMut(u64, ReplyPiece<'_>),
        done: &mut usize,
    ) -> Result<Option<usize>, ClientError> {
        let bytes = self.wire.bytes();
        let Some((reply, head)) = ReplyHead::parse(bytes)? else { return Ok(None) };
        match reply {
            ReplyHead::Simple { errno, cookie } => {
                let (offset, len) = match self.reads.get(&cookie) {
                    Some(read) if errno == 0 => *read,
                    _ => (0, 0),
                };
                let end = head + len as usize;
                let Some(data) = bytes.get(head..end) else { return Ok(None) };
                self.reads.remove(&cookie);
                if errno != 0 {
                    take(cookie, ReplyPiece::Error(errno));
                } else if len > 0 {
                    take(cookie, ReplyPiece::Data(offset, data));
                }
                take(cookie, ReplyPiece::Done);
                *done += 1;
                Ok(Some(end))
            }
            ReplyHead::Chunk { flags, kind, cookie, len } => {
                let end = head + len as usize;
                let Some(data) = bytes.get(head..end) else { return Ok(None) };
                take(cookie, chunk(kind, data)?);
                if flags & wire::REPLY_FLAG_DONE != 0 {
                    if kind != wire::REPLY_NONE {
                        take(cookie, ReplyPiece::Done);
                    }
                    *done += 1;
                }
                Ok(Some(end))
            }
        }
    }

    /// Sends one request and waits for the reply: the data of a read, or the bytes of extents. The
    /// inner error is the error number of the reply.
    ///
    /// # Errors
    ///
    /// If the server is gone, or breaks the protocol.
    pub fn ask(
        &mut self,
        request: NbdRequest,
        payload: &[u8],
    ) -> Result<Result<Vec<u8>, u32>, ClientError> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let request = NbdRequest { cookie, ..request };
        let room = if request.command == wire::CMD_READ { request.len as usize } else { 0 };
        self.send(&[(request, payload)])?;
        let mut got = Ok(vec![0; room.min(wire::MAX_PAYLOAD as usize)]);
        let mut is_other = false;
        loop {
            let done = self.receive(|its, answer| {
                is_other |= its != cookie;
                match (answer, &mut got) {
                    (ReplyPiece::Data(offset, data), Ok(got)) => {
                        let at = usize::try_from(offset.wrapping_sub(request.offset)).ok();
                        let end = at.and_then(|at| at.checked_add(data.len()));
                        match at.zip(end).and_then(|(at, end)| got.get_mut(at..end)) {
                            Some(part) => part.copy_from_slice(data),
                            None => is_other = true,
                        }
                    }
                    (ReplyPiece::Extents(bytes), Ok(got)) => got.extend_from_slice(bytes),
                    (ReplyPiece::Error(errno), got) => *got = Err(errno),
                    (ReplyPiece::Zeroes(..) | ReplyPiece::Done, _) | (_, Err(_)) => {}
                }
            })?;
            if is_other {
                return Err(ClientError::new("the server's answer matches no request".into()));
            }
            if done > 0 {
                return Ok(got);
            }
        }
    }

    /// Reads bytes of the export.
    ///
    /// # Errors
    ///
    /// As [`Self::ask`]; and the number of an error in words.
    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, ClientError> {
        let request = NbdRequest { command: wire::CMD_READ, offset, len, ..NbdRequest::default() };
        self.ask(request, &[])?.map_err(failed)
    }

    /// Writes bytes; with `fua`, they are durable on return.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    ///
    /// # Panics
    ///
    /// If there are 4 GiB or more.
    pub fn write(&mut self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), ClientError> {
        let len = u32::try_from(bytes.len())
            .expect("the payload of one write request has less than 4 GiB");
        let flags = if fua { wire::CMD_FLAG_FUA } else { 0 };
        let request = NbdRequest { command: wire::CMD_WRITE, flags, offset, len, cookie: 0 };
        self.ask(request, bytes)?.map_err(failed).map(drop)
    }

    /// Flushes: all completed writes are durable on return.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn flush(&mut self) -> Result<(), ClientError> {
        let request = NbdRequest { command: wire::CMD_FLUSH, ..NbdRequest::default() };
        self.ask(request, &[])?.map_err(failed).map(drop)
    }

    /// Disconnects with the protocol's request for it.
    ///
    /// # Errors
    ///
    /// If the server has already closed the connection.
    pub fn leave(mut self) -> Result<(), ClientError> {
        self.wire.send(&NbdRequest { command: wire::CMD_DISC, ..NbdRequest::default() }.bytes())
    }
}

fn chunk(kind: u16, data: &[u8]) -> Result<ReplyPiece<'_>, ClientError> {
    let short = || ClientError::new(format!("a chunk of kind {kind:#x} is too short"));
    let offset = data.first_chunk().map(|offset| u64::from_be_bytes(*offset));
    Ok(match kind {
        wire::REPLY_NONE => ReplyPiece::Done,
        wire::REPLY_OFFSET_DATA => ReplyPiece::Data(offset.ok_or_else(short)?, &data[8..]),
        wire::REPLY_OFFSET_HOLE => {
            let len = data.get(8..).and_then(|len| len.first_chunk()).ok_or_else(short)?;
            ReplyPiece::Zeroes(offset.ok_or_else(short)?, u32::from_be_bytes(*len))
        }
        wire::REPLY_BLOCK_STATUS => ReplyPiece::Extents(data.get(4..).ok_or_else(short)?),
        kind if kind & 0x8000 != 0 => {
            let errno = data.first_chunk().ok_or_else(short)?;
            ReplyPiece::Error(u32::from_be_bytes(*errno))
        }
        kind => return Err(ClientError::new(format!("a chunk of an unknown kind {kind:#x}"))),
    })
}

fn failed(errno: u32) -> ClientError {
    let errno = i32::try_from(errno).unwrap_or(i32::MAX);
    ClientError::new(format!("the server's message: {}", std::io::Error::from_raw_os_error(errno)))
}
