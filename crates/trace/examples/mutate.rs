//! Reads damaged traces until the time is over or so many were read, or one of them shows a bug.
//!
//!     cargo run --release -p foreread-trace --example mutate -- --seconds 600
//!     cargo run --release -p foreread-trace --example mutate -- --format blkparse --cases 1000000
//!
//! | option | |
//! |---|---|
//! | `--format PARSER` | one parser: a format, or gzip, xz or zstd; without it all, in turns |
//! | `--seconds N` | how long each of them is tried |
//! | `--cases N` | or how many traces each is given: 1000000 if neither is said |
//! | `--seed N` | another seed has other cases: 1 if it is not said |
//! | `--from N` | the first case: with `--cases 1` that of a bug alone |
//!
//! A bug is a panic whose message has the seed, the case and the bytes. A line for each parser says
//! how many traces it was given, how many bytes they had, and how fast it was.

#[path = "../tests/support/mutation.rs"]
mod mutation;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use mutation::Subject;

/// What was asked for.
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

/// Gives one parser its cases, and says how many there were.
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

/// Some hundredths of a second.
const BETWEEN_LOOKS: u64 = 1000;

#[expect(clippy::disallowed_methods, reason = "it is asked to run for a time")]
fn now() -> Instant {
    Instant::now()
}
