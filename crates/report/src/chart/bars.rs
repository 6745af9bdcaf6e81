//! Horizontal bars in groups, each between its label and its value.
//!
//! At most [`BarChart::MAX_BARS`] are drawn; the table has all.

use plotters::prelude::{Color as _, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::DrawnChart;
use super::axis::AxisUnit;
use super::drawing::{DrawResult, SvgArea, WIDTH, svg, text_style};
use crate::colour::{INK, series};
use crate::table::ReportTable;

/// Horizontal bars.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// Title of the comparison.
    pub title: String,
    /// One sentence of explanation.
    pub words: String,
    /// Name of the values, with their unit if they are plain numbers.
    pub value_name: String,
    /// Number format.
    pub unit: AxisUnit,
    /// The bars.
    pub groups: Vec<BarGroup>,
}

/// Group of bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarGroup {
    /// Common name; may be empty.
    pub name: String,
    /// The bars.
    pub bars: Vec<ChartBar>,
}

/// One bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartBar {
    /// Name.
    pub label: String,
    /// Value, at least 0.
    pub value: f64,
    /// Colour index: the same for the same thing in each group.
    pub series: usize,
}

impl BarChart {
    /// Most bars drawn.
    pub const MAX_BARS: usize = 30;

    pub(super) fn drawn(&self) -> DrawnChart {
        let mut table = ReportTable::new(&self.title, &["group", "bar", &self.value_name]);
        let has_groups = self.groups.iter().any(|group| !group.name.is_empty());
        if !has_groups {
            table.heading.remove(0);
        }
        for group in &self.groups {
            for bar in &group.bars {
                let value = self.unit.words(bar.value);
                let cells = [group.name.clone(), bar.label.clone(), value];
                table.push(cells.into_iter().skip(usize::from(!has_groups)));
            }
        }
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        let words = match bars.saturating_sub(Self::MAX_BARS) {
            0 => self.words.clone(),
            more => format!("{} {more} more bars are in its figures.", self.words),
        };
        DrawnChart {
            title: self.title.clone(),
            words,
            aria: format!("Bar chart: {}. {}", self.title, self.extremes()),
            legend: Vec::new(),
            svg: svg(self.height(), |area| self.draw(area)),
            table,
        }
    }

    fn extremes(&self) -> String {
        let named = self.groups.iter().flat_map(|group| {
            group.bars.iter().map(move |bar| (bar.value, format!("{} {}", group.name, bar.label)))
        });
        let named: Vec<(f64, String)> = named.collect();
        let words = |found: Option<&(f64, String)>| {
            found.map_or_else(String::new, |(value, name)| {
                format!("{} of {}", self.unit.words(*value), name.trim())
            })
        };
        let (least, most) = (
            named.iter().min_by(|one, other| one.0.total_cmp(&other.0)),
            named.iter().max_by(|one, other| one.0.total_cmp(&other.0)),
        );
        format!("{} bars, from {} to {}.", named.len(), words(least), words(most))
    }

    /// Returns the groups, limited to the bars drawn.
    fn shown(&self) -> Vec<(&str, &[ChartBar])> {
        let mut left = Self::MAX_BARS;
        let mut shown = Vec::new();
        for group in &self.groups {
            let count = group.bars.len().min(left);
            left -= count;
            if count > 0 {
                shown.push((group.name.as_str(), &group.bars[..count]));
            }
        }
        shown
    }

    fn height(&self) -> u32 {
        let of_group = |(name, bars): &(&str, &[ChartBar])| {
            let heading = if name.is_empty() { 0 } else { ROW };
            heading + ROW * i32::try_from(bars.len()).unwrap_or(0)
        };
        let rows: i32 = self.shown().iter().map(of_group).sum();
        u32::try_from(rows.max(ROW) + 2 * EDGE).unwrap_or(0)
    }

    #[expect(clippy::cast_possible_truncation, reason = "bars are shorter than the chart")]
    fn draw(&self, area: &SvgArea<'_>) -> DrawResult {
        let shown = self.shown();
        let values = shown.iter().flat_map(|(_, bars)| bars.iter().map(|bar| bar.value));
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max).max(1e-12);
        let labels = shown.iter().flat_map(|(_, bars)| bars.iter().map(|bar| label(&bar.label)));
        let longest = labels.map(|label| label.chars().count()).max().unwrap_or(0);
        let start = EDGE + i32::try_from(longest).unwrap_or(0) * LETTER + 8;
        let room = f64::from(WIDTH as i32 - start - VALUE_ROOM);
        let ink = text_style(INK.rgb());
        let left = ink.pos(Pos::new(HPos::Left, VPos::Center));
        let mut top = EDGE;
        for (name, bars) in shown {
            if !name.is_empty() {
                area.draw(&Text::new(label(name), (EDGE, top + ROW / 2), left.clone()))?;
                top += ROW;
            }
            for bar in bars {
                let (middle, value) = (top + ROW / 2, bar.value.clamp(0.0, most));
                let end = start + (value / most * room).round().max(1.0) as i32;
                area.draw(&Text::new(label(&bar.label), (EDGE, middle), left.clone()))?;
                let corners = [(start, top + 3), (end, top + ROW - 3)];
                area.draw(&Rectangle::new(corners, series(bar.series).filled()))?;
                let words = self.unit.words(bar.value);
                area.draw(&Text::new(words, (end + 6, middle), left.clone()))?;
                top += ROW;
            }
        }
        Ok(())
    }
}

/// Truncates a name to leave room for its bar.
fn label(name: &str) -> String {
    let shown: String = name.chars().take(LABEL).collect();
    if shown.len() < name.len() { shown + ".." } else { shown }
}

/// Most characters of a label.
const LABEL: usize = 24;

/// Approximate width of a character.
const LETTER: i32 = 8;

/// Height of a bar, including the space to the next.
const ROW: i32 = 26;

const EDGE: i32 = 6;

/// Room for the value after the longest bar.
const VALUE_ROOM: i32 = 84;
