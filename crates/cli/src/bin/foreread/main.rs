//! The `foreread` command: serve, mount, measure and tune.
//!
//! [`cli`] defines the arguments. Each verb has a file in `cmd`; verbs share the modules below and
//! those of the library, and never use each other. The verbs of `foreread-lab` are run there.
//!
//! ```text
//!   main, cli
//!     cmd: one file a verb
//!       control    read_recording
//!         args
//! ```

mod args;
mod cli;
mod cmd;
mod control;
mod read_recording;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use foreread_cli::output::{Failure, Printer};
use foreread_cli::{measure, program, settings_holder, signals};

use cli::{Cli, Verb};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(verb) = cmd::lab::lab_verb(&args) {
        return program::end_of_verb("foreread", Err(cmd::lab::run(verb, &args)));
    }
    signals::survive_file_size_limit();
    let parsed = cli::parser().try_get_matches().and_then(|it| Cli::from_arg_matches(&it));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return program::end_of_parsing(&Cli::command(), error),
    };
    let mut out = Printer::stdout();
    let answer = run(cli.verb, &mut out).and_then(|()| out.finish());
    program::end_of_verb("foreread", answer)
}

fn run(verb: Verb, out: &mut Printer) -> Result<(), Failure> {
    match verb {
        Verb::ServeSlowDevice(args) => {
            measure::slow_server::run(&args);
            Ok(())
        }
        Verb::NbdLoad(args) => measure::nbd_load::run(&args, out),
        Verb::HoldSettings => {
            let by_hand = |_| Failure::WrongUse("a part of other verbs; nothing to run".to_owned());
            settings_holder::hold().map_err(by_hand)
        }
        Verb::Bench(args) => cmd::bench::run(args, out),
        Verb::Serve(args) => cmd::serve::run(args),
        Verb::Stats(args) => cmd::stats::run(args, out),
        Verb::Set(args) => cmd::set::run(args, out),
        Verb::Mount(args) => cmd::mount::run(args),
        Verb::Ls(args) => cmd::ls::run(&args, out),
        Verb::Cat(args) => cmd::cat::run(&args, out),
        Verb::Stat(args) => cmd::stat::run(&args, out),
        Verb::Demo(args) => cmd::demo::run(args, out),
        Verb::Tune(args) => cmd::tune::run(args, out),
        Verb::Doctor(args) => cmd::doctor::run(args, out),
        Verb::Record(args) => cmd::record::run(args),
        Verb::Man(args) => args.run(out),
        Verb::Completions(args) => args.run(out),
    }
}
