//! Renders a [`ReportPage`] as one HTML file: embedded styles, no script, light and dark,
//! printable.
//!
//! Content beyond [`MAX_BYTES`] is named instead of shown.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};

use crate::chart;
use crate::colour;
use crate::page::{ReportBlock, ReportPage, ReportSection};
use crate::table::ReportTable;

/// Upper bound of a page, 1 MB.
pub const MAX_BYTES: usize = 1_000_000;

/// Returns the page as HTML.
#[must_use]
pub fn render(page: &ReportPage) -> String {
    let mut body = head(page);
    for section in &page.sections {
        add_section(&mut body, section);
    }
    let made_by = clipped(&page.made_by);
    body += &html! { footer { p { (made_by) } } }.into_string();
    body += "</main></body></html>\n";
    // In one place, so that no text is missed.
    let html = body.replace(is_hidden, "?");
    debug_assert!(html.len() < MAX_BYTES, "add_section keeps the bound");
    html
}

/// Returns true if a file begins like a page of [`render`].
#[must_use]
pub fn is_report(head: &[u8]) -> bool {
    head.starts_with(HEAD.as_bytes())
}

fn head(page: &ReportPage) -> String {
    let mut text = HEAD.to_owned();
    let (title, headline) = (clipped(&page.title), clipped(&page.headline));
    text += &html! { title { (title) } }.into_string();
    let _ = write!(text, "<style>\n{STYLE}{}</style></head><body><main>\n", colour::rules());
    let notes = page.notes.iter().take(MAX_NOTES).map(|note| clipped(note));
    text += &html! {
        p.title { (title) }
        h1 { (headline) }
        @for note in notes { p.note { (note) } }
    }
    .into_string();
    text
}

/// Adds a section, if there is room.
fn add_section(body: &mut String, section: &ReportSection) {
    let heading = clipped(&section.heading);
    let mut is_in_charts = false;
    let mut left_out = 0_usize;
    push(body, &mut left_out, html! { h2 { (heading) } });
    for block in &section.blocks {
        if body.len() >= LAST_BLOCK_ENDS {
            left_out += 1;
            continue;
        }
        let is_chart = matches!(block, ReportBlock::Chart(_));
        match (is_in_charts, is_chart) {
            (false, true) => *body += "<div class=\"charts\">\n",
            (true, false) => *body += "</div>\n",
            (false, false) | (true, true) => {}
        }
        is_in_charts = is_chart;
        push(body, &mut left_out, markup(block));
    }
    if is_in_charts {
        *body += "</div>\n";
    }
    if left_out > 0 && body.len() < LAST_BLOCK_ENDS + ROOM_FOR_WORDS {
        let text = format!("{left_out} parts are left out: the page would be larger than 1 MB.");
        *body += &html! { p.note { (text) } }.into_string();
    }
}

fn push(body: &mut String, left_out: &mut usize, block: Markup) {
    let text = block.into_string();
    if body.len() + text.len() > LAST_BLOCK_ENDS {
        *left_out += 1;
    } else {
        *body += &text;
        body.push('\n');
    }
}

fn markup(block: &ReportBlock) -> Markup {
    match block {
        ReportBlock::Heading(text) => html! { h3 { (clipped(text)) } },
        ReportBlock::Paragraph(text) => html! { p { (clipped_to(text, MAX_PARAGRAPH)) } },
        ReportBlock::Code(text) => {
            html! { pre tabindex="0" { (clipped_to(text, MAX_PARAGRAPH)) } }
        }
        ReportBlock::Table(rows) => table(rows),
        ReportBlock::Chart(one) => {
            let shown = chart::draw(one);
            let rows = shown.table.rows.len();
            html! {
                figure {
                    figcaption {
                        strong { (clipped(&shown.title)) } " " (clipped(&shown.words))
                    }
                    @if !shown.legend.is_empty() {
                        ul.legend {
                            @for (number, name) in &shown.legend {
                                li {
                                    i class={ "s" (number % colour::SERIES.len()) } {}
                                    (clipped(name))
                                }
                            }
                        }
                    }
                    div role="img" aria-label=(clipped(&shown.aria)) { (PreEscaped(shown.svg)) }
                    details {
                        summary { "Its figures (" (rows) " rows)" }
                        (table(&shown.table))
                    }
                }
            }
        }
    }
}

fn table(table: &ReportTable) -> Markup {
    let more = table.rows.len().saturating_sub(ReportTable::MAX_ROWS);
    let caption = clipped(&table.caption);
    let class = |column: usize| is_numeric(table, column).then_some("n");
    html! {
        div.wide role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for (column, cell) in table.heading.iter().enumerate() {
                            th scope="col" class=[class(column)] { (clipped(cell)) }
                        }
                    }
                }
                tbody {
                    @for row in table.rows.iter().take(ReportTable::MAX_ROWS) {
                        tr class=[row.is_marked.then_some("marked")] {
                            @for (column, cell) in row.cells.iter().enumerate() {
                                @if column == 0 { th scope="row" { (clipped(cell)) } }
                                @else { td class=[class(column)] { (clipped(cell)) } }
                            }
                        }
                    }
                }
            }
        }
        @if more > 0 { p { "And " (more) " more rows." } }
    }
}

/// Returns true if a column is right-aligned.
fn is_numeric(table: &ReportTable, column: usize) -> bool {
    let cells = table.rows.iter().take(ROWS_LOOKED_AT).filter_map(|row| row.cells.get(column));
    column > 0 && cells.into_iter().all(|cell| is_number(cell))
}

/// Returns true if a cell begins with a number, or is empty.
fn is_number(cell: &str) -> bool {
    let digits = cell.strip_prefix(['+', '-']).unwrap_or(cell);
    digits.starts_with(|c: char| c.is_ascii_digit()) || digits.is_empty()
}

/// Truncates a text. Names in traces have up to 4 KiB.
fn clipped(text: &str) -> String {
    clipped_to(text, MAX_TEXT)
}

fn clipped_to(text: &str, max: usize) -> String {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let shown = text[..end].replace(is_hidden, "?");
    if end < text.len() { shown + ".." } else { shown }
}

/// Returns true for characters that are invisible or would reverse the text around them. The
/// joiners U+200C and U+200D stay: scripts and emoji need them.
fn is_hidden(c: char) -> bool {
    let turns_around = matches!(c,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}');
    let has_no_width = matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    (c.is_control() && c != '\n') || turns_around || has_no_width
}

/// Rows checked for the alignment of a column.
const ROWS_LOOKED_AT: usize = 50;

/// Longest cell, name or heading.
const MAX_TEXT: usize = 1000;

/// Longest paragraph, such as a list of all machines of a class.
const MAX_PARAGRAPH: usize = 50_000;

/// Most notes; further ones would not be read.
const MAX_NOTES: usize = 20;

/// Limit for sections, to leave room for the footer.
const LAST_BLOCK_ENDS: usize = MAX_BYTES - 20_000;

/// Room for the sentences about omitted content.
const ROOM_FOR_WORDS: usize = 8000;

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta name=\"generator\" content=\"foreread\">\n\
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n";

const STYLE: &str = ":root{color-scheme:light dark}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0;color:#1F2328;background:#FFFFFF}
main{max-width:72rem;margin:0 auto;padding:1.5rem 1rem}
.title{margin:0;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.3;margin:.3rem 0 1rem;max-width:50rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2rem 0 .6rem;overflow-wrap:anywhere}
h3{font-size:1rem;margin:1.2rem 0 .3rem;overflow-wrap:anywhere}
p{max-width:50rem;overflow-wrap:anywhere}
.note{border-left:4px solid #D0D4D8;padding-left:.8rem;margin:.5rem 0}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1.5rem}
figure{margin:0;min-width:0}
figcaption{overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto;max-width:40rem}
svg text{font-family:system-ui,sans-serif}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:.4rem 0}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.4em;print-color-adjust:exact}
.wide{overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:.2rem 0}
th,td{border-bottom:1px solid #D0D4D8;padding:.25rem .7rem;text-align:left;vertical-align:top}
th:first-child{font-weight:inherit;overflow-wrap:anywhere;min-width:8rem}
thead th,thead th:first-child{font-weight:bold;vertical-align:bottom}
thead th.n{white-space:normal}
.n{text-align:right;white-space:nowrap}
.marked th:first-child{border-left:4px solid #B34A00;font-weight:bold}
pre{overflow-x:auto;border:1px solid #D0D4D8;padding:.6rem}
details{margin:.3rem 0}
footer{margin-top:2rem;font-size:.85rem}
@media print{body{font-size:11px}figure,tr{break-inside:avoid}
details::details-content{content-visibility:visible;display:block}}
";
