//! Splits a line of CSV into fields, without the quotes around them.

use std::borrow::Cow;

/// Separator of fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Separator {
    Comma,
    Tab,
    Semicolon,
    /// A comma, in a format without quotes.
    BareComma,
    /// White space of any length.
    Blank,
}

/// Fields beyond this number are ignored: no known trace has as many.
const MAX_FIELDS: usize = 128;

/// Splits a line into `fields`. Returns the first field with unbalanced quotes, which is taken
/// literally.
pub(crate) fn split<'l>(
    line: &'l str,
    separator: Separator,
    fields: &mut Vec<Cow<'l, str>>,
) -> Option<usize> {
    fields.clear();
    let (by, has_quotes) = match separator {
        Separator::Blank => {
            fields.extend(line.split_ascii_whitespace().take(MAX_FIELDS).map(Cow::Borrowed));
            return None;
        }
        Separator::BareComma => (',', false),
        Separator::Comma => (',', line.contains('"')),
        Separator::Tab => ('\t', line.contains('"')),
        Separator::Semicolon => (';', line.contains('"')),
    };
    if has_quotes {
        return split_quoted(line, by, fields);
    }
    fields.extend(line.split(by).take(MAX_FIELDS).map(|field| Cow::Borrowed(field.trim())));
    None
}

/// Splits as in RFC 4180, except for line feeds in a field.
fn split_quoted<'l>(line: &'l str, by: char, fields: &mut Vec<Cow<'l, str>>) -> Option<usize> {
    let mut rest = Some(line);
    let mut wrong = None;
    while let Some(text) = rest {
        if fields.len() >= MAX_FIELDS {
            return wrong;
        }
        let inner = text.trim_start_matches(' ').strip_prefix('"');
        match inner.map(|inner| quoted(inner, by)) {
            Some(Some((field, after))) => {
                fields.push(Cow::Owned(field));
                rest = after;
            }
            is_wrong => {
                if is_wrong.is_some() {
                    wrong = wrong.or(Some(fields.len()));
                }
                let (field, after) = match text.split_once(by) {
                    Some((field, after)) => (field, Some(after)),
                    None => (text, None),
                };
                fields.push(Cow::Borrowed(field.trim()));
                rest = after;
            }
        }
    }
    wrong
}

/// Returns a field after its opening quote, and the text after its separator; None if its quotes do
/// not match.
fn quoted(text: &str, by: char) -> Option<(String, Option<&str>)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        field += part;
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            rest = after;
            continue;
        }
        let after = after.trim_start_matches(' ');
        return match after.strip_prefix(by) {
            Some(after) => Some((field, Some(after))),
            None => after.is_empty().then_some((field, None)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> (Vec<String>, Option<usize>) {
        let mut fields = Vec::new();
        let wrong = split(line, Separator::Comma, &mut fields);
        (fields.into_iter().map(Cow::into_owned).collect(), wrong)
    }

    #[test]
    fn quoted_fields_hold_commas_and_quotes() {
        let expected = ["1", "a,b", "say \"x\"", ""].map(str::to_owned).to_vec();
        assert_eq!(fields("1, \"a,b\" ,\"say \"\"x\"\"\","), (expected, None));
    }

    /// A quote in a field that is not used made the whole trace unreadable.
    #[test]
    fn a_field_whose_quotes_do_not_match_is_named_and_taken_as_it_is() {
        for (line, wrong) in [("1,\"open,2", 1), ("\"a\"b,x,2", 0)] {
            let (found, at) = fields(line);
            assert_eq!((found.len(), at), (3, Some(wrong)), "{line}");
            assert_eq!(found[2], "2");
        }
        assert_eq!(fields("1,5\" disk,2").1, None);
    }
}
