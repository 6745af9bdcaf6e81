//! A slow model of the page cache, written from its description: maps, lists, and a loop for
//! everything. Numbers are counted when needed instead of being kept.

#[path = "ahead.rs"]
mod ahead;

use std::collections::{HashMap, VecDeque};

use foreread_core::cache::{CacheStats, Use};

/// A page: its file and its index.
pub(crate) type Name = (u32, u64);

#[derive(Debug)]
pub(crate) struct Model {
    frames: usize,
    pages: HashMap<Name, Page>,
    /// Heads are at the front.
    pub(crate) inactive: VecDeque<Name>,
    pub(crate) active: VecDeque<Name>,
    pub(crate) ahead: VecDeque<Name>,
    /// True if read-ahead pages go to the ahead list.
    pub(crate) keeps_unread: bool,
    /// The next one to look at; None stands for the one at the back.
    hand: Option<Name>,
    looks_saved: usize,
    /// Held or pinned frames whose page has left the table.
    pub(crate) orphans: HashMap<u32, Orphan>,
    /// The oldest is at the front; None has been matched.
    shadows: VecDeque<Option<(Name, u64)>>,
    age: u64,
    pub(crate) stats: CacheStats,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Page {
    pub(crate) frame: u32,
    /// Includes the fill.
    pub(crate) holds: u32,
    pub(crate) pins: u32,
    pub(crate) up_to_date: bool,
    pub(crate) marker: bool,
    pub(crate) unused: bool,
    pub(crate) referenced: bool,
    active: bool,
    ahead: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Orphan {
    holds: u32,
    pins: u32,
    /// The last pin has ended, or there was none.
    is_reported: bool,
}

impl Model {
    pub(crate) fn new(frames: u32) -> Self {
        Self {
            frames: frames as usize,
            pages: HashMap::new(),
            inactive: VecDeque::new(),
            active: VecDeque::new(),
            ahead: VecDeque::new(),
            keeps_unread: false,
            hand: None,
            looks_saved: 0,
            orphans: HashMap::new(),
            shadows: VecDeque::new(),
            age: 0,
            stats: CacheStats::default(),
        }
    }

    pub(crate) fn page(&self, name: Name) -> Option<&Page> {
        self.pages.get(&name)
    }

    pub(crate) fn page_in(&self, frame: u32) -> Option<Name> {
        self.pages.iter().find(|(_, page)| page.frame == frame).map(|(&name, _)| name)
    }

    pub(crate) fn free(&self) -> usize {
        self.frames - self.pages.len() - self.orphans.len()
    }

    /// A quarter of the frames is reserved for pins, used or not.
    pub(crate) fn available(&self) -> usize {
        let idle = self.free() + self.inactive.len() + self.active.len() + self.ahead.len();
        idle.saturating_sub(self.frames / 4)
    }

    /// Makes room and starts the fill; the cache determines the frame.
    pub(crate) fn start_fill(&mut self, name: Name, use_: Use, marker: bool, frame: u32) {
        let active = self.refault(name);
        if self.free() == 0 {
            self.evict();
        }
        assert!(self.page_in(frame).is_none(), "frame {frame} holds a page that did not leave");
        assert!(!self.orphans.contains_key(&frame), "frame {frame} is an orphan");
        let unused = use_ != Use::Wanted;
        let ahead = self.keeps_unread && use_ == Use::Ahead;
        let page = Page { frame, holds: 1, marker, unused, active, ahead, ..Page::default() };
        self.pages.insert(name, page);
    }

    /// Makes room for a write.
    pub(crate) fn start_write(&mut self) {
        if self.free() == 0 {
            self.evict();
        }
    }

    /// Puts the written page into this frame, held.
    pub(crate) fn put_written(&mut self, name: Name, frame: u32) {
        let mut page = Page { frame, holds: 1, up_to_date: true, ..Page::default() };
        if let Some(&old) = self.page(name) {
            self.forget(name);
            page = Page { marker: old.marker, referenced: old.referenced, ..page };
            page.active = old.active;
        } else {
            page.active = self.refault(name);
        }
        self.pages.insert(name, page);
    }

    /// Moves the page to the active list. Counts it unless it was to go there anyway.
    fn promote(&mut self, name: Name) {
        self.unlist(name);
        self.active.push_front(name);
        let page = self.pages.get_mut(&name).unwrap();
        (page.ahead, page.referenced) = (false, false);
        if !std::mem::replace(&mut page.active, true) {
            self.stats.activations += 1;
            self.age += 1;
        }
    }

    fn demote(&mut self) {
        let name = self.active.pop_back().unwrap();
        self.pages.get_mut(&name).unwrap().active = false;
        self.inactive.push_front(name);
        self.stats.demotions += 1;
    }

    /// Evicts a listed page.
    fn leave(&mut self, name: Name) {
        self.unlist(name);
        let page = self.pages.remove(&name).unwrap();
        self.stats.evictions += 1;
        self.stats.evicted_before_use += u64::from(page.unused);
        let credit = if page.ahead { self.inactive.len() as u64 } else { 0 };
        if !(page.ahead && page.unused) {
            self.shadows.push_back(Some((name, self.age + credit)));
        }
        self.age += 1;
        if self.shadows.len() > self.frames {
            self.shadows.pop_front();
        }
    }

    pub(crate) fn end_fill(&mut self, frame: u32, well: bool) {
        if let Some(name) = self.page_in(frame) {
            if well {
                self.pages.get_mut(&name).unwrap().up_to_date = true;
            } else {
                self.forget(name);
            }
        }
        self.release(frame);
    }

    pub(crate) fn hold(&mut self, name: Name) {
        self.unlist(name);
        self.pages.get_mut(&name).unwrap().holds += 1;
    }

    pub(crate) fn release(&mut self, frame: u32) {
        if let Some(name) = self.page_in(frame) {
            let page = self.pages.get_mut(&name).unwrap();
            page.holds -= 1;
            if page.holds == 0 {
                let list = match (page.ahead, page.active) {
                    (true, _) => &mut self.ahead,
                    (false, true) => &mut self.active,
                    (false, false) => &mut self.inactive,
                };
                list.push_front(name);
            }
        } else {
            self.change_orphan(frame, |orphan| orphan.holds -= 1);
        }
    }

    /// Pins a page; fails if it is not up to date.
    pub(crate) fn pin(&mut self, name: Name) -> bool {
        let Some(page) = self.pages.get_mut(&name) else { return false };
        page.pins += u32::from(page.up_to_date);
        page.up_to_date
    }

    /// Returns true if it was the last pin of an orphan.
    pub(crate) fn unpin(&mut self, frame: u32) -> bool {
        if let Some(name) = self.page_in(frame) {
            self.pages.get_mut(&name).unwrap().pins -= 1;
            return false;
        }
        let orphan = self.orphans.get_mut(&frame).unwrap();
        orphan.pins -= 1;
        orphan.pins == 0
    }

    pub(crate) fn unpinned(&mut self, frame: u32) {
        self.change_orphan(frame, |orphan| orphan.is_reported = true);
    }

    fn change_orphan(&mut self, frame: u32, change: impl Fn(&mut Orphan)) {
        let orphan = self.orphans.get_mut(&frame).unwrap();
        change(orphan);
        if orphan.holds == 0 && orphan.is_reported {
            self.orphans.remove(&frame);
        }
    }

    pub(crate) fn touch(&mut self, name: Name, continues: bool) {
        if let Some(page) = self.pages.get_mut(&name) {
            if page.unused {
                page.unused = false;
            } else if !continues {
                page.referenced = true;
            }
        }
    }

    pub(crate) fn take_marker(&mut self, name: Name) -> bool {
        self.pages.get_mut(&name).is_some_and(|page| std::mem::take(&mut page.marker))
    }

    pub(crate) fn forget_range(&mut self, file: u32, start: u64, pages: u64) {
        let range = start..start + pages;
        let gone = |name: &Name| name.0 == file && range.contains(&name.1);
        let names: Vec<Name> = self.pages.keys().copied().filter(gone).collect();
        for name in names {
            self.forget(name);
        }
    }

    pub(crate) fn forget_file(&mut self, file: u32, pages: u64) {
        self.forget_range(file, 0, pages);
        for shadow in &mut self.shadows {
            *shadow = shadow.filter(|(name, _)| name.0 != file);
        }
    }

    pub(crate) fn history(&self, (file, page): Name, limit: u64) -> u64 {
        let before = (0..page).rev().take(usize::try_from(limit).unwrap());
        before.take_while(|&page| self.pages.contains_key(&(file, page))).count() as u64
    }

    pub(crate) fn next_hole(&self, (file, page): Name, limit: u64) -> Option<u64> {
        (page..page + limit).find(|&page| !self.pages.contains_key(&(file, page)))
    }

    fn refault(&mut self, name: Name) -> bool {
        let same = |shadow: &&mut Option<(Name, u64)>| shadow.is_some_and(|(of, _)| of == name);
        let Some((_, then)) = self.shadows.iter_mut().find(same).and_then(Option::take) else {
            return false;
        };
        self.stats.refaults += 1;
        let is_early = self.age.saturating_sub(then) <= self.active.len() as u64;
        if is_early {
            self.stats.refaults_activated += 1;
            self.stats.activations += 1;
            self.age += 1;
        }
        is_early
    }

    fn evict(&mut self) {
        let before = self.pages.len();
        for _ in 0..self.ahead.len().min(8) {
            let name = self.next_under_hand();
            if !self.pages[&name].unused {
                self.settle_used(name);
            }
            if self.pages.len() < before {
                return;
            }
        }
        loop {
            let two = self.inactive.len() + self.active.len();
            if self.evict_inactive(if self.ahead.is_empty() { usize::MAX } else { two }) {
                return;
            }
            for _ in 0..two {
                if !self.active.is_empty() {
                    self.demote();
                }
                if self.evict_inactive(two) {
                    return;
                }
            }
            for _ in 0..self.ahead.len() {
                let name = *self.ahead.back().unwrap();
                if self.pages[&name].pins == 0 {
                    self.leave(name);
                    return;
                }
                self.promote(name);
            }
        }
    }

    /// Returns true if a page was evicted.
    fn evict_inactive(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            while self.active.len() > self.inactive.len() + self.ahead.len() {
                self.demote();
            }
            let Some(&name) = self.inactive.back() else { return false };
            let page = &self.pages[&name];
            if !page.referenced && page.pins == 0 {
                self.leave(name);
                return true;
            }
            self.promote(name);
        }
        false
    }

    fn forget(&mut self, name: Name) {
        self.unlist(name);
        let page = self.pages.remove(&name).unwrap();
        if page.holds > 0 || page.pins > 0 {
            let Page { holds, pins, .. } = page;
            self.orphans.insert(page.frame, Orphan { holds, pins, is_reported: pins == 0 });
        }
    }

    fn unlist(&mut self, name: Name) {
        if self.hand == Some(name) {
            self.hand = self.after_on_list(name);
        }
        self.ahead.retain(|&listed| listed != name);
        self.inactive.retain(|&listed| listed != name);
        self.active.retain(|&listed| listed != name);
    }
}
