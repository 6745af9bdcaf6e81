//! Invariants between the parts of a cache, checked by tests between calls. The check visits every
//! frame, so no driver's call runs it.

use super::PageCache;
use crate::table::{Frame, PinBudget};
use crate::units::Pages;

impl PageCache {
    /// Checks that each frame is in one place, and that lists, holds, entries and counts agree.
    ///
    /// # Panics
    ///
    /// If they do not agree, which is a bug of the cache.
    pub fn assert_consistent(&self) {
        let dump = self.dump();
        let listed = dump.inactive.len() + dump.active.len() + dump.ahead.len();
        let held = dump.held.len() + dump.orphans.len();
        let all = dump.free.len() + listed + held;
        assert!(all == self.frames() as usize, "{all} frames of {} are counted", self.frames());
        let idle = Pages((dump.free.len() + listed) as u64);
        assert!(self.idle() == idle, "{:?} are idle, and {idle:?} are free or listed", self.idle());
        assert!(self.room_for_ahead().0 <= u64::from(self.frames()), "read-ahead has some frames");
        for &frame in dump.free.iter().chain(&dump.orphans) {
            assert!(self.page_of(frame).is_none(), "{frame:?} is free or an orphan, with a page");
        }
        for &frame in dump.free.iter().chain(&dump.inactive).chain(&dump.active).chain(&dump.ahead)
        {
            assert!(!self.is_held(frame), "{frame:?} is free or listed, and held");
        }
        for &frame in &dump.inactive {
            let is_elsewhere = self.frames.is_active(frame) || self.frames.is_ahead(frame);
            assert!(!is_elsewhere, "{frame:?} is on the inactive list and belongs to another");
        }
        for &frame in &dump.active {
            let is_there = self.frames.is_active(frame) && !self.frames.is_ahead(frame);
            assert!(is_there, "{frame:?} is on the active list and belongs to another");
        }
        for &frame in &dump.ahead {
            assert!(self.frames.is_ahead(frame), "{frame:?} is on the ahead list only");
            assert!(self.keeps_unread(), "the ahead list is for caches that keep unread pages");
        }
        for &frame in dump.inactive.iter().chain(&dump.active).chain(&dump.ahead) {
            self.assert_has_page(frame, true);
        }
        for &frame in &dump.held {
            self.assert_has_page(frame, false);
        }
        let pins = self.table();
        let (granted, max) = (pins.pin_budget().granted(), PinBudget::of(self.frames()));
        assert!(granted <= max, "{granted} pins are granted, of {max}");
    }

    /// Checks that the frame's page is in the table, with an entry that names this frame and its
    /// generation.
    fn assert_has_page(&self, frame: Frame, is_filled: bool) {
        let Some((file, page)) = self.page_of(frame) else {
            panic!("{frame:?} is listed or held without a page, and no orphan");
        };
        let entry = self.look_up(file, page).expect("a frame's page is in the table");
        assert!(entry.frame() == frame, "{page:?} of {file:?} is in {frame:?}, not in {entry:?}");
        let generation = self.table.table().generation(frame);
        assert!(entry.generation() == generation, "{entry:?} has the generation of its frame");
        assert!(entry.is_up_to_date() || !is_filled, "{entry:?} is on a list before it is filled");
    }
}
