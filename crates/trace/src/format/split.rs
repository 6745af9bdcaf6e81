//! Splits a line of CSV into its fields.
//!
//! In:    a line; a separator.
//! Out:   fields, without the quotes around them.
//! Never: more fields than a trace can have columns.

use std::borrow::Cow;

/// How the fields of a line are separated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Separator {
    Comma,
    /// White space of any length.
    Blank,
}

/// Fields beyond this number are ignored: no known trace has as many.
const MAX_FIELDS: usize = 32;

/// Splits a line into `fields`.
pub(crate) fn split<'l>(
    line: &'l str,
    separator: Separator,
    fields: &mut Vec<Cow<'l, str>>,
) -> Result<(), String> {
    fields.clear();
    match separator {
        Separator::Blank => {
            fields.extend(line.split_ascii_whitespace().take(MAX_FIELDS).map(Cow::Borrowed));
            Ok(())
        }
        Separator::Comma if !line.contains('"') => {
            fields
                .extend(line.split(',').take(MAX_FIELDS).map(|field| Cow::Borrowed(field.trim())));
            Ok(())
        }
        Separator::Comma => split_quoted(line, fields),
    }
}

/// As RFC 4180 has it, but for line feeds in a field.
fn split_quoted<'l>(line: &'l str, fields: &mut Vec<Cow<'l, str>>) -> Result<(), String> {
    let mut rest = Some(line);
    while let Some(text) = rest {
        if fields.len() >= MAX_FIELDS {
            return Ok(());
        }
        let trimmed = text.trim_start();
        if let Some(inner) = trimmed.strip_prefix('"') {
            let (field, after) = quoted(inner)?;
            fields.push(Cow::Owned(field));
            let after = after.trim_start();
            rest = match after.strip_prefix(',') {
                Some(after) => Some(after),
                None if after.is_empty() => None,
                None => return Err("text behind a closing quote".into()),
            };
        } else {
            let (field, after) = match text.split_once(',') {
                Some((field, after)) => (field, Some(after)),
                None => (text, None),
            };
            fields.push(Cow::Borrowed(field.trim()));
            rest = after;
        }
    }
    Ok(())
}

/// The field whose opening quote is behind us, and what follows its closing quote.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"').ok_or("a quote that is not closed")?;
        field += part;
        match after.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => return Ok((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(line: &str) -> Result<Vec<String>, String> {
        let mut fields = Vec::new();
        split(line, Separator::Comma, &mut fields)?;
        Ok(fields.into_iter().map(Cow::into_owned).collect())
    }

    #[test]
    fn quoted_fields_hold_commas_and_quotes() {
        assert_eq!(
            fields("1, \"a,b\" ,\"say \"\"x\"\"\",").as_deref(),
            Ok(&["1".to_owned(), "a,b".to_owned(), "say \"x\"".to_owned(), String::new()][..])
        );
        assert!(fields("\"open").is_err());
        assert!(fields("\"a\"b").is_err());
    }
}
