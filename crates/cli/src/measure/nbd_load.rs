//! The verb that reads from an NBD server as fast as one connection does, with requests in batches.
//!
//! Shares no code with the server, so that a bug of both cannot hide.
//!
//! ```text
//!   send  RRRR RRRR             RRRR            RRRR     one write for all that may go
//!   get         ---- d d d d ---- ---- d d d d ----      until half of them are back
//! ```
//!
//! The same load by libnbd, which sends request for request: bench/lab/nbd_load.c.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use super::random::mix;
use crate::clock::clock;
use crate::output::{Failure, Printer};

/// Hidden verb that runs the load in a separate process.
pub const VERB: &str = "nbd-load";

/// Same arguments as `nbd_load.c`.
#[derive(Clone, Debug, Args)]
pub struct NbdLoadArgs {
    /// nbd+unix:///EXPORT?socket=PATH or nbd://HOST:PORT/EXPORT
    uri: String,
    /// rand4k seq4k seq64k seq1m inter2 inter2-64k; sum: all of it once
    #[arg(value_parser = pattern)]
    pattern: LoadPattern,
    /// Requests under way
    #[arg(value_parser = clap::value_parser!(u32).range(1..=128))]
    depth: u32,
    seconds: f64,
    amount_mib: u64,
    /// Read only this part
    #[arg(default_value_t = 0)]
    part: u64,
    /// Number of parts
    #[arg(default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    parts: u64,
}

#[derive(Clone, Copy, Debug)]
struct LoadPattern {
    name: &'static str,
    block: u32,
    /// Number of sequential streams; 0 for random reads.
    streams: u64,
}

const PATTERNS: [LoadPattern; 7] = [
    LoadPattern { name: "rand4k", block: 4 << 10, streams: 0 },
    LoadPattern { name: "seq4k", block: 4 << 10, streams: 1 },
    LoadPattern { name: "seq64k", block: 64 << 10, streams: 1 },
    LoadPattern { name: "seq1m", block: 1 << 20, streams: 1 },
    LoadPattern { name: "inter2", block: 4 << 10, streams: 2 },
    LoadPattern { name: "inter2-64k", block: 64 << 10, streams: 2 },
    LoadPattern { name: SUM, block: 1 << 20, streams: 1 },
];

const SUM: &str = "sum";

fn pattern(name: &str) -> Result<LoadPattern, String> {
    let names = || PATTERNS.map(|pattern| pattern.name).join(", ");
    let found = PATTERNS.into_iter().find(|pattern| pattern.name == name);
    found.ok_or_else(|| format!("no such pattern; choose from {}", names()))
}

pub fn run(args: &NbdLoadArgs, out: &mut Printer) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Check(format!("{}: {error}", args.uri));
    let (wire, size) = connect(&args.uri).map_err(failed)?;
    let blocks = size / args.parts / u64::from(args.pattern.block);
    if blocks == 0 || args.part >= args.parts {
        let line = format!("{}: {size} bytes are too few for this", args.uri);
        return Err(Failure::WrongUse(line));
    }
    let figures = NbdLoad::new(args, wire, blocks).run().map_err(failed)?;
    let line = serde_json::to_string(&figures).map_err(io::Error::from)?;
    out.line(&line)
}

#[derive(Debug, Serialize)]
struct LoadFigures {
    client: &'static str,
    pattern: &'static str,
    depth: u32,
    ops: u64,
    seconds: f64,
    ops_per_s: f64,
    mb_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    sum: String,
}

trait NbdTransport: Read + Write {}
impl NbdTransport for UnixStream {}
impl NbdTransport for TcpStream {}

struct NbdLoad<'a> {
    args: &'a NbdLoadArgs,
    wire: Box<dyn NbdTransport>,
    blocks: u64,
    /// Number of blocks to request.
    most: u64,
    asked: u64,
    seed: u64,
    /// Requests under way: where, and since when.
    slots: Vec<(u64, Instant)>,
    idle: Vec<u32>,
    took_us: Vec<f32>,
    sum: u64,
}

impl<'a> NbdLoad<'a> {
    fn new(args: &'a NbdLoadArgs, wire: Box<dyn NbdTransport>, blocks: u64) -> Self {
        let most = (args.amount_mib << 20) / u64::from(args.pattern.block);
        let is_once = args.pattern.streams > 1 || args.pattern.name == SUM;
        let started = clock();
        Self {
            args,
            wire,
            blocks,
            most: if is_once { most.min(blocks) } else { most },
            asked: 0,
            seed: mix(args.part ^ u64::from(std::process::id())),
            slots: vec![(0, started); args.depth as usize],
            idle: (0..args.depth).collect(),
            took_us: Vec::new(),
            sum: 0,
        }
    }

    fn run(mut self) -> io::Result<LoadFigures> {
        let block = self.args.pattern.block as usize;
        let is_sum = self.args.pattern.name == SUM;
        let time = Duration::try_from_secs_f64(self.args.seconds).map_err(io::Error::other)?;
        let began = clock();
        let mut requests = Vec::new();
        let mut replies = vec![0; (block + REPLY) * 2 + BATCH];
        let (mut start, mut end) = (0, 0);
        loop {
            let is_time = is_sum || clock().duration_since(began) < time;
            while is_time && self.asked < self.most && !self.idle.is_empty() {
                self.ask(&mut requests);
            }
            if self.idle.len() == self.slots.len() {
                break;
            }
            self.wire.write_all(&requests)?;
            requests.clear();
            let goes_on = is_time && self.asked < self.most;
            let all = self.slots.len();
            let enough = if goes_on { all.div_ceil(2) } else { all };
            while self.idle.len() < enough {
                if end - start < REPLY + block {
                    replies.copy_within(start..end, 0);
                    (start, end) = (0, end - start);
                    match self.wire.read(&mut replies[end..])? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        got => end += got,
                    }
                }
                while end - start >= REPLY + block && self.idle.len() < self.slots.len() {
                    self.take(&replies[start..start + REPLY + block])?;
                    start += REPLY + block;
                }
            }
        }
        Ok(self.figures(clock().duration_since(began)))
    }

    fn ask(&mut self, requests: &mut Vec<u8>) {
        let LoadPattern { block, streams, .. } = self.args.pattern;
        let (at, blocks) = (self.asked, self.blocks);
        let at = match streams {
            0 => mix(self.seed.wrapping_add(at)) % blocks,
            _ => (at / streams + at % streams * (blocks / streams)) % blocks,
        };
        let offset = (self.args.part * blocks + at) * u64::from(block);
        let slot = self.idle.pop().expect("the caller asks only while a slot is idle");
        self.slots[slot as usize] = (offset, clock());
        self.asked += 1;
        requests.extend(REQUEST_MAGIC.to_be_bytes());
        // No flags, and a read is command 0.
        requests.extend([0; 4]);
        requests.extend(u64::from(slot).to_be_bytes());
        requests.extend(offset.to_be_bytes());
        requests.extend(block.to_be_bytes());
    }

    /// Takes one complete reply.
    fn take(&mut self, reply: &[u8]) -> io::Result<()> {
        let (head, data) = reply.split_at(REPLY);
        let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        if be32(&head[..4]) != REPLY_MAGIC {
            return Err(wrong("the magic number of the reply is wrong".to_owned()));
        }
        match be32(&head[4..8]) {
            0 => {}
            error => return Err(wrong(format!("a read fails with error {error}"))),
        }
        let slot = be64(&head[8..]);
        let known = usize::try_from(slot).ok().filter(|slot| *slot < self.slots.len());
        let (offset, since) = self.slots[known.ok_or_else(|| wrong("whose reply?".to_owned()))?];
        self.took_us.push(clock().duration_since(since).as_secs_f32() * 1e6);
        self.idle.push(u32::try_from(slot).expect("slots are fewer than 2^32, checked above"));
        if self.args.pattern.name == SUM {
            self.sum = self.sum.wrapping_add(sum_of(data, offset));
        }
        Ok(())
    }

    fn figures(mut self, elapsed: Duration) -> LoadFigures {
        self.took_us.sort_by(f32::total_cmp);
        let of = |percent: usize| {
            let at = self.took_us.len() * percent / 100;
            self.took_us.get(at).map_or(0.0, |us| f64::from(*us))
        };
        let (ops, seconds) = (self.took_us.len() as u64, elapsed.as_secs_f64());
        LoadFigures {
            client: "batching",
            pattern: self.args.pattern.name,
            depth: self.args.depth,
            ops,
            seconds,
            ops_per_s: ops as f64 / seconds,
            mb_per_s: (ops * u64::from(self.args.pattern.block)) as f64 / seconds / 1e6,
            p50_us: of(50),
            p99_us: of(99),
            sum: format!("{:016x}", self.sum),
        }
    }
}

/// Returns a sum of all words, each rotated by its position: blocks may arrive in any order.
fn sum_of(bytes: &[u8], offset: u64) -> u64 {
    let word = |word: &[u8]| {
        u64::from_le_bytes(word.try_into().expect("chunks and fields of eight bytes are sliced"))
    };
    let words = (offset..).step_by(8).zip(bytes.chunks_exact(8));
    words.fold(0, |sum: u64, (place, bytes)| {
        sum.wrapping_add((word(bytes) ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    })
}

/// Connects, chooses the export, and returns its size. Replies are simple ones, as structured
/// replies are not negotiated.
fn connect(uri: &str) -> io::Result<(Box<dyn NbdTransport>, u64)> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let (mut wire, export): (Box<dyn NbdTransport>, &str) =
        if let Some(rest) = uri.strip_prefix("nbd+unix:///") {
            let (export, path) = rest.split_once("?socket=").ok_or_else(|| wrong("no socket"))?;
            (Box::new(UnixStream::connect(path)?), export)
        } else if let Some(rest) = uri.strip_prefix("nbd://") {
            let (address, export) = rest.split_once('/').unwrap_or((rest, ""));
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            (Box::new(stream), export)
        } else {
            return Err(wrong("give nbd+unix:///EXPORT?socket=PATH or nbd://HOST:PORT/EXPORT"));
        };
    let mut hello = [0; 18];
    wire.read_exact(&mut hello)?;
    if be64(&hello[..8]) != HELLO_MAGIC || be64(&hello[8..16]) != OPTION_MAGIC {
        return Err(wrong("no NBD server of this century"));
    }
    let name_len = u32::try_from(export.len()).map_err(io::Error::other)?;
    let mut go = Vec::new();
    // Fixed newstyle.
    go.extend(1_u32.to_be_bytes());
    go.extend(OPTION_MAGIC.to_be_bytes());
    go.extend(OPTION_GO.to_be_bytes());
    go.extend((name_len + 6).to_be_bytes());
    go.extend(name_len.to_be_bytes());
    go.extend(export.as_bytes());
    go.extend(0_u16.to_be_bytes());
    wire.write_all(&go)?;
    let mut size = None;
    loop {
        let mut head = [0; 20];
        wire.read_exact(&mut head)?;
        let mut data = vec![0; be32(&head[16..]) as usize & 0xffff];
        wire.read_exact(&mut data)?;
        match be32(&head[12..16]) {
            REPLY_ACK => break,
            REPLY_INFO if data.len() == 12 && data[..2] == [0, 0] => {
                size = Some(be64(&data[2..10]));
            }
            REPLY_INFO => {}
            _ => return Err(wrong("the server refuses this export")),
        }
    }
    Ok((wire, size.ok_or_else(|| wrong("the server does not say how large it is"))?))
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("fields of four bytes are sliced"))
}

fn be64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("chunks and fields of eight bytes are sliced"))
}

const HELLO_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// The head of a reply.
const REPLY: usize = 16;

/// Room for many small replies at once.
const BATCH: usize = 256 << 10;
