//! `NAME=VALUE`, as `--set` and `foreread set` take it.

/// Splits at the first `=`.
pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
