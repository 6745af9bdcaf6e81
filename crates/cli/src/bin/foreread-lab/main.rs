//! The `foreread-lab` command: simulator, trace replay, policy explanations.
//!
//! [`cli`] defines the arguments. Each verb has a file in `cmd`; verbs share the modules below and
//! those of the library, and never use each other.
//!
//! ```text
//!   main, cli
//!     cmd: one file a verb
//!       args    series_file
//!         series_plan    csv    intervals
//! ```

mod args;
mod cli;
mod cmd;
mod csv;
mod intervals;
mod series_file;
mod series_plan;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use foreread_cli::output::Printer;
use foreread_cli::{program, signals};

use cli::{Cli, Verb};

fn main() -> ExitCode {
    signals::survive_file_size_limit();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return program::end_of_parsing(&Cli::command(), error),
    };
    let mut out = Printer::stdout();
    let answer = match cli.verb {
        Verb::Sim(args) => cmd::sim::run(&args, &mut out),
        Verb::Replay(args) => cmd::replay::run(&args, &mut out),
        Verb::Trace(args) => cmd::trace::run(&args, &mut out),
        Verb::Seeds(args) => cmd::seeds::run(&args, &mut out),
        Verb::Explain(what) => cmd::explain::run(&what, &mut out),
        Verb::Man(args) => args.run(&mut out),
        Verb::Completions(args) => args.run(&mut out),
    };
    program::end_of_verb("foreread-lab", answer.and_then(|()| out.finish()))
}
