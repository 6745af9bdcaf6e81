//! Errors about parameters: what is wrong with a value, and which values are allowed.
//!
//! In:    a condition on a parameter; a name and the names that exist.
//! Out:   `PARAMETER: wants RANGE`, or the list of names to choose from.
//! Never: a value. The parameters stay with their owners.

/// Returns an error that names the parameter and its allowed values, unless the condition holds.
pub(crate) fn check(holds: bool, parameter: &str, wants: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{parameter}: wants {wants}")) }
}

/// Returns the message for a name that is not among the known names.
pub(crate) fn unknown<N: AsRef<str>>(
    kind: &str,
    name: &str,
    names: impl IntoIterator<Item = N>,
) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
    if names.is_empty() {
        return format!("no {kind} {name:?}: there are none");
    }
    format!("no {kind} {name:?}; choose one of {}", names.join(", "))
}
