//! Writes a device model as the TOML table `[device.NAME]` of a scenario, preceded by comments.
//!
//! Control characters in names and notes are replaced, so they cannot break a line.

use super::FittedDevice;

/// First words of each file; they distinguish it from files of other programs.
pub const DEVICE_MODEL_HEAD: &str = "# Device model, measured by foreread tune";

/// Returns the file: one line for each comment, then the table.
#[must_use]
pub fn device_table(name: &str, device: &FittedDevice, comments: &[String]) -> String {
    let mut text = format!("{DEVICE_MODEL_HEAD}.\n");
    for line in comments.iter().flat_map(|comment| wrapped(comment)) {
        text += format!("# {line}").trim_end();
        text.push('\n');
    }
    let name = quoted(name);
    text += &format!("\n[device.{name}.model.{}]\n", device.kind());
    for (key, value) in device.keys() {
        text += &format!("{key} = {value}\n");
    }
    text
}

/// Wraps a comment to the line width of this crate's texts.
fn wrapped(comment: &str) -> Vec<String> {
    let comment = comment.replace(char::is_control, "?");
    if comment.chars().count() <= WIDTH {
        return vec![comment];
    }
    let mut lines = vec![String::new()];
    for word in comment.split_whitespace() {
        let last = lines.last_mut().expect("there is one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
        } else {
            *last += if last.is_empty() { "" } else { " " };
            *last += word;
        }
    }
    lines
}

/// Width of a comment without its sign.
const WIDTH: usize = 98;

/// Quotes a table key unless TOML allows it bare.
fn quoted(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(is_bare) {
        return name.to_owned();
    }
    let name = name.replace(char::is_control, "?");
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Formats a number with five digits, as a TOML float.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 9")]
pub(super) fn number(value: f64) -> String {
    let digits = if value.abs() < 1e-9 { 0.0 } else { value.abs().log10().floor() };
    let decimals = (4.0 - digits).clamp(1.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_five_digits_and_a_point() {
        let cases = [(0.0, "0.0"), (7450.0, "7450.0"), (123_456.7, "123456.7"), (1.5, "1.5")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(0.012_345_678), "0.012346");
        assert_eq!(number(131.072), "131.07");
    }

    #[test]
    fn long_comments_are_wrapped_and_break_no_line() {
        let long = "word ".repeat(50);
        let lines = wrapped(&long);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() <= WIDTH && !line.ends_with(' ')));
        assert_eq!(lines.join(" "), long.trim());
        assert_eq!(wrapped("a\nmodel = 3"), ["a?model = 3"]);
    }

    #[test]
    fn names_are_keys() {
        assert_eq!(quoted("nvme0n1"), "nvme0n1");
        assert_eq!(quoted("/mnt/a \"b\"\\\n"), "\"/mnt/a \\\"b\\\"\\\\?\"");
        assert_eq!(quoted(""), "\"\"");
    }
}
