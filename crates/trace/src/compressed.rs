//! Compressed traces: gzip, xz and zstd, told by their first bytes.
//!
//! In:    bytes of a file.
//! Out:   the bytes that were compressed, as a stream.
//! Never: more memory than a window of 128 MiB, whatever the file says that it needs.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Returns the decompressed bytes, or the bytes themselves.
pub(crate) fn decompressed<'r>(mut input: impl BufRead + 'r) -> io::Result<Box<dyn BufRead + 'r>> {
    let head = input.fill_buf()?;
    if head.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(input))));
    }
    if head.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
        let xz = XzReader::new_mem_limit(input, true, XZ_LIMIT_KIB);
        return Ok(Box::new(BufReader::with_capacity(BUFFER, xz)));
    }
    if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let zstd = ZstdFrames { input, decoder: FrameDecoder::new(), is_inside: false };
        return Ok(Box::new(BufReader::with_capacity(BUFFER, zstd)));
    }
    Ok(Box::new(input))
}

/// The contents of all frames of a zstd file, one after the other.
struct ZstdFrames<R> {
    input: R,
    decoder: FrameDecoder,
    /// Whether a frame has begun and has not ended.
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
                // The decoder refuses windows of more than 100 MiB by itself.
                self.decoder.init(&mut self.input).map_err(io::Error::other)?;
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

/// Decompressed bytes that are held at a time.
const BUFFER: usize = 256 << 10;

/// The largest dictionary of `xz -9` is 64 MiB.
const XZ_LIMIT_KIB: u32 = 128 << 10;
