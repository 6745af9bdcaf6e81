//! Finds conflicting udev rules for a device and its bdi. Rules that a GOTO skips are left out.

use std::path::PathBuf;

use super::{Conflict, Wins, names};
use crate::identity::alone;
use crate::remember::rule_path;
use crate::setting::READ_AHEAD_KB;
use crate::sysfs::{BlockDevice, SystemRoot};
use crate::udev::{RuleMatch, RulePair, UdevDevice, UdevRule, parse, rule_files};

pub(super) fn conflicts(
    sys: &SystemRoot,
    device: &BlockDevice,
    attributes: &[&str],
) -> Vec<Conflict> {
    // A device without an identity has no rule yet; this is where it would be.
    let id = alone(sys, device).map(|identity| identity.id).unwrap_or_default();
    let ours = rule_path(&id);
    let ours = ours.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let targets = [
        (UdevDevice::block(sys, device), UdevEvent::Block),
        (UdevDevice::bdi(sys, device), UdevEvent::Bdi),
    ];
    let mut conflicts = Vec::new();
    for file in rule_files(sys).into_iter().filter(|file| !file.is_mask && file.name != ours) {
        let Some(text) = sys.bytes(&file.path) else { continue };
        let text = String::from_utf8_lossy(&text);
        let rules = parse(&text);
        for (target, event) in &targets {
            let place =
                RuleContext { sys, file: &file.path, event: *event, is_later: file.name > ours };
            for (rule, answer) in reached(target, &rules) {
                for pair in &rule.pairs {
                    conflicts.extend(place.conflict(rule, pair, answer, attributes));
                }
            }
        }
    }
    conflicts
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum UdevEvent {
    Block,
    /// A bdi has its own uevent, in no fixed order with its disk's.
    Bdi,
}

/// Returns the reachable rules of a file, each with its match for `add` or `change`, whichever is
/// more definite.
fn reached<'a>(target: &UdevDevice<'_>, rules: &'a [UdevRule]) -> Vec<(&'a UdevRule, RuleMatch)> {
    let walks = ["add", "change"].map(|action| walk(target, rules, action));
    let both = rules.iter().zip(walks[0].iter().zip(&walks[1]));
    let answers = both.map(|(rule, answers)| match answers {
        (RuleMatch::Yes, _) | (_, RuleMatch::Yes) => (rule, RuleMatch::Yes),
        (RuleMatch::CannotTell, _) | (_, RuleMatch::CannotTell) => (rule, RuleMatch::CannotTell),
        (RuleMatch::No, RuleMatch::No) => (rule, RuleMatch::No),
    });
    answers.filter(|(_, answer)| *answer != RuleMatch::No).collect()
}

/// Returns the match of each rule, in order.
fn walk(target: &UdevDevice<'_>, rules: &[UdevRule], action: &str) -> Vec<RuleMatch> {
    let mut jumps_to: Option<&str> = None;
    // Labels of uncertain jumps: up to them, nothing is certain.
    let mut may_jump_to: Vec<&str> = Vec::new();
    let mut answers = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let of = |key: &str| named(rule, key);
        // udev ignores a jump to a missing label.
        let is_there = |to: &&RulePair| {
            rules[at..]
                .iter()
                .skip(1)
                .filter_map(|rule| named(rule, "LABEL"))
                .any(|label| label.value == to.value)
        };
        if let Some(label) = of("LABEL") {
            jumps_to = jumps_to.filter(|to| *to != label.value);
            may_jump_to.retain(|to| *to != label.value);
        }
        let mut answer = match jumps_to {
            Some(_) => RuleMatch::No,
            None => target.answers(action, &rule.pairs),
        };
        if !may_jump_to.is_empty() {
            answer = answer.and(RuleMatch::CannotTell);
        }
        match (of("GOTO").filter(is_there), answer) {
            (Some(label), RuleMatch::Yes) => jumps_to = Some(&label.value),
            (Some(label), RuleMatch::CannotTell) => may_jump_to.push(&label.value),
            _ => {}
        }
        answers.push(answer);
    }
    answers
}

/// Returns the action of a rule with this key.
fn named<'a>(rule: &'a UdevRule, key: &str) -> Option<&'a RulePair> {
    rule.pairs.iter().find(|pair| pair.key == key && !pair.is_match())
}

struct RuleContext<'a> {
    sys: &'a SystemRoot,
    file: &'a PathBuf,
    event: UdevEvent,
    is_later: bool,
}

impl RuleContext<'_> {
    fn conflict(
        &self,
        rule: &UdevRule,
        pair: &RulePair,
        answer: RuleMatch,
        attributes: &[&str],
    ) -> Option<Conflict> {
        let (attribute, value) = match pair.key.as_str() {
            "ATTR" if !pair.is_match() => {
                (self.named(&pair.of, attributes)?, Some(pair.value.clone()))
            }
            "RUN" | "PROGRAM" | "IMPORT" => (self.run(&pair.value, attributes)?, None),
            _ => return None,
        };
        let runs_after_all = pair.key == "RUN";
        let wins = match (answer, self.event, runs_after_all || self.is_later) {
            (_, UdevEvent::Block, false) => Wins::No,
            (RuleMatch::Yes, UdevEvent::Block, true) => Wins::Yes,
            _ => Wins::Unknown,
        };
        let doubt = match answer {
            RuleMatch::CannotTell => ", if it means this device",
            RuleMatch::Yes | RuleMatch::No => "",
        };
        let of = if pair.of.is_empty() { String::new() } else { format!("{{{}}}", pair.of) };
        Some(Conflict {
            file: self.file.clone(),
            line: rule.line,
            attribute: attribute.to_owned(),
            value,
            what: format!("udev: {}{of}{}\"{}\"{doubt}", pair.key, pair.operator, pair.value),
            wins,
        })
    }

    /// Returns the attribute that a name refers to: the window has a second name on the disk, and a
    /// third on its bdi.
    fn named<'a>(&self, of: &str, attributes: &[&'a str]) -> Option<&'a str> {
        let is = |it: &&&str| match self.event {
            UdevEvent::Block => of == **it || (**it == READ_AHEAD_KB && of == "bdi/read_ahead_kb"),
            UdevEvent::Bdi => **it == READ_AHEAD_KB && of == "read_ahead_kb",
        };
        attributes.iter().find(is).copied()
    }

    /// Returns the attribute that a command sets, directly or in the script that it runs.
    fn run<'a>(&self, command: &str, attributes: &[&'a str]) -> Option<&'a str> {
        let in_script = || {
            let (_, text) = super::scripts::script_in(self.sys, command)?;
            mentioned(&text, attributes)
        };
        mentioned(command, attributes).or_else(in_script)
    }
}

/// Returns the first attribute that a text mentions.
fn mentioned<'a>(text: &str, attributes: &[&'a str]) -> Option<&'a str> {
    let is = |it: &&&str| names(it).iter().any(|name| text.contains(name));
    attributes.iter().find(is).copied()
}
