//! Formats errors as one line of bounded length, without terminal control characters.

use std::error::Error;

/// Joins the texts of an error and its sources, without repetitions.
pub(crate) fn with_sources(error: &object_store::Error) -> String {
    // The wrapper's text adds nothing to its source.
    let text = if let object_store::Error::Generic { source, .. } = error {
        source.to_string()
    } else {
        error.to_string()
    };
    with_sources_of(text, error)
}

/// Appends the texts of an error's sources, unless the text already contains them.
pub(crate) fn with_sources_of(mut text: String, error: &dyn Error) -> String {
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Formats a text as one line of bounded length, without terminal control characters: servers send
/// whole pages with their errors. A long word, such as the URL of a long key, is cut off, because
/// the cause follows it.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        let end = word.char_indices().nth(WORD_MAX).map_or(word.len(), |(at, _)| at);
        let (shown, rest) = word.split_at(end);
        if line.len() + shown.len() > LINE_MAX {
            line += " ..";
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(shown.chars().map(|letter| if letter.is_control() { '?' } else { letter }));
        line += if rest.is_empty() { "" } else { ".." };
    }
    line
}

/// A few lines of a terminal.
const LINE_MAX: usize = 400;

/// Longest quoted word, in characters: longer than most URLs, and short enough to leave room for
/// the rest.
const WORD_MAX: usize = 160;
