//! The model's ahead list, with its clock hand.

use super::{Model, Name};

impl Model {
    /// Returns the number of free frames afterwards.
    pub(crate) fn reclaim(&mut self, want: usize, is_live: impl Fn(Name) -> bool) -> usize {
        if !self.keeps_unread {
            return self.available();
        }
        let lacks = want.saturating_sub(self.free());
        let looks = self.looks_saved + LOOKS_FOR_USED * lacks;
        self.looks_saved = (looks - self.look(want, looks, |_| true)).min(LOOKS_SAVED_MAX);
        let lacks = want.saturating_sub(self.free());
        self.look(want, LOOKS_FOR_DEAD * lacks, is_live);
        while self.free() < want && self.evict_inactive(self.inactive.len() + self.active.len()) {}
        self.free()
    }

    /// Returns the free, inactive and ahead pages, including those in flight.
    pub(crate) fn room_for_ahead(&self) -> usize {
        let held = self.pages.values().filter(|page| page.holds > 0 && page.ahead);
        self.free() + self.inactive.len() + self.ahead.len() + held.count()
    }

    fn look(&mut self, want: usize, looks: usize, is_live: impl Fn(Name) -> bool) -> usize {
        let looks = looks.min(self.ahead.len());
        for looked in 0..looks {
            if self.free() >= want {
                return looked;
            }
            let name = self.next_under_hand();
            let page = self.pages[&name];
            if !page.unused {
                self.settle_used(name);
            } else if !is_live(name) {
                if page.pins == 0 { self.leave(name) } else { self.promote(name) }
            }
        }
        looks
    }

    pub(super) fn next_under_hand(&mut self) -> Name {
        let name = self.hand.unwrap_or_else(|| *self.ahead.back().unwrap());
        self.hand = self.after_on_list(name);
        name
    }

    pub(super) fn after_on_list(&self, name: Name) -> Option<Name> {
        let at = self.ahead.iter().position(|&listed| listed == name).unwrap();
        at.checked_sub(1).map(|at| self.ahead[at])
    }

    pub(super) fn settle_used(&mut self, name: Name) {
        let page = self.pages[&name];
        let beside = |page: Option<u64>| page.and_then(|page| self.pages.get(&(name.0, page)));
        let (before, after) = (beside(name.1.checked_sub(1)), beside(name.1.checked_add(1)));
        if page.referenced || page.active {
            self.promote(name);
        } else if before.is_some_and(|page| page.unused) || after.is_some_and(|page| page.unused) {
            // Its reader is still there.
        } else if after.is_none() {
            self.unlist(name);
            self.pages.get_mut(&name).unwrap().ahead = false;
            self.inactive.push_front(name);
        } else if page.pins > 0 {
            self.promote(name);
        } else {
            self.leave(name);
        }
    }
}

/// Looks of the hand for each wanted frame to find a used page; the limit of saved looks; looks to
/// find an unread page of a dead stream. As in the cache.
const LOOKS_FOR_USED: usize = 96;
const LOOKS_SAVED_MAX: usize = 16_384;
const LOOKS_FOR_DEAD: usize = 4;
