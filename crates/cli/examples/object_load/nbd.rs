//! A client of one NBD connection, one request at a time.
//!
//! In:    a Unix socket.
//! Out:   bytes of the default export.
//! Never: protocol options that reads do not need.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use crate::reader::Reader;

/// Connection to the default export of a server.
pub(crate) struct NbdReader(UnixStream);

impl NbdReader {
    pub(crate) fn connect(path: &str) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        // NBDMAGIC, IHAVEOPT, flags.
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        if &greeting[..16] != b"NBDMAGICIHAVEOPT" {
            return Err(io::Error::other("not an NBD server of the fixed newstyle"));
        }
        // Fixed newstyle, no zeroes; then NBD_OPT_EXPORT_NAME with an empty name.
        stream.write_all(&3_u32.to_be_bytes())?;
        stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0")?;
        stream.read_exact(&mut [0; 10])?;
        Ok(Self(stream))
    }
}

impl Reader for NbdReader {
    fn read_exact_at(&mut self, to: &mut [u8], at: u64) -> io::Result<()> {
        let len = u32::try_from(to.len()).map_err(io::Error::other)?;
        let mut request = Vec::with_capacity(28);
        request.extend(0x2560_9513_u32.to_be_bytes());
        // No flags, NBD_CMD_READ, a cookie.
        request.extend([0; 4]);
        request.extend(1_u64.to_be_bytes());
        request.extend(at.to_be_bytes());
        request.extend(len.to_be_bytes());
        self.0.write_all(&request)?;
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply)?;
        if reply[4..8] != [0; 4] {
            return Err(io::Error::other("the server answered with an error"));
        }
        self.0.read_exact(to)
    }

    fn another(&self) -> Option<Box<dyn Reader>> {
        None
    }
}
