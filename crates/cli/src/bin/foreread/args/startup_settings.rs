//! `--set NAME=VALUE` of `serve` and `mount`: settings that apply from the start.
//!
//! In:    assignments, in the order of the command line.
//! Out:   the values of settings that the verb knows by name; the others, which are tunables.
//! Never: a value that is corrected.

use std::fmt::Display;
use std::mem;

use foreread_cli::output::Failure;

/// Settings that were given and not taken yet.
#[derive(Debug)]
pub(crate) struct StartupSettings(Vec<(String, String)>);

impl StartupSettings {
    /// Creates the settings of a command line.
    pub(crate) fn new(assignments: Vec<(String, String)>) -> Self {
        Self(assignments)
    }

    /// Takes the values of a name, and parses them; the last one applies.
    pub(crate) fn take<T, E: Display>(
        &mut self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Failure> {
        let given = mem::take(&mut self.0);
        let (taken, others): (Vec<_>, _) = given.into_iter().partition(|(given, _)| given == name);
        self.0 = others;
        let mut last = None;
        for (_, value) in taken {
            let wrong = |why: E| Failure::WrongUse(format!("--set {name}={value}: {why}"));
            last = Some(parse(&value).map_err(wrong)?);
        }
        Ok(last)
    }

    /// Returns the others.
    pub(crate) fn into_tunables(self) -> Vec<(String, String)> {
        self.0
    }

    /// Refuses the others; `known` has the names of the verb.
    pub(crate) fn refuse_others(self, known: &str) -> Result<(), Failure> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => {
                Err(Failure::WrongUse(format!("--set {name}: no such setting; there are {known}")))
            }
        }
    }
}

/// Parses `on` or `off`.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be on or off".to_owned()),
    }
}

/// Parses a whole number from 1 to `most`.
pub(crate) fn count(most: u32) -> impl Fn(&str) -> Result<u32, String> {
    move |text| {
        let number = text.parse().ok().filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| format!("must be a number from 1 to {most}"))
    }
}
