//! Bars of characters: a plot for a terminal.

/// One line of a plot.
pub(super) struct Bar {
    pub(super) name: String,
    /// The figure; or why there is none.
    pub(super) figure: Result<f64, String>,
}

/// Returns the lines of a plot whose longest bar ends at `width`.
pub(super) fn plot(bars: &[Bar], width: usize) -> Vec<String> {
    let names = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
    let most = bars.iter().filter_map(|bar| bar.figure.as_ref().ok()).copied().fold(0.0, f64::max);
    let room = width.saturating_sub(INDENT.len() + names + 2 + FIGURE + 2).max(1);
    let line = |bar: &Bar| {
        let name = format!("{INDENT}{:names$}", bar.name);
        match &bar.figure {
            Ok(figure) => {
                let digits = usize::from(*figure < 100.0);
                let length = length(figure / most, room);
                vec![format!("{name}  {figure:>FIGURE$.digits$}  {}", "#".repeat(length))]
            }
            Err(why) => foreread_cli::terminal::wrap(
                &format!("{name}  "),
                &format!("skipped: {why}"),
                width,
            ),
        }
    };
    bars.iter().flat_map(line).collect()
}

/// Returns the length of a bar, at least one character.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to the room")]
fn length(part: f64, room: usize) -> usize {
    let length = (part.clamp(0.0, 1.0) * room as f64).round() as usize;
    length.max(1)
}

const INDENT: &str = "  ";

/// Columns of a figure: up to 9999.9.
const FIGURE: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_ends_at_the_width_and_the_others_are_in_proportion() {
        let bar = |name: &str, figure| Bar { name: name.to_owned(), figure };
        let bars =
            [bar("one", Ok(50.0)), bar("two", Ok(100.0)), bar("three", Err("no".to_owned()))];
        assert_eq!(
            plot(&bars, 28),
            ["  one       50.0  #####", "  two        100  ##########", "  three  skipped: no"]
        );
    }
}
