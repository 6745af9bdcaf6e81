//! udev's patterns: matching a text, and building a pattern that matches exactly one text.
//!
//! ```text
//!   *   any text        ?   any character      [a-c]  one of them      [!a]  one, but not those
//!   |   between alternatives, wherever it stands, also inside brackets
//!   \   quotes the next; but it is like others where the pattern has none of * ? [
//! ```
//!
//! Trailing blanks of the text are ignored, unless the pattern ends in a blank.

/// Returns the pattern that matches `text` and nothing else, as written between the quotes of a
/// rule.
///
/// None if there is none: a `|` cannot be quoted, and a rule is one line.
#[must_use]
pub fn literal(text: &str) -> Option<String> {
    if text.trim().is_empty() || text.contains('|') || text.contains(char::is_control) {
        return None;
    }
    let mut pattern = String::with_capacity(text.len());
    for c in trimmed(text).chars() {
        match c {
            '*' | '?' | '[' => pattern.extend(['[', c, ']']),
            // A bare backslash would depend on the rest of the pattern, and would escape the
            // closing quote.
            '\\' => pattern.push_str("[\\\\]"),
            '"' => pattern.push_str("\\\""),
            _ => pattern.push(c),
        }
    }
    Some(pattern)
}

/// Removes trailing blanks, ASCII only, as udev does: a wide blank counts.
fn trimmed(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_ascii_whitespace())
}

/// Returns whether udev's `pattern` matches `text`.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let is_exact_to_the_end = trimmed(pattern) != pattern;
    let text = if is_exact_to_the_end { text } else { trimmed(text) };
    let has_glob = pattern.contains(['*', '?', '[']);
    let text: Vec<char> = text.chars().collect();
    pattern.split('|').any(|pattern| {
        let pattern: Vec<char> = pattern.chars().collect();
        if has_glob { glob(&pattern, &text) } else { pattern == text }
    })
}

/// Matches in one step for each character of the pattern, with at most one backtrack to the last
/// star for each character of the text.
fn glob(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            Some(_) => one(&pattern[p..], text[t]),
            None => None,
        };
        match (step, star) {
            (Some(length), _) => (p, t) = (p + length, t + 1),
            // The star matches one more character.
            (None, Some((at, from))) => {
                star = Some((at, from + 1));
                (p, t) = (at + 1, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Returns the number of pattern characters that match `c`; None if they do not.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', quoted, ..] => (*quoted == c).then_some(2),
        ['[', rest @ ..] => match bracket(rest, c) {
            Some((is_in, length)) => is_in.then_some(length + 1),
            None => (c == '[').then_some(1),
        },
        [plain, ..] => (*plain == c).then_some(1),
        [] => None,
    }
}

/// Returns whether `c` is in the set that begins after the bracket, and the set's length including
/// its end. None for an unclosed set: the bracket is then an ordinary character.
fn bracket(set: &[char], c: char) -> Option<(bool, usize)> {
    let is_not = matches!(set.first(), Some('!' | '^'));
    let first = usize::from(is_not);
    let mut at = first;
    let mut is_in = false;
    loop {
        let low = match (set.get(at)?, set.get(at + 1)) {
            (']', _) if at > first => return Some((is_in != is_not, at + 1)),
            ('\\', Some(quoted)) => {
                at += 1;
                *quoted
            }
            (low, _) => *low,
        };
        let high = match (set.get(at + 1), set.get(at + 2)) {
            (Some('-'), Some(high)) if *high != ']' => {
                at += 2;
                *high
            }
            _ => low,
        };
        is_in |= (low..=high).contains(&c);
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_as_udev_takes_them() {
        for (pattern, text) in [
            ("add|change", "change"),
            ("sd[a-z]", "sdb"),
            ("sd*[!0-9]", "sdaa"),
            ("loop*", "loop"),
            ("/a b\\c", "/a b\\c"),
            ("/a\\[b*", "/a[b"),
            ("x[*]y]", "x*y]"),
            ("x[\\\\]*", "x\\y"),
            ("", ""),
            ("?*", "x"),
            ("[^]x]", "y"),
            ("a", "a   "),
            ("a\u{3000}", "a\u{3000}"),
            ("a  ", "a  "),
            ("[", "["),
            ("*a*b", "xaxaxb"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("add|change", "remove"),
            ("sd[a-z]", "sda1"),
            ("a|b", "a|b"),
            ("[a|b]", "|"),
            ("?*", ""),
            ("[!a]", "a"),
            ("a ", "a  "),
            ("a", "a\u{3000}"),
            ("*a*b", "xaxax"),
            ("a*b", "ab*"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn what_cannot_be_quoted_has_no_pattern() {
        for text in ["a|b", "a\nb", "", "  ", "a\tb"] {
            assert_eq!(literal(text), None, "{text:?}");
        }
    }

    proptest! {
        /// Of texts that differ in one place, the pattern of one matches that one only.
        #[test]
        fn a_literal_matches_itself_only(
            head in "[-a-c*?\\[\\]!^\"\\\\ ]{0,6}",
            (a, b) in ("[-a-c*?\\[\\]!^\"\\\\]", "[-a-c*?\\[\\]!^\"\\\\]"),
            tail in "[-a-c*?\\[\\]!^\"\\\\]{0,6}",
        ) {
            let text = format!("{head}{a}{tail}");
            let other = format!("{head}{b}{tail}");
            // Quotes are the rule's, not the pattern's.
            let pattern = literal(&text).expect("it has one").replace("\\\"", "\"");
            prop_assert!(matches(&pattern, &text), "{} {}", pattern, text);
            prop_assert_eq!(matches(&pattern, &other), text == other, "{} {}", pattern, other);
        }
    }
}
