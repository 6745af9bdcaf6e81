//! udev rules that set what we would set.
//!
//! In:    the rules files in their order; the device, and its bdi, which is a device of its own.
//! Out:   conflicts.
//! Never: a rule that a GOTO jumps over.

use std::path::PathBuf;

use super::{Conflict, Wins, names};
use crate::identity::alone;
use crate::remember::rule_path;
use crate::setting::READ_AHEAD_KB;
use crate::sysfs::{Device, Sys};
use crate::udev::{Answer, Pair, Rule, Target, parse, rule_files};

pub(super) fn conflicts(sys: &Sys, device: &Device, attributes: &[&str]) -> Vec<Conflict> {
    // Without an identity there is no rule of ours, and this is where it would be.
    let id = alone(sys, device).map(|identity| identity.id).unwrap_or_default();
    let ours = rule_path(&id);
    let ours = ours.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let targets =
        [(Target::block(sys, device), Event::Block), (Target::bdi(sys, device), Event::Bdi)];
    let mut conflicts = Vec::new();
    for file in rule_files(sys).into_iter().filter(|file| !file.is_mask && file.name != ours) {
        let Some(text) = sys.bytes(&file.path) else { continue };
        let text = String::from_utf8_lossy(&text);
        let rules = parse(&text);
        for (target, event) in &targets {
            let place = Place { sys, file: &file.path, event: *event, is_later: file.name > ours };
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
enum Event {
    Block,
    /// A bdi has a uevent of its own, in no fixed order with its disk's.
    Bdi,
}

/// The rules of a file that are reached, and whether they concern the device: for `add`, or for
/// `change`, whichever says more.
fn reached<'a>(target: &Target<'_>, rules: &'a [Rule]) -> Vec<(&'a Rule, Answer)> {
    let walks = ["add", "change"].map(|action| walk(target, rules, action));
    let both = rules.iter().zip(walks[0].iter().zip(&walks[1]));
    let answers = both.map(|(rule, answers)| match answers {
        (Answer::Yes, _) | (_, Answer::Yes) => (rule, Answer::Yes),
        (Answer::CannotTell, _) | (_, Answer::CannotTell) => (rule, Answer::CannotTell),
        (Answer::No, Answer::No) => (rule, Answer::No),
    });
    answers.filter(|(_, answer)| *answer != Answer::No).collect()
}

/// One answer for each rule, in order.
fn walk(target: &Target<'_>, rules: &[Rule], action: &str) -> Vec<Answer> {
    let mut jumps_to: Option<&str> = None;
    // Labels that may have been jumped to: until there, nothing is sure.
    let mut may_jump_to: Vec<&str> = Vec::new();
    let mut answers = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let of = |key: &str| named(rule, key);
        // udev passes over a jump to where nothing is.
        let is_there = |to: &&Pair| {
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
            Some(_) => Answer::No,
            None => target.answers(action, &rule.pairs),
        };
        if !may_jump_to.is_empty() {
            answer = answer.and(Answer::CannotTell);
        }
        match (of("GOTO").filter(is_there), answer) {
            (Some(label), Answer::Yes) => jumps_to = Some(&label.value),
            (Some(label), Answer::CannotTell) => may_jump_to.push(&label.value),
            _ => {}
        }
        answers.push(answer);
    }
    answers
}

/// What a rule does by this key.
fn named<'a>(rule: &'a Rule, key: &str) -> Option<&'a Pair> {
    rule.pairs.iter().find(|pair| pair.key == key && !pair.is_match())
}

struct Place<'a> {
    sys: &'a Sys,
    file: &'a PathBuf,
    event: Event,
    is_later: bool,
}

impl Place<'_> {
    fn conflict(
        &self,
        rule: &Rule,
        pair: &Pair,
        answer: Answer,
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
            (_, Event::Block, false) => Wins::No,
            (Answer::Yes, Event::Block, true) => Wins::Yes,
            _ => Wins::Unknown,
        };
        let doubt = match answer {
            Answer::CannotTell => ", if it means this device",
            Answer::Yes | Answer::No => "",
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

    /// Which of the attributes is meant: the window has a second name on the disk, and a third one
    /// on its bdi.
    fn named<'a>(&self, of: &str, attributes: &[&'a str]) -> Option<&'a str> {
        let is = |it: &&&str| match self.event {
            Event::Block => of == **it || (**it == READ_AHEAD_KB && of == "bdi/read_ahead_kb"),
            Event::Bdi => **it == READ_AHEAD_KB && of == "read_ahead_kb",
        };
        attributes.iter().find(is).copied()
    }

    /// Which of them a command sets, or the script that it runs.
    fn run<'a>(&self, command: &str, attributes: &[&'a str]) -> Option<&'a str> {
        let in_script = || {
            let (_, text) = super::scripts::script_in(self.sys, command)?;
            mentioned(&text, attributes)
        };
        mentioned(command, attributes).or_else(in_script)
    }
}

/// The first that a text mentions.
fn mentioned<'a>(text: &str, attributes: &[&'a str]) -> Option<&'a str> {
    let is = |it: &&&str| names(it).iter().any(|name| text.contains(name));
    attributes.iter().find(is).copied()
}
