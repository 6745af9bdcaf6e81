//! `foreread` on the command line.
//!
//! In:    arguments.
//! Out:   what a verb prints, on stdout; what went wrong, as one line on stderr; an exit code.
//! Never: a panic for wrong use, half an answer before an error, noise when a pipe closes.
//!
//! [`cli`] says what can be asked, one file in `cmd` answers each verb; verbs share what lies below
//! them and never use each other.
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
        Verb::Bench(args) => cmd::bench::run(&args, &mut out),
        Verb::Serve(args) => cmd::serve::run(args),
        Verb::Stats(args) => cmd::stats::run(&args, &mut out),
        Verb::Set(args) => cmd::set::run(&args, &mut out),
        Verb::Mount(args) => cmd::mount::run(&args),
        Verb::Ls(args) => cmd::ls::run(&args, &mut out),
        Verb::Cat(args) => cmd::cat::run(&args, &mut out),
        Verb::Stat(args) => cmd::stat::run(&args, &mut out),
        Verb::Demo(args) => cmd::demo::run(&args, &mut out),
        Verb::Tune(args) => cmd::tune::run(&args, &mut out),
        Verb::Doctor(args) => cmd::doctor::run(&args, &mut out),
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

/// Says what went wrong and gives it its exit code; `args::help` lists them for users.
fn end(result: Result<(), Failure>) -> ExitCode {
    let mut code = ExitCode::from(2);
    let line = match result {
        Ok(()) => return ExitCode::SUCCESS,
        // The reader has seen enough: `foreread explain .. | head`.
        Err(Failure::Stdout(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(Failure::Stdout(error)) => format!("cannot write the answer: {error}"),
        // It has said itself what was wrong.
        Err(Failure::Command(code)) => return ExitCode::from(code),
        Err(Failure::WrongUse(line)) => line,
        Err(Failure::Check(line)) => {
            code = ExitCode::from(1);
            line
        }
    };
    // The line is lost if stderr is closed; the exit code still tells.
    let _ = writeln!(io::stderr(), "foreread: {}", plain(&line));
    code
}
