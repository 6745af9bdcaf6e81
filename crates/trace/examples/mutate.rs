//! Feeds damaged traces to the parsers until a limit of time or cases, or until one shows a bug.
//!
//!     cargo run --release -p foreread-trace --example mutate -- --seconds 600
//!     cargo run --release -p foreread-trace --example mutate -- --format blkparse --cases 1000000
//!
//! | option | |
//! |---|---|
//! | `--format PARSER` | one parser: a format, or gzip, xz or zstd; default: all in turn |
//! | `--seconds N` | time for each parser |
//! | `--cases N` | traces for each parser; default without `--seconds`: 1000000 |
//! | `--seed N` | determines the cases; default: 1 |
//! | `--from N` | the first case; with `--cases 1`, repeats the case of a bug |
//!
//! A bug is a panic; its message has the seed, the case and the bytes. For each parser, one line
//! has the number of traces, their bytes and the speed.

#[path = "../tests/support/mutation.rs"]
mod mutation;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use mutation::Subject;

/// Parsed arguments.
struct MutateArgs {
    subjects: Vec<Subject>,
    seconds: Option<u64>,
    cases: u64,
    seed: u64,
    from: u64,
}

impl MutateArgs {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed =
            Self { subjects: Subject::all(), seconds: None, cases: 1_000_000, seed: 1, from: 0 };
        while let Some(flag) = args.next() {
            let value = args.next().ok_or_else(|| format!("{flag}: wants a value"))?;
            let number = || value.parse().map_err(|_| format!("{flag} {value}: wants a number"));
            match flag.as_str() {
                "--format" => parsed.subjects.retain(|subject| subject.name() == value),
                "--seconds" => parsed.seconds = Some(number()?),
                "--cases" => parsed.cases = number()?,
                "--seed" => parsed.seed = number()?,
                "--from" => parsed.from = number()?,
                _ => {
                    return Err(format!(
                        "{flag}: is none of --format, --seconds, --cases, --seed, --from"
                    ));
                }
            }
            if parsed.subjects.is_empty() {
                let names = Subject::all().into_iter().map(Subject::name);
                let names = names.collect::<Vec<_>>().join(", ");
                return Err(format!("--format {value}: wants one of {names}"));
            }
        }
        Ok(parsed)
    }
}

fn main() -> ExitCode {
    let args = match MutateArgs::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("mutate: {why}");
            return ExitCode::from(2);
        }
    };
    for subject in &args.subjects {
        read(*subject, &args);
    }
    ExitCode::SUCCESS
}

/// Feeds one parser its cases and prints their number.
fn read(subject: Subject, args: &MutateArgs) {
    let began = now();
    let (mut next, mut bytes) = (args.from, 0);
    let took = loop {
        let end = match args.seconds {
            Some(_) => next + BETWEEN_LOOKS,
            None => args.from + args.cases,
        };
        bytes += mutation::read_damaged(subject, args.seed, next..end);
        next = end;
        let took = now().duration_since(began);
        if args.seconds.is_none_or(|seconds| took >= Duration::from_secs(seconds)) {
            break took.as_secs_f64();
        }
    };
    let (name, seed, cases) = (subject.name(), args.seed, next - args.from);
    let (rate, mb) = (cases as f64 / took, bytes as f64 / 1e6);
    println!(
        "{name}: {cases} damaged traces of seed {seed} from {}, {mb:.1} MB in {took:.1} s, \
         {rate:.0} a second, no bug",
        args.from
    );
}

/// Cases between two looks at the clock: some hundredths of a second.
const BETWEEN_LOOKS: u64 = 1000;

#[expect(clippy::disallowed_methods, reason = "it is asked to run for a time")]
fn now() -> Instant {
    Instant::now()
}
