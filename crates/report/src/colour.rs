//! Colours of charts on light and dark pages.
//!
//! SVG contains the light colour, which rules replace on dark pages. The contrast to the page is at
//! least 4.5, as text may have any of them.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// A colour on light and on dark pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChartColour {
    light: u32,
    dark: u32,
}

/// Text and axes.
pub(crate) const INK: ChartColour = ChartColour { light: 0x1F_2328, dark: 0xE6_E8EA };

/// Grid lines; no text has this colour.
pub(crate) const GRID: ChartColour = ChartColour { light: 0xD0_D4D8, dark: 0x3A_3F45 };

/// Page background.
const PAPER: ChartColour = ChartColour { light: 0xFF_FFFF, dark: 0x15_181B };

/// Colours of series; the ninth series reuses the first.
pub(crate) const SERIES: [ChartColour; 8] = [
    ChartColour { light: 0x1B_5FAA, dark: 0x7D_B7FF },
    ChartColour { light: 0xB3_4A00, dark: 0xFF_AE66 },
    ChartColour { light: 0x2B_7A3D, dark: 0x7F_D492 },
    ChartColour { light: 0x7A_3FA0, dark: 0xD0_A2F0 },
    ChartColour { light: 0x00_6B75, dark: 0x5F_D3DD },
    ChartColour { light: 0xB0_261E, dark: 0xFF_8F87 },
    ChartColour { light: 0x5F_6368, dark: 0xB8_BDC2 },
    ChartColour { light: 0x7A_5230, dark: 0xD8_B08C },
];

/// Returns the colour of a series.
pub(crate) fn series(number: usize) -> RGBColor {
    SERIES[number % SERIES.len()].rgb()
}

impl ChartColour {
    /// Returns the light colour.
    pub(crate) fn rgb(self) -> RGBColor {
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }
}

/// Returns the CSS rules for dark pages and for swatches.
pub(crate) fn rules() -> String {
    let mut text = String::new();
    let all = || SERIES.iter().chain([&INK, &GRID]);
    for (number, ChartColour { light, .. }) in SERIES.iter().enumerate() {
        let _ = writeln!(text, ".s{number}{{background:#{light:06X}}}");
    }
    text += DARK_BEGINS;
    for ChartColour { light, dark } in all() {
        let _ = writeln!(text, "svg [fill=\"#{light:06X}\"]{{fill:#{dark:06X}}}");
        let _ = writeln!(text, "svg [stroke=\"#{light:06X}\"]{{stroke:#{dark:06X}}}");
    }
    for (number, ChartColour { dark, .. }) in SERIES.iter().enumerate() {
        let _ = writeln!(text, ".s{number}{{background:#{dark:06X}}}");
    }
    let (ink, paper, grid) = (INK.dark, PAPER.dark, GRID.dark);
    let _ = writeln!(text, "body{{color:#{ink:06X};background:#{paper:06X}}}");
    let _ = writeln!(text, "th,td,pre,details,.note{{border-color:#{grid:06X}}}\n}}");
    text
}

/// Print always uses the light colours.
const DARK_BEGINS: &str = "@media screen and (prefers-color-scheme:dark){\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG 2.1: the relative luminance of a colour.
    fn luminance(colour: u32) -> f64 {
        let [_, red, green, blue] = colour.to_be_bytes();
        let part = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue)
    }

    fn contrast(one: u32, other: u32) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn each_colour_can_be_read_on_both_pages() {
        assert!((contrast(0, 0xFF_FFFF) - 21.0).abs() < 1e-9);
        for colour in SERIES.iter().chain([&INK]) {
            let (light, dark) =
                (contrast(colour.light, PAPER.light), contrast(colour.dark, PAPER.dark));
            assert!(light >= 4.5, "{colour:06x?}: {light}");
            assert!(dark >= 4.5, "{colour:06x?}: {dark}");
        }
    }
}
