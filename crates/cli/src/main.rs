//! The `foreread` command.
//!
//! Answers go to stdout, errors to stderr in one line. Wrong usage never panics, bad input prints
//! nothing on stdout, and a closed pipe is no error.
//!
//! [`cli`] defines the arguments. Each verb has a file in `cmd`; verbs share the modules below and
//! never use each other.
//!
//! ```text
//!   main, cli
//!     cmd: one file a verb
//!       measure    image    control
//!         store    read_recording
//!         args    table    html_file    series_file    progress    settings_holder    signals
//!           output    terminal    clock    block_device    csv    intervals
//! ```

mod args;
mod block_device;
mod cli;
mod clock;
mod cmd;
mod control;
mod csv;
mod device_memory;
mod html_file;
mod image;
mod intervals;
mod measure;
mod output;
mod output_file;
mod progress;
mod read_recording;
mod series_file;
mod settings_holder;
mod signals;
mod store;
mod table;
mod terminal;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use cli::{Cli, Verb};
use output::{Failure, Printer, plain};

fn main() -> ExitCode {
    signals::survive_file_size_limit();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => return end(error.print().map_err(Failure::Stdout)),
        Err(error) => return end(Err(Failure::WrongUse(cli::in_one_line(&error)))),
    };
    let mut out = Printer::stdout();
    let answer = match cli.verb {
        Verb::ServeSlowDevice(args) => {
            measure::slow_server::run(&args);
            Ok(())
        }
        Verb::NbdLoad(args) => measure::nbd_load::run(&args, &mut out),
        Verb::HoldSettings => {
            let by_hand = |_| Failure::WrongUse("a part of other verbs; nothing to run".to_owned());
            settings_holder::hold().map_err(by_hand)
        }
        Verb::Bench(args) => cmd::bench::run(args, &mut out),
        Verb::Serve(args) => cmd::serve::run(args),
        Verb::Stats(args) => cmd::stats::run(&args, &mut out),
        Verb::Set(args) => cmd::set::run(&args, &mut out),
        Verb::Mount(args) => cmd::mount::run(args),
        Verb::Ls(args) => cmd::ls::run(&args, &mut out),
        Verb::Cat(args) => cmd::cat::run(&args, &mut out),
        Verb::Stat(args) => cmd::stat::run(&args, &mut out),
        Verb::Demo(args) => cmd::demo::run(args, &mut out),
        Verb::Tune(args) => cmd::tune::run(args, &mut out),
        Verb::Doctor(args) => cmd::doctor::run(args, &mut out),
        Verb::Sim(args) => cmd::sim::run(&args, &mut out),
        Verb::Record(args) => cmd::record::run(&args),
        Verb::Replay(args) => cmd::replay::run(&args, &mut out),
        Verb::Trace(args) => cmd::trace::run(&args, &mut out),
        Verb::Seeds(args) => cmd::seeds::run(&args, &mut out),
        Verb::Explain(what) => cmd::explain::run(&what, &mut out),
        Verb::Man(args) => cmd::man::write_pages(&args, Cli::command(), &mut out),
        Verb::Completions(args) => cmd::man::print_completions(&args, Cli::command(), &mut out),
    };
    let answer = answer.and_then(|()| out.finish());
    store::say_cost();
    end(answer)
}

/// Prints the error and returns its exit code; `args::help` documents the codes.
fn end(result: Result<(), Failure>) -> ExitCode {
    let mut code = ExitCode::from(2);
    let line = match result {
        Ok(()) => return ExitCode::SUCCESS,
        // The reader closed the pipe: `foreread explain .. | head`.
        Err(Failure::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(Failure::Stdout(error)) => format!("cannot write the answer: {error}"),
        // The command printed its own error.
        Err(Failure::Command(code)) => return ExitCode::from(code),
        Err(Failure::WrongUse(line)) => line,
        Err(Failure::Check(line)) => {
            code = ExitCode::from(1);
            line
        }
    };
    // Ignored if stderr is closed; the exit code remains.
    let _ = writeln!(io::stderr(), "foreread: {}", plain(&line));
    code
}
