//! Parses the rules of a file. A line with an unknown part is dropped, as udev does.

/// A rule: its match keys and its actions.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UdevRule {
    /// First line of the rule, from 1.
    pub line: usize,
    /// Pairs of the rule, in order.
    pub pairs: Vec<RulePair>,
}

/// A key with its operator and value: `ATTR{queue/rotational}=="1"`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RulePair {
    /// Key: `ATTR`.
    pub key: String,
    /// Key's argument: `queue/rotational`, or empty.
    pub of: String,
    /// `==`, `!=`, `=`, `+=`, `-=` or `:=`.
    pub operator: &'static str,
    /// Value without its quotes.
    pub value: String,
}

impl RulePair {
    /// Returns whether it is a match, not an action.
    #[must_use]
    pub fn is_match(&self) -> bool {
        matches!(self.operator, "==" | "!=")
    }

    /// Returns whether udev knows the key with this operator; otherwise it drops the whole line.
    fn is_known(&self) -> bool {
        let key = self.key.as_str();
        if MATCHED.contains(&key) {
            return self.is_match();
        }
        if ASSIGNED.contains(&key) {
            return !self.is_match();
        }
        EITHER.contains(&key)
    }
}

/// Keys that can only be matched.
const MATCHED: [&str; 13] = [
    "ACTION",
    "ATTRS",
    "CONST",
    "DEVPATH",
    "DRIVER",
    "DRIVERS",
    "KERNEL",
    "KERNELS",
    "RESULT",
    "SUBSYSTEM",
    "SUBSYSTEMS",
    "TAGS",
    "TEST",
];

/// Keys that can only be assigned.
const ASSIGNED: [&str; 8] =
    ["GOTO", "GROUP", "LABEL", "MODE", "OPTIONS", "OWNER", "RUN", "SECLABEL"];

/// Keys that can be matched and assigned, and those whose operator udev ignores.
const EITHER: [&str; 8] = ["ATTR", "ENV", "IMPORT", "NAME", "PROGRAM", "SYMLINK", "SYSCTL", "TAG"];

/// Longer operators first.
const OPERATORS: [&str; 6] = ["==", "!=", "+=", "-=", ":=", "="];

/// Parses the rules in a file's text.
#[must_use]
pub fn parse(text: &str) -> Vec<UdevRule> {
    let mut rules = Vec::new();
    let mut whole = String::new();
    let mut begins = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        // This also holds inside a continued rule, and a comment is not continued.
        if line.starts_with('#') {
            continue;
        }
        let begin = *begins.get_or_insert(number);
        if let Some(part) = line.strip_suffix('\\') {
            whole.push_str(part);
            continue;
        }
        whole.push_str(line);
        match pairs(&whole) {
            Some(pairs) if !pairs.is_empty() && pairs.iter().all(RulePair::is_known) => {
                rules.push(UdevRule { line: begin, pairs });
            }
            _ => {}
        }
        whole.clear();
        begins = None;
    }
    rules
}

fn pairs(mut text: &str) -> Option<Vec<RulePair>> {
    let mut pairs = Vec::new();
    loop {
        text = text.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        if text.is_empty() {
            return Some(pairs);
        }
        let (pair, rest) = pair(text)?;
        pairs.push(pair);
        text = rest;
    }
}

fn pair(text: &str) -> Option<(RulePair, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_uppercase() || c == '_'))?;
    let (key, rest) = text.split_at(end);
    let (of, rest) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once('}')?,
        None => ("", rest),
    };
    let rest = rest.trim_start();
    let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator))?;
    let (value, rest) = quoted(rest[operator.len()..].trim_start())?;
    let pair = RulePair { key: key.to_owned(), of: of.to_owned(), operator, value };
    (!key.is_empty()).then_some((pair, rest))
}

/// Returns the value and the remaining text. A prefix is accepted: `e` for a value with C escapes,
/// which are kept verbatim, `i` for one that ignores case.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix(['e', 'i']).unwrap_or(text).strip_prefix('"')?;
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' if text[at + 1..].starts_with('"') => {
                value.push('"');
                chars.next();
            }
            _ => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_as_people_write_them() {
        let rules = parse(
            "# a comment does not go on \\\n\
             ACTION==\"add|change\", KERNEL==\"sd[a-z]\",ATTR{queue/rotational}!=\"1\", \\\n\
             # nor does it end a rule\n\
             \x20 ATTR{bdi/read_ahead_kb} = \"16\" RUN+=\"/bin/sh -c 'echo \\\"1\\\"'\"\n\
             \n\
             KERNEL==\"sda\", NONSENSE\n\
             LABEL=\"end\"\n",
        );
        let lines: Vec<_> = rules.iter().map(|rule| rule.line).collect();
        assert_eq!(lines, [2, 7], "a broken rule is none");
        let pairs: Vec<_> = rules[0]
            .pairs
            .iter()
            .map(|pair| (pair.key.as_str(), pair.of.as_str(), pair.operator, pair.value.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("ACTION", "", "==", "add|change"),
                ("KERNEL", "", "==", "sd[a-z]"),
                ("ATTR", "queue/rotational", "!=", "1"),
                ("ATTR", "bdi/read_ahead_kb", "=", "16"),
                ("RUN", "", "+=", "/bin/sh -c 'echo \"1\"'"),
            ]
        );
    }

    /// Rules with a key or an operator that udev refuses were taken for rules that it follows.
    #[test]
    fn lines_that_udev_leaves_out_are_no_rules() {
        let text = "SUBSYSTEM=\"bdi\", ATTR{read_ahead_kb}=\"1\"\n\
                    SUBSYSTEM==\"bdi\", ATTRIBUTE{read_ahead_kb}=\"2\"\n\
                    SUBSYSTEM==\"bdi\", RUN==\"/bin/true\"\n\
                    SUBSYSTEM==\"bdi\", PROGRAM=\"/bin/true\", ATTR{read_ahead_kb}=\"4\"\n";
        let lines: Vec<_> = parse(text).iter().map(|rule| rule.line).collect();
        assert_eq!(lines, [4]);
    }
}
