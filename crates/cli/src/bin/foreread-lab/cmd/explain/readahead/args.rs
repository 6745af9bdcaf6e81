//! The arguments of `foreread-lab explain readahead`.

use clap::builder::TypedValueParser;
use foreread_core::prefetch::{Policy, Rules, WindowLimits};
use foreread_core::sizes;
use foreread_core::units::{ByteCount, MAX_FILE_BYTES, PageIndex, Pages};

use super::read::{MOST_PAGES, ReadStep, ResidentRange, parse_resident, parse_step};
use super::{ReadaheadFormat, ReadaheadPlan};
use crate::args::policy::simulated_policies;
use crate::cmd::explain::pages::ResidentPages;
use foreread_cli::args::help::CODES_AND_UNITS;
use foreread_cli::output::Failure;

/// Show the decisions of a read-ahead policy for a series of reads
///
/// Makes the READs in order on one file with an empty cache (but see --resident) from which nothing
/// is evicted. Prints each decision of the policy as one line, in the format of Linux's read-ahead
/// trace. A read that hits the cache and meets no marker prints nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = [EXAMPLES, CODES_AND_UNITS].concat())]
pub(crate) struct ReadaheadArgs {
    /// Read-ahead policy
    #[arg(long, default_value = Policy::default().name(), value_parser = simulated_policies())]
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

    /// File length, such as 20K; it may end within a page [default: longer than any read]
    #[arg(long, value_name = "SIZE", value_parser = parse_file_bytes)]
    file_bytes: Option<ByteCount>,

    /// Add a rule that was never merged into Linux; may be repeated
    #[arg(long, value_name = "RULE", value_enum, value_delimiter = ',')]
    rule: Vec<ReadaheadRule>,

    /// Pages resident before the first read, END excluded, and one of them with a marker; may be
    /// repeated
    #[arg(long, value_name = "FIRST..END[@PAGE]", value_parser = parse_resident)]
    resident: Vec<ResidentRange>,

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

impl ReadaheadArgs {
    /// Checks and resolves the options.
    pub(super) fn resolve(&self) -> Result<ReadaheadPlan, Failure> {
        let file_end = self.file_bytes.unwrap_or(MAX_FILE_BYTES);
        let limits = WindowLimits { max: Pages(self.max_pages), io_pages: Pages(self.io_pages) };
        Ok(ReadaheadPlan {
            policy: self.policy,
            limits,
            file_end,
            rules: self.rules(),
            resident: self.resident_of(PageIndex(file_end.pages_up().0))?,
            reads: self.reads.clone(),
            format: match (self.json, self.picture) {
                (true, _) => ReadaheadFormat::Json,
                (false, true) => ReadaheadFormat::Picture,
                (false, false) => ReadaheadFormat::Lines,
            },
        })
    }

    fn rules(&self) -> Rules {
        let is_on = |rule| self.rule.contains(&rule);
        Rules {
            lseek: is_on(ReadaheadRule::Lseek),
            snap_eof: is_on(ReadaheadRule::SnapEof),
            backwards: is_on(ReadaheadRule::Backwards),
            ..Rules::default()
        }
    }

    /// Returns the cache before the first read of a file that ends at `end`.
    fn resident_of(&self, end: PageIndex) -> Result<ResidentPages, Failure> {
        let mut resident = ResidentPages::default();
        for ResidentRange { pages, marked } in &self.resident {
            if pages.end > end {
                let line = format!(
                    "--resident {}..{} goes past the file's {end} pages",
                    pages.start, pages.end
                );
                return Err(Failure::WrongUse(line));
            }
            resident.insert(pages.clone());
            if let Some(page) = *marked {
                resident.mark(page);
            }
        }
        Ok(resident)
    }
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
    foreread-lab explain readahead --policy thrash-2009 --resident 0..39@26 26+1
    foreread-lab explain readahead --policy thrash-2010 --max-pages 64 --resident 0..39@26 26+1

";
