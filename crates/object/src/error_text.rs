//! Texts of errors, as one line.
//!
//! In:    errors with their sources, and what servers send with them.
//! Out:   a line of bounded length.
//! Never: a character that a terminal would obey.

use std::error::Error;

/// The texts of an error and of its sources, without what one says again after another.
pub(crate) fn with_sources(error: &object_store::Error) -> String {
    // Its own words say no more than those of its source.
    let text = if let object_store::Error::Generic { source, .. } = error {
        source.to_string()
    } else {
        error.to_string()
    };
    with_sources_of(text, error)
}

/// A text and what the sources of its error say beyond it.
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

/// A text as one line of bounded length, without what a terminal would obey: servers send whole
/// pages with their errors. Of a long word, such as the URL of a long key, the start is shown: the
/// cause stands behind it.
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

/// In letters: more than the URLs of most objects, and a part of a line that leaves room.
const WORD_MAX: usize = 160;
