//! `foreread-lab explain readahead`: feed a policy reads, see each decision as a line.

mod picture;
mod read;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;

use clap::builder::TypedValueParser;
use foreread_core::prefetch::walk::{PolicyMemory, ReadWalk};
use foreread_core::prefetch::{
    Advice, Decided, Policy, Rules, StreamState, Streams, Trigger, WindowLimits,
};
use foreread_core::units::{ByteCount, MAX_FILE_BYTES, MAX_FILE_PAGES, PageIndex, Pages};
use serde::Serialize;

use self::read::{MOST_PAGES, ReadAction, ReadStep, parse_range, parse_step};
use super::pages::ResidentPages;
use crate::args::policy::explained_policies;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::{Failure, Printer};
use foreread_core::sizes;

/// Show the decisions of a read-ahead policy for a series of reads
///
/// Makes the READs in order on one file with an empty cache (but see --resident) from which nothing
/// is evicted. Prints each decision of the policy as one line, in the format of Linux's read-ahead
/// trace. A read that hits the cache and meets no marker prints nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ReadaheadArgs {
    /// Read-ahead policy
    #[arg(long, default_value = Policy::default().name(), value_parser = explained_policies())]
    policy: Policy,

    /// Largest window, in pages
    ///
    /// read_ahead_kb of Linux divided by 4. 0 disables read-ahead.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = up_to_most_pages())]
    max_pages: u64,

    /// Largest request of the device, in pages; 0 for no limit
    ///
    /// linux-6 sends a read that exceeds the window, but not this, as one request.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = up_to_most_pages())]
    io_pages: u64,

    /// File length in pages [default: longer than any read]
    #[arg(long, value_name = "N", conflicts_with = "file_bytes")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=MAX_FILE_PAGES.0))]
    file_pages: Option<u64>,

    /// File length as a size, which may end within a page
    #[arg(long, value_name = "SIZE", value_parser = parse_file_bytes)]
    file_bytes: Option<ByteCount>,

    /// Add a rule that was never merged into Linux; may be repeated
    #[arg(long, value_name = "RULE", value_enum, value_delimiter = ',')]
    rule: Vec<ReadaheadRule>,

    /// Pages resident before the first read, END excluded; may be repeated
    #[arg(long, value_name = "FIRST..END", value_parser = parse_range)]
    resident: Vec<Range<PageIndex>>,

    /// Set a marker on a resident page; may be repeated
    #[arg(long, value_name = "PAGE")]
    mark: Vec<u64>,

    /// Draw the pages below the lines, as on a terminal
    #[arg(long, conflicts_with = "json")]
    picture: bool,

    /// Print JSON, one data object per decision
    ///
    /// Keys: stream (null if it has no name), pattern, req_page, req_pages, ra_start, ra_size,
    /// ra_async, async, submitted; numbers in pages.
    #[arg(long)]
    json: bool,

    /// Reads as PAGE+COUNT in pages, or @POS:LEN in bytes; NAME: before it names another stream
    ///
    /// A stream is the state of one reader, like an open file in Linux. All streams read the same
    /// file. Reads without a name share one stream.
    ///
    /// After the name, seek: marks an explicit seek before the read (only the rule lseek uses it),
    /// and hint: pages that will be needed (they are read at once, and nothing is printed).
    /// advise:random, advise:sequential and advise:normal in place of a read change the expected
    /// pattern from there on.
    #[arg(value_name = "READ", required = true, value_parser = parse_step)]
    reads: Vec<ReadStep>,
}

/// A rule, as the command line names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum ReadaheadRule {
    /// A small read at page 0 right after a seek starts no window
    Lseek,
    /// A window is extended to the end of the file if little is left
    SnapEof,
    /// Streams that read backwards get windows, too
    Backwards,
}

/// State of one reader's stream.
#[derive(Default)]
struct ExplainedStream {
    state: StreamState,
    advice: Advice,
}

/// A decision with its stream.
struct DecisionLine {
    stream: Option<String>,
    decided: Decided,
}

/// JSON of a decision.
#[derive(Serialize)]
struct DecisionJson<'line> {
    stream: Option<&'line str>,
    pattern: &'static str,
    req_page: u64,
    req_pages: u64,
    ra_start: u64,
    ra_size: u64,
    ra_async: u64,
    r#async: bool,
    submitted: u64,
}

pub(super) fn run(args: &ReadaheadArgs, out: &mut Printer) -> Result<(), Failure> {
    let ReadaheadExplanation { lines, hints } = explain(args, resident(args)?);
    if args.json {
        return out.json("explain readahead", lines.iter().map(explained));
    }
    for DecisionLine { stream, decided } in &lines {
        let pattern = decided.decision.pattern.name();
        match stream {
            Some(name) => writeln!(out, "{pattern}@{name}{}", decided.details())?,
            None => writeln!(out, "{decided}")?,
        }
    }
    if args.picture || out.is_terminal() {
        let end = file_end(args).pages_up();
        let decided: Vec<_> = lines.iter().map(|line| line.decided).collect();
        picture::draw(out, args.policy, PageIndex(end.0), resident(args)?, &decided, &hints)?;
    }
    Ok(())
}

/// All that the readers did.
struct ReadaheadExplanation {
    lines: Vec<DecisionLine>,
    hints: Vec<picture::Hint>,
}

/// Makes all reads, and gives every decision in order.
fn explain(args: &ReadaheadArgs, mut pages: ResidentPages) -> ReadaheadExplanation {
    let end = file_end(args);
    let limits = WindowLimits { max: Pages(args.max_pages), io_pages: Pages(args.io_pages) };
    let mut streams: BTreeMap<Option<&str>, ExplainedStream> = BTreeMap::new();
    let mut remembered = Streams::default();
    let (mut lines, mut hints) = (Vec::new(), Vec::new());
    for ReadStep { stream: name, action } in &args.reads {
        let stream = streams.entry(name.as_deref()).or_default();
        let (seeks, pos, read_end) = match action {
            ReadAction::Read { seeks, pos, end } => (*seeks, *pos, *end),
            ReadAction::Advise(advice) => {
                stream.advice = *advice;
                continue;
            }
            ReadAction::Hint(hinted) => {
                let file_end = PageIndex(end.pages_up().0);
                let hinted = hinted.start.min(file_end)..hinted.end.min(file_end);
                pages.insert(hinted.clone());
                hints.push(picture::Hint { before: lines.len(), pages: hinted });
                continue;
            }
        };
        stream.state.seeked |= seeks;
        // An empty read triggers no decision and does not move its stream.
        if pos >= end || pos == read_end {
            continue;
        }
        let reader = ReadWalk {
            policy: args.policy,
            limits,
            end: PageIndex(end.pages_up().0),
            advice: stream.advice,
            rules: rules(args),
        };
        let first = pos.page();
        let count = PageIndex(read_end.pages_up().0) - first;
        let memory = PolicyMemory { stream: &mut stream.state, file: &mut remembered };
        reader.read(memory, &mut pages, first, count, |decided| {
            lines.push(DecisionLine { stream: name.clone(), decided });
        });
        stream.state.prev_pos = Some(read_end.min(end));
    }
    ReadaheadExplanation { lines, hints }
}

fn rules(args: &ReadaheadArgs) -> Rules {
    let is_on = |rule| args.rule.contains(&rule);
    Rules {
        lseek: is_on(ReadaheadRule::Lseek),
        snap_eof: is_on(ReadaheadRule::SnapEof),
        backwards: is_on(ReadaheadRule::Backwards),
        ..Rules::default()
    }
}

fn explained(line: &DecisionLine) -> DecisionJson<'_> {
    let Decided { ask, decision, submitted } = line.decided;
    DecisionJson {
        stream: line.stream.as_deref(),
        pattern: decision.pattern.name(),
        req_page: ask.page.0,
        req_pages: ask.count.0,
        ra_start: decision.window.start.0,
        ra_size: decision.window.size.0,
        ra_async: decision.window.async_size.0,
        r#async: match ask.trigger {
            Trigger::Miss => false,
            Trigger::Marker => true,
        },
        submitted: submitted.0,
    }
}

/// One past the file's last byte.
fn file_end(args: &ReadaheadArgs) -> ByteCount {
    match (args.file_bytes, args.file_pages) {
        (Some(bytes), _) => bytes,
        // The last page of the longest file lacks a byte.
        (None, Some(pages)) => Pages(pages).bytes().min(MAX_FILE_BYTES),
        (None, None) => MAX_FILE_BYTES,
    }
}

/// The cache before the first read.
fn resident(args: &ReadaheadArgs) -> Result<ResidentPages, Failure> {
    let end = PageIndex(file_end(args).pages_up().0);
    let mut pages = ResidentPages::default();
    for range in &args.resident {
        if range.end > end {
            let Range { start, end: last } = range;
            let line = format!("--resident {start}..{last} goes past the file's {end} pages");
            return Err(Failure::WrongUse(line));
        }
        pages.insert(range.clone());
    }
    for &page in &args.mark {
        if !pages.mark(PageIndex(page)) {
            let line = format!("--mark {page}: only a resident page can be marked; see --resident");
            return Err(Failure::WrongUse(line));
        }
    }
    Ok(pages)
}

fn up_to_most_pages() -> impl TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(..=MOST_PAGES)
}

fn parse_file_bytes(text: &str) -> Result<ByteCount, String> {
    let size = sizes::parse(text)?;
    let is_fine = size <= MAX_FILE_BYTES;
    is_fine.then_some(size).ok_or_else(|| "no file is longer than 2^63 - 1 bytes".to_owned())
}

const EXAMPLES: &str = "\
Printer:
  subsequent(req=64+32, ra=128+256-256, async=1) = 256
    pattern     why: initial0, initial, oversize, subsequent, context, interleaved, backwards,
                strided, thrash, random
    req         the requested page, and the number of pages left of the read
    ra          the window: start, size, and the number of pages from the marker on, which triggers
                the next window; for a random read, the pages it reads
    async       1 if a marker was hit, 0 if a page was missing and its reader waits
    = 256       pages read from the device: neither resident nor past the end of the file
  A named stream prints as subsequent@NAME(..).

Examples:
  A server's reads: 64 pages, then 32 at a time:
    foreread-lab explain readahead --policy linux-2.6.31 --max-pages 256 0+64 64+32 96+32 128+32
  Two streams through one open file, without and with a history lookup:
    foreread-lab explain readahead --policy linux-2.6.28 1+1 1001+1 2+1 1002+1 3+1 1003+1
    foreread-lab explain readahead --policy linux-2.6.31 1+1 1001+1 2+1 1002+1 3+1 1003+1
  The same, with streams found by position:
    foreread-lab explain readahead --policy adaptive 1+1 1001+1 2+1 1002+1 3+1 1003+1
  Two readers of one file:
    foreread-lab explain readahead a:0+16 b:16+16 a:32+16 b:48+16
  A tool that probes the start of a small device:
    foreread-lab explain readahead --policy linux-2.6.28 @0:1024 @1536:16384
  The same, where a seek to page 0 starts no stream:
    foreread-lab explain readahead --rule lseek seek:@0:1024 seek:@1536:16384
  A reader that announces random reads:
    foreread-lab explain readahead advise:random 0+1 1+1 hint:8+8 8+1 2+1
  A file read backwards:
    foreread-lab explain readahead --rule backwards 100+1 99+1 95+1 79+1
  A window as long as the history:
    foreread-lab explain readahead --policy thrash-2009 --resident 0..39 --mark 26 26+1
    foreread-lab explain readahead --policy thrash-2010 --max-pages 64 --resident 0..39 \\
        --mark 26 26+1

";
