//! Printed attributes of a file in an image.
//!
//! Names are escaped for terminals; times are UTC.

use std::fmt::Write as _;

use foreread_ext4::{FileKind, Inode, Timestamp};
use serde::Serialize;

/// A file, as JSON has it.
#[derive(Debug, Serialize)]
pub struct ImageNode {
    pub name: String,
    pub inode: u32,
    pub kind: &'static str,
    pub mode: String,
    pub links: u16,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub sectors: u64,
    pub accessed: String,
    pub modified: String,
    pub changed: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl ImageNode {
    pub fn new(name: &[u8], inode: &Inode, target: Option<&[u8]>) -> Self {
        Self {
            name: text(name),
            inode: inode.number,
            kind: kind(inode.kind).1,
            mode: format!("{:04o}", inode.mode & 0o7777),
            links: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            size: inode.size,
            sectors: inode.sectors,
            accessed: time(inode.accessed),
            modified: time(inode.modified),
            changed: time(inode.changed),
            created: inode.created.map(time),
            device: inode.device.map(|device| format!("{}:{}", device.major, device.minor)),
            target: target.map(text),
        }
    }
}

/// Returns the letter and the name of a file type.
pub fn kind(kind: FileKind) -> (char, &'static str) {
    match kind {
        FileKind::Regular => ('-', "file"),
        FileKind::Directory => ('d', "directory"),
        FileKind::Symlink => ('l', "symlink"),
        FileKind::CharDevice => ('c', "char-device"),
        FileKind::BlockDevice => ('b', "block-device"),
        FileKind::Fifo => ('p', "fifo"),
        FileKind::Socket => ('s', "socket"),
    }
}

/// Formats a mode like `ls -l`: `drwxr-sr-t`.
pub fn mode(inode: &Inode) -> String {
    let mode = inode.mode;
    let mut text = String::from(kind(inode.kind).0);
    // Each three of them, and the bit that changes the last: letters with and without execution.
    for (shift, special, with, without) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => with,
            (true, false) => 'x',
            (false, true) => without,
            (false, false) => '-',
        });
    }
    text
}

/// Formats a time in UTC, to the nanosecond: `2026-11-22T10:30:12.000000000Z`.
pub fn time(time: Timestamp) -> String {
    let (date, clock) = date_and_clock(time);
    format!("{date}T{clock}.{:09}Z", time.nanos)
}

/// Formats a time to the second, for columns.
pub fn short_time(time: Timestamp) -> String {
    let (date, clock) = date_and_clock(time);
    format!("{date} {clock}")
}

fn date_and_clock(time: Timestamp) -> (String, String) {
    const DAY: i64 = 24 * 60 * 60;

    let (year, month, day) = date(time.seconds.div_euclid(DAY));
    let seconds = time.seconds.rem_euclid(DAY);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    (format!("{year:04}-{month:02}-{day:02}"), format!("{hours:02}:{minutes:02}:{seconds:02}"))
}

/// Returns year, month and day of a day counted from 1970-01-01.
///
/// Years are counted from March, so that the leap day is the last day.
fn date(day: i64) -> (i64, i64, i64) {
    const DAYS_IN_400_YEARS: i64 = 146_097;
    // From 0000-03-01 to 1970-01-01.
    const TO_1970: i64 = 719_468;

    let day = day + TO_1970;
    let (cycle, day) = (day.div_euclid(DAYS_IN_400_YEARS), day.rem_euclid(DAYS_IN_400_YEARS));
    // Without the days that leap years have more, all years are of 365.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // March to July have 153 days, as August to December have.
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + later, month, day_of_month)
}

/// Returns bytes as text, with control characters, backslashes and invalid UTF-8 as `\xNN`.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' || c.is_control() {
                let mut utf8 = [0; 4];
                escape(&mut text, c.encode_utf8(&mut utf8).as_bytes());
            } else {
                text.push(c);
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(text, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (day, want) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_779, (2026, 11, 22)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
            (-24_855, (1901, 12, 14)),
            (173_857, (2446, 1, 2)),
        ] {
            assert_eq!(date(day), want, "day {day}");
        }
        // Each day follows the one before.
        let mut last = date(-30_000);
        for day in -29_999..200_000 {
            let next = date(day);
            let is_next = next.2 == last.2 + 1 || (next.2 == 1 && last.2 >= 28);
            assert!(is_next && next > last, "{last:?} {next:?}");
            last = next;
        }
    }

    #[test]
    fn times_before_1970_have_a_clock_too() {
        assert_eq!(time(Timestamp { seconds: -1, nanos: 5 }), "1969-12-31T23:59:59.000000005Z");
        assert_eq!(short_time(Timestamp { seconds: 1 << 32, nanos: 0 }), "2106-02-07 06:28:16");
    }

    #[test]
    fn names_are_text_whatever_they_are() {
        assert_eq!(text("\u{e4} b".as_bytes()), "\u{e4} b");
        assert_eq!(text(b"\x1b[2J\\\xFF\n"), "\\x1b[2J\\x5c\\xff\\x0a");
    }
}
