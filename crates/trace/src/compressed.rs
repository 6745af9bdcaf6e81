//! Decompresses traces in gzip, xz and zstd, detected by their first bytes, in at most 128 MiB.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Returns the decompressed bytes, or the input if it is not compressed.
pub(crate) fn decompressed<'r>(mut input: impl BufRead + 'r) -> io::Result<Box<dyn BufRead + 'r>> {
    let head = input.fill_buf()?;
    let (is_gzip, is_xz, is_zstd) = (
        head.starts_with(&[0x1f, 0x8b]),
        head.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]),
        head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
    );
    let at_end = Rc::new(Cell::new(false));
    let input = WatchedInput { input, at_end: Rc::clone(&at_end) };
    if is_gzip {
        return Ok(explained(MultiGzDecoder::new(input), "gzip", at_end));
    }
    if is_xz {
        return Ok(explained(XzReader::new_mem_limit(input, true, XZ_LIMIT_KIB), "xz", at_end));
    }
    if is_zstd {
        let zstd = ZstdFrames { input, decoder: FrameDecoder::new(), is_inside: false };
        return Ok(explained(zstd, "zstd", at_end));
    }
    Ok(Box::new(input.input))
}

/// Wraps a decoder to explain its errors.
fn explained<'r>(
    decoder: impl Read + 'r,
    what: &'static str,
    at_end: Rc<Cell<bool>>,
) -> Box<dyn BufRead + 'r> {
    let explained = ExplainedDecoder { decoder, what, at_end, has_begun: false };
    Box::new(BufReader::with_capacity(BUFFER, explained))
}

/// An input that records when its end was reached.
struct WatchedInput<R> {
    input: R,
    at_end: Rc<Cell<bool>>,
}

impl<R: BufRead> Read for WatchedInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.at_end.set(count == 0 && !buffer.is_empty());
        Ok(count)
    }
}

impl<R: BufRead> BufRead for WatchedInput<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.input.fill_buf()?;
        self.at_end.set(bytes.is_empty());
        Ok(bytes)
    }

    fn consume(&mut self, count: usize) {
        self.input.consume(count);
    }
}

/// A decoder with errors that describe the file instead of the decoder's state.
struct ExplainedDecoder<R> {
    decoder: R,
    what: &'static str,
    at_end: Rc<Cell<bool>>,
    /// True once the decoder has returned data.
    has_begun: bool,
}

impl<R: Read> Read for ExplainedDecoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.decoder.read(buffer) {
            Ok(count) => {
                self.has_begun |= count > 0;
                Ok(count)
            }
            Err(error) if is_of_system(&error) => Err(error),
            Err(error) => Err(self.explain(&error)),
        }
    }
}

impl<R> ExplainedDecoder<R> {
    fn explain(&self, error: &io::Error) -> io::Error {
        let kind = error.kind();
        // Decoders reject an invalid header with this error.
        let is_no_header = kind == io::ErrorKind::InvalidInput;
        let wrong = if self.at_end.get() || kind == io::ErrorKind::UnexpectedEof {
            "is cut off"
        } else if is_no_header && self.has_begun {
            "has other data after its end"
        } else {
            "is damaged, or needs more memory than allowed"
        };
        io::Error::new(kind, format!("its {} data {wrong}", self.what))
    }
}

/// Returns true for an error of reading the file, which needs no explanation.
fn is_of_system(error: &io::Error) -> bool {
    error.raw_os_error().is_some() || error.kind() == io::ErrorKind::Interrupted
}

/// Contents of all frames of a zstd file, concatenated.
struct ZstdFrames<R> {
    input: R,
    decoder: FrameDecoder,
    /// Inside a frame.
    is_inside: bool,
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_inside {
                if self.input.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                // The decoder itself refuses windows of more than 100 MiB.
                self.decoder
                    .init(&mut self.input)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
                self.is_inside = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.input, one).map_err(io::Error::other)?;
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            self.is_inside = false;
        }
    }
}

/// Size of the buffer for decompressed bytes.
const BUFFER: usize = 256 << 10;

/// Limit for xz; the dictionary of `xz -9` needs 64 MiB.
const XZ_LIMIT_KIB: u32 = 128 << 10;
