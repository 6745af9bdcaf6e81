//! Runs each step on the cache and its model, and compares everything visible from outside.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foreread_core::cache::{Filling, PageCache, Use};
use foreread_core::table::{FileSlot, Frame, Generation};
use foreread_core::units::{PageIndex, Pages};

use super::model::{Model, Name};
use super::steps::{FILES, Live, PAGES, Step};

use Step::{
    DropWrite, End, Fill, ForgetFile, ForgetRange, Hold, Pin, Reclaim, Release, Report, TakeMarker,
    Touch, Unpin, Write,
};

pub(super) fn fill(file: u32, page: u64) -> Step {
    Fill { name: (file, page), use_: Use::Wanted, marker: false }
}

/// Ends the oldest fill successfully.
pub(super) fn end() -> Step {
    End { fill: 0, well: true }
}

pub(super) fn run(frames: u32, steps: &[Step]) -> Both {
    let mut both = Both::new(frames);
    for &step in steps {
        both.step(step);
    }
    both
}

/// The cache, the model, and the fills, holds and pins of their caller.
pub(super) struct Both {
    pub(super) cache: PageCache,
    pub(super) model: Model,
    pub(super) fills: Vec<Filling>,
    pub(super) holds: Vec<Frame>,
    pub(super) pins: Vec<(Frame, Generation)>,
    /// Orphans without pins, not yet reported to the cache.
    pub(super) unpinned: VecDeque<Frame>,
    /// Generation of the last page in each frame.
    pub(super) generations: BTreeMap<Frame, Generation>,
}

impl Both {
    pub(super) fn new(frames: u32) -> Self {
        let cache = PageCache::with_frames(frames);
        let model = Model::new(frames);
        Self {
            cache,
            model,
            fills: vec![],
            holds: vec![],
            pins: vec![],
            unpinned: VecDeque::new(),
            generations: BTreeMap::new(),
        }
    }

    pub(super) fn keeping(frames: u32) -> Self {
        let mut both = Self::new(frames);
        both.cache.set_keeps_unread(true);
        both.model.keeps_unread = true;
        both
    }

    /// Uses pages as a reader does, filling the missing ones.
    pub(super) fn read(&mut self, names: impl IntoIterator<Item = Name>) {
        for name in names {
            if self.model.page(name).is_some() {
                self.step(Touch { name, continues: false });
            } else {
                self.step(fill(name.0, name.1));
                self.step(end());
            }
        }
    }

    /// Returns the pages on the inactive and on the active list, without their files.
    pub(super) fn lists(&self) -> (Vec<u64>, Vec<u64>) {
        let pages = |list: &VecDeque<Name>| list.iter().map(|name| name.1).collect();
        (pages(&self.model.inactive), pages(&self.model.active))
    }

    pub(super) fn step(&mut self, step: Step) {
        self.apply(step);
        self.check();
    }

    pub(super) fn apply(&mut self, step: Step) {
        let Self { cache, model, holds, .. } = self;
        match step {
            Fill { name, use_, marker } => self.fill(name, use_, marker),
            End { fill, well } => self.end(fill, well),
            Hold { page } => {
                let Some(name) = self.resident(page) else { return };
                let frame = Frame(self.model.page(name).unwrap().frame);
                self.model.hold(name);
                self.cache.hold(frame);
                self.holds.push(frame);
            }
            Release { hold } => {
                let Some(at) = hold.checked_rem(holds.len()) else { return };
                let frame = holds.remove(at);
                model.release(frame.0);
                cache.release(frame);
            }
            Pin { page } => self.pin(page),
            Unpin { pin } => self.unpin(pin),
            Report => {
                let Some(frame) = self.unpinned.pop_front() else { return };
                model.unpinned(frame.0);
                cache.unpinned(frame);
                cache.table().pin_budget().give_back(1);
            }
            Touch { name, continues } => {
                model.touch(name, continues);
                cache.touch(FileSlot(name.0), PageIndex(name.1), continues);
            }
            TakeMarker { name } => {
                let taken = cache.take_marker(FileSlot(name.0), PageIndex(name.1));
                assert_eq!(taken, model.take_marker(name));
            }
            ForgetRange { file, start, pages } => {
                model.forget_range(file, start, pages);
                cache.forget_range(FileSlot(file), PageIndex(start), Pages(pages));
            }
            ForgetFile { file, pages } => {
                // The caller knows the length of the file.
                model.forget_file(file, pages.max(1 << 51));
                cache.forget_file(FileSlot(file), Pages(pages.max(1 << 51)));
            }
            Write { name } => self.write(name),
            DropWrite => {
                if model.available() > 0 {
                    let fresh = cache.start_write();
                    cache.drop_fresh(fresh);
                    model.start_write();
                }
            }
            Reclaim { want, live } => self.reclaim(want, live),
        }
    }

    /// Returns one of the resident pages, by number; None if there is none.
    pub(super) fn resident(&self, number: usize) -> Option<Name> {
        let resident: Vec<Name> = names().filter(|&name| self.model.page(name).is_some()).collect();
        Some(resident[number.checked_rem(resident.len())?])
    }

    pub(super) fn fill(&mut self, name: Name, use_: Use, marker: bool) {
        if self.model.page(name).is_some() || self.model.available() == 0 {
            return;
        }
        let filling = self.cache.start_fill(FileSlot(name.0), PageIndex(name.1), use_, marker);
        let before = self.generations.insert(filling.frame(), filling.generation());
        assert!(before != Some(filling.generation()), "a frame's next page is not its last");
        self.model.start_fill(name, use_, marker, filling.frame().0);
        self.fills.push(filling);
    }

    pub(super) fn end(&mut self, fill: usize, well: bool) {
        let Some(at) = fill.checked_rem(self.fills.len()) else { return };
        let filling = self.fills.remove(at);
        self.model.end_fill(filling.frame().0, well);
        if well {
            self.cache.filled(filling);
        } else {
            self.cache.fill_failed(filling);
        }
    }

    pub(super) fn pin(&mut self, page: usize) {
        let Some((file, page)) = self.resident(page) else { return };
        let table = self.cache.table();
        if table.pin_budget().try_take(1) == 0 {
            return;
        }
        let found = table.look_up(FileSlot(file), PageIndex(page)).unwrap();
        let is_pinned = table.pin(&found);
        assert_eq!(is_pinned, self.model.pin((file, page)));
        if is_pinned {
            self.pins.push((found.entry().frame(), found.entry().generation()));
        } else {
            table.pin_budget().give_back(1);
        }
    }

    pub(super) fn unpin(&mut self, pin: usize) {
        let Some(at) = pin.checked_rem(self.pins.len()) else { return };
        let (frame, generation) = self.pins.remove(at);
        let is_last = self.cache.table().unpin(frame, generation);
        assert_eq!(is_last, self.model.unpin(frame.0));
        if is_last {
            self.unpinned.push_back(frame);
        } else {
            self.cache.table().pin_budget().give_back(1);
        }
    }

    pub(super) fn write(&mut self, name: Name) {
        if self.model.available() == 0 {
            return;
        }
        let fresh = self.cache.start_write();
        self.model.start_write();
        let frame = fresh.frame();
        self.cache.put_written(FileSlot(name.0), PageIndex(name.1), fresh);
        self.model.put_written(name, frame.0);
        self.holds.push(frame);
        let entry = self.cache.look_up(FileSlot(name.0), PageIndex(name.1)).unwrap();
        self.generations.insert(frame, entry.generation());
    }

    pub(super) fn reclaim(&mut self, want: usize, live: Live) {
        let Self { cache, model, .. } = self;
        let is_live = |(file, page): Name| match live {
            Live::All => true,
            Live::OnlyOf(only) => file == only,
            Live::UpTo(last) => page <= last,
            Live::None => false,
        };
        let kept = unread_and_live(model, is_live);
        let free = cache.reclaim(Pages(want as u64), |file, page| {
            let page = (file.0, page.0);
            assert!(model.page(page).unwrap().unused, "{page:?} is asked for");
            is_live(page)
        });
        assert_eq!(free, Pages(model.reclaim(want, is_live) as u64));
        if model.keeps_unread {
            assert_eq!(unread_and_live(model, is_live), kept);
        }
    }

    pub(super) fn check(&self) {
        self.cache.assert_consistent();
        assert_eq!(self.cache.stats(), self.model.stats);
        assert_eq!(self.cache.available(), Pages(self.model.available() as u64));
        assert_eq!(self.cache.room_for_ahead(), Pages(self.model.room_for_ahead() as u64));
        for name in names() {
            self.check_page(name);
            self.check_runs(name);
        }
        // A pinned frame is not reused for another page.
        for (frame, generation) in &self.pins {
            assert_eq!(self.generations[frame], *generation, "{frame:?}");
        }
        self.check_frames();
    }

    pub(super) fn check_page(&self, name: Name) {
        let entry = self.cache.look_up(FileSlot(name.0), PageIndex(name.1));
        let Some(page) = self.model.page(name) else {
            assert_eq!(entry, None, "{name:?}");
            return;
        };
        let entry = entry.unwrap_or_else(|| panic!("{name:?} is lost"));
        assert_eq!(entry.frame(), Frame(page.frame));
        assert_eq!(entry.is_up_to_date(), page.up_to_date, "{name:?}");
        assert_eq!(entry.has_marker(), page.marker, "{name:?}");
        assert_eq!(entry.is_unused(), page.unused, "{name:?}");
        assert_eq!(entry.is_referenced(), page.referenced, "{name:?}");
        assert_eq!(self.cache.is_held(entry.frame()), page.holds > 0, "{name:?}");
    }

    pub(super) fn check_runs(&self, (file, page): Name) {
        let residency = self.cache.residency(FileSlot(file));
        for limit in [1, 2, 70] {
            let history = self.model.history((file, page + 1), limit);
            assert_eq!(residency.history(PageIndex(page + 1), Pages(limit)), Pages(history));
            let hole = self.model.next_hole((file, page), limit).map(PageIndex);
            assert_eq!(residency.next_hole(PageIndex(page), Pages(limit)), hole);
        }
    }

    /// Checks that each frame is in one place, lists are in order, and each listed frame names its
    /// page.
    pub(super) fn check_frames(&self) {
        let dump = self.cache.dump();
        let lists = [&dump.inactive, &dump.active, &dump.ahead];
        let places = [&dump.free, &dump.held, &dump.orphans].into_iter().chain(lists);
        let all: Vec<Frame> = places.flatten().copied().collect();
        let distinct: BTreeSet<Frame> = all.iter().copied().collect();
        assert_eq!(all.len(), self.cache.frames() as usize, "{dump:?}");
        assert_eq!(distinct.len(), all.len(), "{dump:?}");

        let pages = |frames: &[Frame]| -> Vec<Name> {
            let pages = frames.iter().map(|&frame| self.cache.page_of(frame));
            pages.map(|page| page.map(|(file, page)| (file.0, page.0)).unwrap()).collect()
        };
        assert_eq!(pages(&dump.inactive), Vec::from(self.model.inactive.clone()));
        assert_eq!(pages(&dump.active), Vec::from(self.model.active.clone()));
        assert_eq!(pages(&dump.ahead), Vec::from(self.model.ahead.clone()));
        assert!(pages(&dump.held).iter().all(|&name| self.model.page(name).unwrap().holds > 0));
        assert_eq!(dump.free.len(), self.model.free());
        let orphans: BTreeSet<u32> = dump.orphans.iter().map(|frame| frame.0).collect();
        assert_eq!(orphans, self.model.orphans.keys().copied().collect());
        assert!(orphans.iter().all(|&frame| self.cache.page_of(Frame(frame)).is_none()));
    }
}

/// Returns the unused pages on the ahead list that will be used.
pub(super) fn unread_and_live(model: &Model, is_live: impl Fn(Name) -> bool) -> Vec<Name> {
    let is_unread = |name: &Name| model.page(*name).is_some_and(|page| page.unused);
    model.ahead.iter().copied().filter(is_unread).filter(|&name| is_live(name)).collect()
}

pub(super) fn names() -> impl Iterator<Item = Name> {
    FILES.into_iter().flat_map(|file| PAGES.map(|page| (file, page)))
}
