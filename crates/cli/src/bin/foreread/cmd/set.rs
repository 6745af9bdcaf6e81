//! `foreread set`: changes tunables of a running server.
//!
//! Invalid values are refused, never corrected.

mod about;
mod args;
mod plan;

use foreread_serve::stats::SettingValue;

use self::about::about;
pub(crate) use self::args::SetArgs;
use self::plan::TunablesPlan;
use crate::control::client::{ask, understood};
use foreread_cli::output::{Failure, Printer};

pub(crate) fn run(args: SetArgs, out: &mut Printer) -> Result<(), Failure> {
    let TunablesPlan { socket, settings, is_json } = args.plan();
    for (name, value) in &settings {
        ask(&socket, &format!("set {name}={value}"))?;
    }
    let all: Vec<SettingValue> = understood(&socket, &ask(&socket, "settings")?)?;
    let is_asked = |one: &SettingValue| settings.iter().any(|(name, _)| *name == one.name);
    let all = all.into_iter().filter(|one| settings.is_empty() || is_asked(one));
    if is_json {
        return out.json("set", all);
    }
    let all: Vec<_> = all.collect();
    let width =
        |of: fn(&SettingValue) -> &str| all.iter().map(|one| of(one).len()).max().unwrap_or(0);
    let (names, values) = (width(|one| &one.name), width(|one| &one.value));
    for one in &all {
        let label = format!("{:<names$}  {:>values$}  ", one.name, one.value);
        out.entry(&label, about(&one.name))?;
    }
    Ok(())
}
