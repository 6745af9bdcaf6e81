//! Copies of resident pages, without a lock.
//!
//! In:    pages, and where their bytes go.
//! Out:   bytes that are the pages', and which pages these were.
//! Never: a wait. A page that would not keep still is not resident to its reader.

use foreread_core::table::{FoundPage, FoundRun};
use foreread_core::units::PageIndex;

use crate::file_state::FileState;
use crate::pool::PAGE;

/// Copies from the middle of a page into the pages after it, as many as one look-up finds; and how
/// many of these, from the first on, kept still. What is in `to` behind them is nothing.
///
/// ```text
///   one look-up    E E E E E E         frames   7 8 9   3   5 6
///   copies                                      |---|   |   |-|
///   entries again  = = = = x =         four pages are the read's; the fifth is looked up again
/// ```
#[inline]
pub(super) fn copy_run<'f>(
    file: &'f FileState,
    page: PageIndex,
    from: usize,
    to: &mut [u8],
) -> (FoundRun<'f>, usize) {
    let pages = (from + to.len()).div_ceil(PAGE);
    let run = file.engine.table.look_up_run(file.slot, page, pages);
    // Of the first page only what lies behind `from` is copied.
    let (mut index, mut at, mut done) = (0, from, 0);
    while index < run.len() {
        let (frame, count) = run.frames_from(index);
        let len = (count * PAGE - at).min(to.len() - done);
        file.engine.pool.copy_frames_out(frame, at, &mut to[done..done + len]);
        (index, at, done) = (index + count, 0, done + len);
    }
    let held = run.still_held();
    (run, held)
}

/// Copies part of a resident page; None if it is not resident, or would not keep still.
///
/// ```text
///   load the entry -> copy -> load it again:  same frame, generation   the bytes are the page's
///                                             else                     throw them away
/// ```
#[inline]
pub(crate) fn copy_page<'f>(
    file: &'f FileState,
    page: PageIndex,
    from: usize,
    to: &mut [u8],
) -> Option<FoundPage<'f>> {
    for _ in 0..COPY_TRIES {
        let found = file.engine.table.look_up(file.slot, page)?;
        if !found.entry().is_up_to_date() {
            return None;
        }
        file.engine.pool.copy_out(found.entry().frame(), from, to);
        if found.still_holds() {
            return Some(found);
        }
    }
    None
}

/// How often a page that is replaced while it is copied is looked up again before the read is a
/// miss.
const COPY_TRIES: usize = 3;
