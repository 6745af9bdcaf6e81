//! Reads damaged traces until so many were read, or one of them shows a bug.
//!
//!     cargo run --release -p foreread-trace --example mutate -- [PARSER|all] [CASES] [SEED]
//!
//! A parser is a format, or gzip, xz or zstd.
//!
//! A bug is a panic whose message has the seed, the case and the bytes.

#[path = "../tests/support/mutation.rs"]
mod mutation;

use mutation::Subject;

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_else(|| "all".to_owned());
    let number = |text: Option<String>, default: u64| {
        text.map_or(default, |text| text.parse().expect("a whole number"))
    };
    let (cases, seed) = (number(args.next(), 1_000_000), number(args.next(), 1));
    let chosen = Subject::all().into_iter().filter(|one| name == "all" || one.name() == name);
    for subject in chosen {
        mutation::read_damaged(subject, seed, cases);
        println!("{}: {cases} damaged traces of seed {seed}, no bug", subject.name());
    }
}
