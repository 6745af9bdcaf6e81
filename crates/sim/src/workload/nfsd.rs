//! An NFS server and its single client: a pool of threads that share one sequential file.
//!
//! ```text
//!   client                 requests of rsize                server
//!   reads 64K,  --------> [ 7 | 6 | 5 | 4 ] ------------->  nfsd-0: read, send
//!   cache keeps            first come, first served         nfsd-1: read, send
//!   15 requests <--- link: one reply after the other <----  ...
//!   ahead
//! ```
//!
//! The stream arrives in order, and each request is served by the next idle thread.

use std::collections::BTreeSet;
use std::rc::Rc;

use foreread_core::units::{ByteCount, Nanos};
use serde::Deserialize;

use crate::channel::{BandwidthLink, Channel};
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::reader::SimReader;
use crate::run::SimFile;
use crate::size::Size;
use crate::time::{check_time, ns_of_ms};
use crate::validate::check;

/// A client that reads one file, and the pool that serves it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nfsd {
    /// File on the server.
    pub file: String,
    /// Number of server threads.
    #[serde(default = "eight")]
    pub threads: u32,
    /// Size of a request.
    #[serde(default = "rsize")]
    pub rsize: Size,
    /// Read-ahead window of the client: it requests the next window when the program reaches the
    /// last requested one.
    #[serde(default = "client_window")]
    pub client_window: Size,
    /// Read size of the client's program.
    #[serde(default = "client_read")]
    pub read: Size,
    /// Total bytes; by default, to the end of the file.
    pub amount: Option<Size>,
    /// CPU time of the client's program per byte, in ns.
    #[serde(default)]
    pub client_cpu_ns_per_byte: f64,
    /// Bandwidth of the network; replies are sent one after the other.
    pub link_mb_per_s: f64,
    /// Network latency in each direction, in addition to the transfer.
    #[serde(default)]
    pub latency_us: f64,
    /// CPU time of a thread per request.
    #[serde(default)]
    pub cpu_us: f64,
    /// CPU time of a thread per byte, in ns.
    #[serde(default)]
    pub cpu_ns_per_byte: f64,
    /// Owner of the file's read-ahead state.
    #[serde(default)]
    pub state: StateOwner,
}

/// Owner of the file's read-ahead state.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum StateOwner {
    /// Shared by all threads: the server keeps it for a file between requests.
    #[default]
    Shared,
    /// Separate for each thread, like workers that keep the file open.
    Thread,
    /// New for each request: the file is opened and closed each time.
    Request,
}

/// A request of the client.
#[derive(Clone, Copy, Debug)]
struct NfsRequest {
    index: u64,
    pos: ByteCount,
    len: ByteCount,
    /// Arrival at the server.
    at: Nanos,
}

/// A reply of the server.
#[derive(Clone, Copy, Debug)]
struct NfsReply {
    index: u64,
    /// Arrival at the client.
    at: Nanos,
}

/// Connection between client and server.
#[derive(Debug)]
struct NfsWire {
    /// None ends a thread.
    requests: Rc<Channel<Option<NfsRequest>>>,
    replies: Rc<Channel<NfsReply>>,
    link: Rc<BandwidthLink>,
}

impl Nfsd {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        machine.file(&self.file)?;
        check((1..=1024).contains(&self.threads), "threads", "1 to 1024")?;
        check(self.rsize.0 > ByteCount::ZERO, "rsize", "at least a byte")?;
        let (window, rsize) = (self.client_window.0, self.rsize.0);
        let is_whole = window >= rsize && window.0.is_multiple_of(rsize.0);
        check(is_whole, "client_window", "whole requests of rsize, at least one")?;
        check(self.read.0 > ByteCount::ZERO, "read", "at least a byte")?;
        let rate = self.link_mb_per_s;
        check(rate.is_finite() && (1e-3..=1e6).contains(&rate), "link_mb_per_s", "0.001 to 10^6")?;
        check_time(self.client_cpu_ns_per_byte / 1e6, "client_cpu_ns_per_byte")?;
        check_time(self.latency_us / 1e3, "latency_us")?;
        check_time(self.cpu_us / 1e3, "cpu_us")?;
        check_time(self.cpu_ns_per_byte / 1e6, "cpu_ns_per_byte")
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        start: Nanos,
    ) -> Result<(), String> {
        let file = building.file(&self.file)?;
        let params = self.clone();
        let own = name.to_owned();
        building.begin(name, start, async move |process: Process| {
            let link = BandwidthLink::new(params.link_mb_per_s);
            let wire = Rc::new(NfsWire { requests: Channel::new(), replies: Channel::new(), link });
            let shared = process.open(file);
            for index in 0..params.threads {
                let (params, wire) = (params.clone(), Rc::clone(&wire));
                process.spawn(&format!("{own}-nfsd-{index}"), |thread: Process| {
                    let shared = shared.shared_with(&thread);
                    async move { params.serve(&thread, file, shared, &wire).await }
                });
            }
            params.ask(&process, file, &wire).await;
            for _ in 0..params.threads {
                wire.requests.send(&process, None);
            }
        });
        Ok(())
    }

    /// Runs the client.
    ///
    /// ```text
    ///   |======= window =======|======= window =======|
    ///   ^ read                 ^marker: when the program gets here, it requests the next window
    /// ```
    async fn ask(&self, process: &Process, file: SimFile, wire: &NfsWire) {
        let end = self.amount.map_or(file.len, |amount| amount.0.min(file.len));
        let (mut pos, mut asked, mut marker) = (ByteCount::ZERO, ByteCount::ZERO, ByteCount::ZERO);
        let mut here = BTreeSet::new();
        while pos < end {
            let next = pos + self.read.0.min(end - pos);
            // A read may span more than two windows.
            while (pos >= marker || asked < next) && asked < end {
                marker = asked;
                let window_end = asked + self.client_window.0.min(end - asked);
                asked = self.ask_window(process, asked, window_end, wire);
            }
            let began = process.now();
            for index in pos.0 / self.rsize.0.0..next.0.div_ceil(self.rsize.0.0) {
                while !here.contains(&index) {
                    let reply = wire.replies.receive(process).await;
                    process.until(reply.at).await;
                    here.insert(reply.index);
                }
            }
            process.pass_ns(of_bytes(self.client_cpu_ns_per_byte, next - pos)).await;
            process.meter(|meter, now| meter.op(began, now, next - pos));
            pos = next;
            here = here.split_off(&(pos.0 / self.rsize.0.0));
        }
    }

    /// Requests a window, split at multiples of `rsize`. Returns its end.
    fn ask_window(
        &self,
        process: &Process,
        from: ByteCount,
        to: ByteCount,
        wire: &NfsWire,
    ) -> ByteCount {
        let at = Nanos(process.now().0.saturating_add(ns_of_ms(self.latency_us / 1e3)));
        let mut pos = from;
        while pos < to {
            let index = pos.0 / self.rsize.0.0;
            let next = ByteCount((index + 1) * self.rsize.0.0).min(to);
            wire.requests.send(process, Some(NfsRequest { index, pos, len: next - pos, at }));
            pos = next;
        }
        pos
    }

    /// Runs one thread of the server.
    async fn serve(&self, thread: &Process, file: SimFile, shared: SimReader, wire: &NfsWire) {
        let kept = thread.open(file);
        while let Some(request) = wire.requests.receive(thread).await {
            thread.until(request.at).await;
            thread.pass_ns(ns_of_ms(self.cpu_us / 1e3)).await;
            let NfsRequest { index, pos, len, .. } = request;
            let read = match self.state {
                StateOwner::Shared => shared.read(pos, len).await,
                StateOwner::Thread => kept.read(pos, len).await,
                StateOwner::Request => thread.open(file).read(pos, len).await,
            };
            let Ok(got) = read else { return };
            thread.pass_ns(of_bytes(self.cpu_ns_per_byte, got)).await;
            wire.link.send(thread, got).await;
            let at = Nanos(thread.now().0.saturating_add(ns_of_ms(self.latency_us / 1e3)));
            wire.replies.send(thread, NfsReply { index, at });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a request is small")]
fn of_bytes(ns_per_byte: f64, bytes: ByteCount) -> u64 {
    ns_of_ms(ns_per_byte * bytes.0 as f64 / 1e6)
}

fn eight() -> u32 {
    8
}

fn rsize() -> Size {
    Size(ByteCount(256 << 10))
}

fn client_window() -> Size {
    Size(ByteCount(15 * (256 << 10)))
}

fn client_read() -> Size {
    Size(ByteCount(64 << 10))
}
