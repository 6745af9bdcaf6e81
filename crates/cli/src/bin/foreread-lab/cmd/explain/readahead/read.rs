//! Reads, advice, hints and ranges as users write them.
//!
//! Values are `64+32`, `@1536:16384`, `b:64+32`, `seek:0+1`, `advise:random`, `hint:64+32`, and
//! ranges `0..39`. Impossible reads, and reads too long to walk, are refused.

use std::ops::Range;

use foreread_core::prefetch::Advice;
use foreread_core::units::{ByteCount, MAX_FILE_PAGES, PageIndex, Pages};

use foreread_core::sizes;

/// Step of a reader.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReadStep {
    pub(super) stream: Option<String>,
    pub(super) action: ReadAction,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReadAction {
    Read {
        /// True after an explicit seek.
        seeks: bool,
        pos: ByteCount,
        /// End of the read, exclusive; may be past the end of the file.
        end: ByteCount,
    },
    /// Advice for the following reads.
    Advise(Advice),
    /// Pages that will be needed.
    Hint(Range<PageIndex>),
}

/// Pages resident before the first read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ResidentRange {
    pub(super) pages: Range<PageIndex>,
    /// The page that has a marker.
    pub(super) marked: Option<PageIndex>,
}

/// Parses `FIRST..END` and `FIRST..END@PAGE`.
pub(super) fn parse_resident(text: &str) -> Result<ResidentRange, String> {
    let (range, page) =
        text.split_once('@').map_or((text, None), |(range, page)| (range, Some(page)));
    let parsed = range.split_once("..").and_then(|(first, end)| {
        let (first, end) = (number(first)?, number(end)?);
        let marked = page.map(|page| number(page).map(PageIndex));
        let marked = if let Some(marked) = marked { Some(marked?) } else { None };
        let pages = PageIndex(first)..PageIndex(end);
        let has_marked = marked.is_none_or(|page| pages.contains(&page));
        (first <= end && has_marked).then_some(ResidentRange { pages, marked })
    });
    parsed.ok_or_else(|| {
        "write FIRST..END, the end not included: 0..39 is pages 0 to 38, and 0..39@26 has a marker \
         on page 26"
            .to_owned()
    })
}

/// ```text
///   [NAME:] [seek:] PAGE+COUNT | @POS:LEN
///   [NAME:] advise:ADVICE
///   [NAME:] hint:PAGE+COUNT | @POS:LEN
/// ```
pub(super) fn parse_step(text: &str) -> Result<ReadStep, String> {
    let (name, rest) = match text.split_once(':') {
        Some((name, rest)) if !text.starts_with('@') && !WORDS.contains(&name) => {
            (Some(name), rest)
        }
        Some(_) | None => (None, text),
    };
    if name.is_some_and(|name| !is_a_name(name)) {
        return Err(format!("not a stream's name; {FORMS}"));
    }
    let action = if let Some(advice) = rest.strip_prefix("advise:") {
        let names = Advice::ALL.map(Advice::name).join(", ");
        let advice = Advice::from_name(advice);
        ReadAction::Advise(advice.ok_or_else(|| format!("no such advice; there are {names}"))?)
    } else if let Some(place) = rest.strip_prefix("hint:") {
        let (pos, end) = parse_place(place)?;
        ReadAction::Hint(pos.page()..PageIndex(end.pages_up().0))
    } else {
        let after_seek = rest.strip_prefix("seek:");
        let (pos, end) = parse_place(after_seek.unwrap_or(rest))?;
        ReadAction::Read { seeks: after_seek.is_some(), pos, end }
    };
    Ok(ReadStep { stream: name.map(str::to_owned), action })
}

fn parse_place(place: &str) -> Result<(ByteCount, ByteCount), String> {
    let numbers = match place.strip_prefix('@') {
        Some(bytes) => bytes
            .split_once(':')
            .and_then(|(pos, len)| Some((sizes::parse(pos).ok()?.0, sizes::parse(len).ok()?.0))),
        None => place.split_once('+').and_then(|(page, count)| {
            // Overflow is refused below as too far or too long.
            let bytes = |pages: u64| pages.saturating_mul(Pages(1).bytes().0);
            Some((bytes(number(page)?), bytes(number(count)?)))
        }),
    };
    let (pos, len) = numbers.ok_or_else(|| format!("not a read; {FORMS}"))?;
    bounded(pos, len)
}

const FORMS: &str = "write PAGE+COUNT (64+32) or @POS:LEN in bytes (@1536:16384), either with \
                     seek: or hint: before it, or advise:ADVICE, and with a stream's NAME: before \
                     all (b:seek:64+32)";

/// Returns start and end of a read, if it is within a file and short enough to walk.
fn bounded(pos: u64, len: u64) -> Result<(ByteCount, ByteCount), String> {
    if ByteCount(len).pages_up() > Pages(MOST_PAGES) {
        return Err(format!(
            "too long: a read is walked page by page, at most {MOST_PAGES} of them (4 GiB); \
             split it"
        ));
    }
    let end = pos.checked_add(len).filter(|&end| end <= MAX_FILE_PAGES.bytes().0);
    let Some(end) = end else {
        return Err("ends past 2^63 - 1 bytes, where the longest file ends".to_owned());
    };
    Ok((ByteCount(pos), ByteCount(end)))
}

/// Parses digits without sign or blank.
fn number(text: &str) -> Option<u64> {
    let is_a_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // An overflow exceeds any file, and is refused as such.
    is_a_number.then(|| text.parse().unwrap_or(u64::MAX))
}

fn is_a_name(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    is_plain && !name.is_empty()
}

/// Steps other than reads; reserved as stream names.
const WORDS: [&str; 3] = ["advise", "hint", "seek"];

/// Limit of 4 GiB: more than any request or window in use, and walked in about a second.
pub(super) const MOST_PAGES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn step(stream: Option<&str>, action: ReadAction) -> Result<ReadStep, String> {
        Ok(ReadStep { stream: stream.map(str::to_owned), action })
    }

    fn read(stream: Option<&str>, pos: u64, end: u64) -> Result<ReadStep, String> {
        step(stream, ReadAction::Read { seeks: false, pos: ByteCount(pos), end: ByteCount(end) })
    }

    #[test]
    fn reads_are_pages_or_bytes_with_or_without_a_name() {
        assert_eq!(parse_step("64+32"), read(None, 64 << 12, 96 << 12));
        assert_eq!(parse_step("b:64+32"), read(Some("b"), 64 << 12, 96 << 12));
        assert_eq!(parse_step("@1536:16384"), read(None, 1536, 17920));
        assert_eq!(parse_step("t-0.a_b:@1M:4K"), read(Some("t-0.a_b"), 1 << 20, (1 << 20) + 4096));
        assert_eq!(parse_step("0+0"), read(None, 0, 0));
    }

    #[test]
    fn seeks_advice_and_hints_stand_after_the_name() {
        let seek =
            |pos, end| ReadAction::Read { seeks: true, pos: ByteCount(pos), end: ByteCount(end) };
        assert_eq!(parse_step("seek:0+1"), step(None, seek(0, 4096)));
        assert_eq!(parse_step("b:seek:@1536:16384"), step(Some("b"), seek(1536, 17920)));
        assert_eq!(parse_step("advise:random"), step(None, ReadAction::Advise(Advice::Random)));
        let sequential = ReadAction::Advise(Advice::Sequential);
        assert_eq!(parse_step("b:advise:sequential"), step(Some("b"), sequential));
        let hint = |first, end| ReadAction::Hint(PageIndex(first)..PageIndex(end));
        assert_eq!(parse_step("hint:64+32"), step(None, hint(64, 96)));
        assert_eq!(parse_step("b:hint:@4097:4096"), step(Some("b"), hint(1, 3)));
        assert!(parse_step("advise:often").unwrap_err().contains("normal, sequential, random"));
    }

    #[test]
    fn what_is_no_read_is_refused_with_the_right_form() {
        for text in [
            "",
            "+",
            "12",
            "12-4",
            "12+",
            "+4",
            "-1+4",
            "1 + 4",
            "1.5+2",
            "@",
            "@:",
            "@5",
            "@5+3",
            ":1+1",
            "a b:1+1",
            "a:b:1+1",
            "a:",
            "seek:",
            "hint:5",
            "seek:a:1+1",
            "seek:hint:1+1",
            "hint:advise:random",
            "seek:advise:random",
            "@1:2:3",
            "1+1+1",
        ] {
            let error = parse_step(text).unwrap_err();
            assert!(error.contains("PAGE+COUNT (64+32)"), "{text}: {error}");
        }
    }

    #[test]
    fn a_read_ends_where_the_longest_file_does() {
        let last_page = (1_u64 << 51) - 1;
        assert_eq!(parse_step(&format!("{last_page}+1")), read(None, last_page << 12, 1 << 63));
        assert_eq!(parse_step("@9223372036854775806:1"), read(None, (1 << 63) - 2, (1 << 63) - 1));
        for text in [
            format!("{last_page}+2"),
            format!("{}+0", u64::MAX),
            "99999999999999999999999+1".to_owned(),
            format!("@{}:1", u64::MAX),
        ] {
            let error = parse_step(&text).unwrap_err();
            assert!(error.contains("ends past 2^63 - 1 bytes"), "{text}: {error}");
        }
    }

    #[test]
    fn a_read_that_would_take_for_ever_is_refused() {
        assert!(parse_step("0+1048576").is_ok());
        assert!(parse_step("@4095:4G").is_ok());
        for text in ["0+1048577", "0+4503599627370496", "0+99999999999999999999", "@0:5G"] {
            let error = parse_step(text).unwrap_err();
            assert!(error.contains("at most 1048576"), "{text}: {error}");
        }
    }

    #[test]
    fn ranges_are_half_open_and_hold_their_marker() {
        let range = |marked| ResidentRange { pages: PageIndex(0)..PageIndex(39), marked };
        assert_eq!(parse_resident("0..39"), Ok(range(None)));
        assert_eq!(parse_resident("0..39@38"), Ok(range(Some(PageIndex(38)))));
        for text in
            ["", "..", "5", "5..", "..5", "9..5", "0..=5", "0...5", "0..39@", "0..39@39", "4..9@3"]
        {
            assert!(parse_resident(text).unwrap_err().contains("FIRST..END"), "{text}");
        }
    }
}
