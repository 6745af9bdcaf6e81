//! The width of the terminal, and text that is wrapped to it.
//!
//! A word is never split; one that exceeds the width has its own line.

use std::os::fd::AsFd;

use rustix::termios::{isatty, tcgetwinsize};

/// Returns the line width from `COLUMNS`, or else the terminal, or [`UNKNOWN`] for a terminal
/// without a size. None if the stream is no terminal and `COLUMNS` is not set.
pub(crate) fn width_of(stream: impl AsFd) -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal = || {
        let size = tcgetwinsize(&stream).ok().map(|size| usize::from(size.ws_col));
        isatty(&stream).then(|| size.filter(|columns| *columns > 0).unwrap_or(UNKNOWN))
    };
    columns
        .filter(|columns| *columns > 0)
        .or_else(of_terminal)
        .map(|columns| columns.max(NARROWEST))
}

/// Wraps a paragraph after a label, with a hanging indent.
pub fn wrap(label: &str, text: &str, width: usize) -> Vec<String> {
    fold(label, text.split_whitespace(), width, (" ", ""))
}

/// Wraps items after a label, without breaking inside an item.
pub fn wrap_items(label: &str, items: &[String], width: usize) -> Vec<String> {
    fold(label, items.iter().map(String::as_str), width, ("   ", ""))
}

/// Wraps a shell command for copying: continued lines end with a backslash, and quoted words stay
/// together.
pub fn wrap_command(label: &str, command: &str, width: usize) -> Vec<String> {
    fold(label, shell_words(command).into_iter(), width, (" ", " \\"))
}

fn fold<'t>(
    label: &str,
    words: impl Iterator<Item = &'t str>,
    width: usize,
    (gap, continued): (&str, &str),
) -> Vec<String> {
    let indent = label.chars().count();
    let mut lines = Vec::new();
    let (mut line, mut has_words, mut columns) = (label.to_owned(), false, indent);
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        let len = word.chars().count();
        let mark = if words.peek().is_some() { continued.len() } else { 0 };
        if has_words && columns + gap.len() + len + mark > width {
            lines.push(format!("{line}{continued}"));
            (line, has_words, columns) = (" ".repeat(indent), false, indent);
        }
        if has_words {
            line += gap;
            columns += gap.len();
        }
        line += word;
        columns += len;
        has_words = true;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

/// Splits a command into words with their quotes.
fn shell_words(command: &str) -> Vec<&str> {
    let (mut words, mut start, mut quote) = (Vec::new(), 0, None);
    for (at, c) in command.char_indices() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => {
                words.push(&command[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&command[start..]);
    words.retain(|word| !word.is_empty());
    words
}

/// Width of a terminal that reports none.
const UNKNOWN: usize = 80;

/// Minimum width; narrower terminals get longer lines.
const NARROWEST: usize = 40;

/// Width of text in a file, pipe or document.
pub const DOCUMENT: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_and_are_not_wider_than_asked() {
        let text = "one two three four five incomprehensibilities six";
        assert_eq!(
            wrap("a: ", text, 14),
            ["a: one two", "   three four", "   five", "   incomprehensibilities", "   six"]
        );
        assert_eq!(wrap("a: ", "", 14), ["a:"]);
    }

    #[test]
    fn a_wrapped_command_is_the_same_command() {
        let lines = wrap_command("  ", "echo 'a b' > /sys/block/sda/queue/x", 20);
        assert_eq!(lines, ["  echo 'a b' > \\", "  /sys/block/sda/queue/x"]);
    }
}
