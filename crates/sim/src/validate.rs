//! Error messages for parameters: the offending name, and the allowed values or names.

/// Returns an error that names the parameter and its allowed values, unless the condition holds.
pub(crate) fn check(holds: bool, parameter: &str, allowed: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{parameter}: must be {allowed}")) }
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
