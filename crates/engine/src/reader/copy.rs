//! Lock-free copies of resident pages. A page that is replaced during the copy counts as missing.

use foreread_core::table::{FoundPage, FoundRun};
use foreread_core::units::PageIndex;

use crate::file_state::FileState;
use crate::pool::PAGE;

/// Copies from the middle of a page into the pages after it, as far as one look-up reaches. Returns
/// the run and the number of leading pages that stayed valid during the copy; the rest of `to` is
/// garbage.
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
    // The first page is copied from byte `from` on.
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

/// Copies part of a resident page. Returns None if it is not resident, or keeps being replaced.
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

/// Number of times that a page replaced during its copy is looked up again before the read counts
/// as a miss.
const COPY_TRIES: usize = 3;
