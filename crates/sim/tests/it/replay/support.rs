//! Traces that the tests make.

use foreread_sim::rng::Rng;

/// Pages of 4 KiB, some far likelier than others, as CSV.
pub(crate) fn skewed_pages(records: usize, pages: u64, seed: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    // The square of a uniform number is small more often than not.
    let mut page = || {
        let unit = rng.unit();
        page_of(unit * unit * unit, pages)
    };
    (0..records).map(|_| page()).collect()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a page below `pages`"
)]
fn page_of(unit: f64, pages: u64) -> u64 {
    (unit * pages as f64) as u64
}

/// The trace that reads these pages, one each microsecond.
pub(crate) fn csv(pages: &[u64]) -> String {
    let mut text = String::from("time_us,offset,length\n");
    for (at, page) in pages.iter().enumerate() {
        text += &format!("{at},{},4096\n", page * 4096);
    }
    text
}
