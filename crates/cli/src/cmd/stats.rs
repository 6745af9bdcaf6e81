//! `foreread stats`: what a server does, and what it has learnt.
//!
//! In:    the Unix socket of a server.
//! Out:   tables, or the server's own JSON.
//! Never: a connection that stays; a change.

mod report;

use clap::Args as Flags;
use foreread_serve::client::Client;
use foreread_serve::stats::ServerStats;

use crate::flags::CODES_AND_UNITS;
use crate::output::{Failure, Output};

/// Show what a server does: hits, read-ahead, the device, its clients
///
/// Asks the `foreread serve` that listens on SOCKET. Counts begin with the server; what is "now" is
/// of this moment. docs/serve.md says what each of them means.
#[derive(Debug, Flags)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct Args {
    /// The Unix socket of the server, or its NBD URI
    socket: String,

    /// Print one JSON object
    ///
    /// Keys: version, up_s, export, memory, reads, pages, ahead (with windows, a list of
    /// up_to_bytes and count), cache, writes, device (read and write: requests, bytes, queued,
    /// in_flight, limit, expired, fit), clients. Keys that exist keep their meaning; others may be
    /// added.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  foreread stats /tmp/disk.sock
  foreread stats /tmp/disk.sock --json | jq .ahead.evicted_before_use

";

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<(), Failure> {
    let text = ask(&args.socket, "stats")?;
    // Through our own shape, so that a stranger's answer is not passed on.
    let stats: ServerStats = understood(&args.socket, &text)?;
    if args.json { out.json_one(&stats) } else { report::print(out, &stats) }
}

/// Asks a server one thing.
pub(super) fn ask(socket: &str, what: &str) -> Result<String, Failure> {
    let mut client =
        Client::connect(socket).map_err(|error| Failure::WrongUse(error.to_string()))?;
    client.control(what).map_err(|error| Failure::Check(error.to_string()))
}

/// What it answered, if that has the form it should have.
pub(super) fn understood<T: serde::de::DeserializeOwned>(
    socket: &str,
    text: &str,
) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| {
        let line = format!("{socket}: an answer that is not understood ({error}); is it foreread?");
        Failure::WrongUse(line)
    })
}
