//! State of each frame: free, on a list, held, or an orphan. The cache decides which list a frame
//! belongs to and when it is evicted.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use super::counters::CacheDump;
use super::frame_home::FrameHome;
use crate::lru::{LruLinks, LruList};
use crate::table::{EntryPlace, Frame};
use crate::units::Pages;

/// The frames of a cache.
///
/// ```text
///              in the table     not in the table
///            +----------------+------------------+
///   held     |  on no list    |  orphan, fresh   |
///            +----------------+------------------+
///   not held |  ahead,        |  free            |
///            |  inactive or   |                  |
///            |  active        |                  |
///            +----------------+------------------+
/// ```
///
/// A fill counts as a hold, and so do the pins of an orphan, together. All arrays start as zeros,
/// which cost no memory until they are written: frames that were never used are not even on the
/// free list.
#[derive(Debug)]
pub(super) struct Frames {
    /// [`FrameHome`]s, as plain integers because only for those does the allocator hand out the
    /// system's zero pages.
    homes: Vec<u64>,
    holds: Vec<u32>,
    links: LruLinks,
    /// Frames that were used and are free again. The last one in is the first one out, because its
    /// memory is warmest in the CPU's caches.
    free: LruList,
    /// Frames from this number on were never used.
    fresh: u32,
    inactive: LruList,
    active: LruList,
    /// Pages read ahead and not seen used since; empty unless the cache keeps unread pages.
    ahead: LruList,
    /// Next page on the ahead list to look at; None stands for the tail.
    hand: Option<Frame>,
    /// Frames that belong to the ahead list, held ones included.
    ahead_homes: u32,
}

impl Frames {
    pub(super) const BYTES_PER_FRAME: u64 =
        (size_of::<u32>() + size_of::<u64>()) as u64 + LruLinks::BYTES_PER_FRAME;

    pub(super) fn new(frames: u32) -> Self {
        assert!(frames > 0, "a cache has at least one frame");
        let len = frames as usize;
        Self {
            homes: vec![0; len],
            holds: vec![0; len],
            links: LruLinks::new(frames),
            free: LruList::default(),
            fresh: 0,
            inactive: LruList::default(),
            active: LruList::default(),
            ahead: LruList::default(),
            hand: None,
            ahead_homes: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.holds.len()).expect("a frame's number fits 28 bits")
    }

    /// Returns the number of frames that were ever used; frames from this number on never were.
    pub(super) fn used(&self) -> u32 {
        self.fresh
    }

    /// Returns the number of free frames.
    pub(super) fn free(&self) -> Pages {
        debug_assert!(self.fresh <= self.len(), "more frames were used than there are");
        Pages((self.free.len() + (self.len() - self.fresh)).into())
    }

    /// Returns the number of free and listed frames.
    pub(super) fn idle(&self) -> Pages {
        self.free() + Pages((self.inactive.len() + self.active.len() + self.ahead.len()).into())
    }

    /// Returns the number of frames that are free, inactive, or belong to the ahead list.
    pub(super) fn room_for_ahead(&self) -> Pages {
        self.free() + Pages((self.inactive.len() + self.ahead_homes).into())
    }

    /// Returns the length of the inactive list.
    pub(super) fn inactive(&self) -> u32 {
        self.inactive.len()
    }

    /// Returns the total length of the inactive and the active list.
    pub(super) fn in_two_lists(&self) -> u32 {
        self.inactive.len() + self.active.len()
    }

    /// Returns the length of the ahead list.
    pub(super) fn ahead(&self) -> u32 {
        self.ahead.len()
    }

    /// Returns the length of the active list.
    pub(super) fn active(&self) -> u32 {
        self.active.len()
    }

    /// Returns the position of the frame's page; None if it is no longer in the table.
    pub(super) fn place(&self, frame: Frame) -> Option<EntryPlace> {
        self.home(frame).place()
    }

    pub(super) fn is_held(&self, frame: Frame) -> bool {
        self.holds[frame.0 as usize] > 0
    }

    /// Takes a free frame, if there is one.
    pub(super) fn take_free(&mut self) -> Option<Frame> {
        self.free.pop_head(&mut self.links).or_else(|| {
            let frame = Frame(self.fresh);
            (self.fresh < self.len()).then(|| {
                self.fresh += 1;
                frame
            })
        })
    }

    /// Frees a frame that was taken from a list. It is reused after all frames that are free
    /// already.
    ///
    /// ```text
    ///   an old window   |a|b|c|d|    freed in this order, and reused in this order by a new window
    ///   its memory      one piece    a request reads into one piece again
    /// ```
    ///
    /// A request into scattered pages needs a segment for each, and a device limited to 128
    /// segments splits a window of 1 MiB in two.
    pub(super) fn put_free(&mut self, frame: Frame) {
        assert!(self.home(frame) == FrameHome::NONE, "{frame:?} holds a page");
        assert!(!self.is_held(frame), "{frame:?} is held");
        self.free.push_tail(&mut self.links, frame);
    }

    /// Assigns a page to the frame; the fill is its first hold.
    pub(super) fn start(&mut self, frame: Frame, place: EntryPlace, active: bool, ahead: bool) {
        assert!(self.home(frame) == FrameHome::NONE, "{frame:?} holds another page");
        assert!(!self.is_held(frame), "{frame:?} is held for another page");
        self.set_home(frame, FrameHome::new(place, active, ahead));
        self.holds[frame.0 as usize] = 1;
    }

    /// Takes a free frame for bytes about to be written; the write is its first hold.
    pub(super) fn start_fresh(&mut self, frame: Frame) {
        assert!(self.home(frame) == FrameHome::NONE, "{frame:?} holds another page");
        assert!(!self.is_held(frame), "{frame:?} is held for another page");
        self.holds[frame.0 as usize] = 1;
    }

    /// Gives the written bytes a page.
    pub(super) fn settle(&mut self, frame: Frame, place: EntryPlace, active: bool) {
        assert!(self.home(frame) == FrameHome::NONE, "{frame:?} holds another page");
        assert!(self.is_held(frame), "{frame:?} is fresh no more");
        self.set_home(frame, FrameHome::new(place, active, false));
    }

    /// Returns true if the frame belongs to the ahead list.
    pub(super) fn is_ahead(&self, frame: Frame) -> bool {
        self.home(frame).is_ahead()
    }

    /// Returns true if the frame, whose page is in the table, belongs to the active list, now or
    /// once it is seen used.
    pub(super) fn is_active(&self, frame: Frame) -> bool {
        self.home(frame).is_active()
    }

    pub(super) fn hold(&mut self, frame: Frame) {
        assert!(self.home(frame) != FrameHome::NONE, "{frame:?} holds no page");
        if !self.is_held(frame) {
            self.unlist(frame);
        }
        let holds = &mut self.holds[frame.0 as usize];
        *holds = holds.checked_add(1).expect("fewer than 2^32 readers of one page");
    }

    /// Ends one hold. After the last one the frame moves to the head of its list, or becomes free;
    /// returns true if it is free.
    pub(super) fn release(&mut self, frame: Frame) -> bool {
        let holds = &mut self.holds[frame.0 as usize];
        *holds = holds.checked_sub(1).expect("a frame that is released was held");
        if *holds > 0 {
            return false;
        }
        let home = self.home(frame);
        let list = match home.place() {
            None => &mut self.free,
            Some(_) if home.is_ahead() => &mut self.ahead,
            Some(_) if home.is_active() => &mut self.active,
            Some(_) => &mut self.inactive,
        };
        list.push_head(&mut self.links, frame);
        home == FrameHome::NONE
    }

    /// Records that the frame's page has left the table. The frame becomes an orphan or free;
    /// returns true if it is free.
    ///
    /// The pins of an orphan together count as one hold, which the last unpinner ends. Pins of a
    /// listed frame are no hold: only eviction checks them.
    pub(super) fn disown(&mut self, frame: Frame, is_pinned: bool) -> bool {
        assert!(self.home(frame) != FrameHome::NONE, "{frame:?} holds no page");
        self.hold(frame);
        self.set_home(frame, FrameHome::NONE);
        !is_pinned && self.release(frame)
    }

    /// Returns the frame at the tail of the inactive list, and the position of its page.
    pub(super) fn tail(&self) -> Option<(Frame, EntryPlace)> {
        let frame = self.inactive.tail()?;
        debug_assert!(!self.is_held(frame), "{frame:?} is held, and on a list");
        Some((frame, self.place(frame).expect("a frame on a list holds a page")))
    }

    /// Returns the oldest frame of the ahead list, at its tail.
    pub(super) fn oldest_ahead(&self) -> Option<(Frame, EntryPlace)> {
        let frame = self.ahead.tail()?;
        debug_assert!(self.is_ahead(frame), "{frame:?} belongs to another list");
        Some((frame, self.place(frame).expect("a frame on a list holds a page")))
    }

    /// Returns the frame under the clock hand and advances the hand towards the head, then around
    /// to the tail.
    pub(super) fn next_ahead(&mut self) -> Option<(Frame, EntryPlace)> {
        let frame = self.hand.or(self.ahead.tail())?;
        debug_assert!(self.is_ahead(frame), "the hand is on {frame:?} of another list");
        self.hand = self.ahead.before(&self.links, frame);
        Some((frame, self.place(frame).expect("a frame on a list holds a page")))
    }

    /// Removes a frame from its list, after its page has left the table.
    pub(super) fn take(&mut self, frame: Frame) {
        assert!(!self.is_held(frame), "{frame:?} is on no list");
        self.unlist(frame);
        self.set_home(frame, FrameHome::NONE);
    }

    /// Moves a frame to the head of the active list. Returns true if it was not bound for it
    /// already.
    pub(super) fn promote(&mut self, frame: Frame) -> bool {
        let home = self.home(frame);
        self.unlist(frame);
        self.set_home(frame, FrameHome(home.0 & !FrameHome::AHEAD | FrameHome::ACTIVE));
        self.active.push_head(&mut self.links, frame);
        !home.is_active()
    }

    /// Moves a frame from the ahead list to the head of the inactive one.
    pub(super) fn retire(&mut self, frame: Frame) {
        let home = self.home(frame);
        assert!(home.is_ahead(), "{frame:?} is not on the ahead list");
        assert!(!home.is_active(), "{frame:?} is to be active");
        self.unlist(frame);
        self.set_home(frame, FrameHome(home.0 & !FrameHome::AHEAD));
        self.inactive.push_head(&mut self.links, frame);
    }

    /// Moves all frames of the ahead list, oldest first, to the list that they belong to without
    /// it. Held frames join that list when their last hold ends.
    pub(super) fn end_ahead(&mut self) {
        while let Some(frame) = self.ahead.tail() {
            if self.is_active(frame) {
                self.promote(frame);
            } else {
                self.retire(frame);
            }
        }
        assert!(self.hand.is_none(), "the hand is on a frame that has left the list");
        for home in &mut self.homes[..self.fresh as usize] {
            *home &= !FrameHome::AHEAD;
        }
        self.ahead_homes = 0;
        assert!(self.ahead.tail().is_none(), "no frame is on the list that has ended");
    }

    /// Returns the mark of the frame's page; 0 if it has none.
    pub(super) fn mark(&self, frame: Frame) -> u32 {
        self.home(frame).mark()
    }

    /// Sets the mark of the frame's page.
    pub(super) fn set_mark(&mut self, frame: Frame, mark: u32) {
        let home = self.home(frame);
        assert!(home != FrameHome::NONE, "{frame:?} holds no page");
        self.set_home(frame, home.marked(mark));
    }

    /// Returns the frames whose page has a mark, in the order of their numbers.
    pub(super) fn marked(&self) -> impl Iterator<Item = (Frame, u32, EntryPlace)> {
        let used = (0..self.fresh).map(Frame);
        used.filter_map(|frame| {
            let home = self.home(frame);
            (home.mark() != 0).then(|| Some((frame, home.mark(), home.place()?)))?
        })
    }

    /// Moves frames from the tail of the active list to the head of the inactive one until the
    /// active list is not longer than the others together. Returns the number moved.
    ///
    /// Each of them was promoted before, so there is at most one demotion per promotion on average.
    pub(super) fn balance(&mut self) -> u32 {
        let mut demotions = 0;
        while self.active.len() > self.inactive.len() + self.ahead.len() {
            assert!(self.demote(), "the longer list has a tail");
            demotions += 1;
        }
        demotions
    }

    /// Moves the frame at the tail of the active list to the head of the inactive one. Returns
    /// false if the active list is empty.
    pub(super) fn demote(&mut self) -> bool {
        let Some(frame) = self.active.pop_tail(&mut self.links) else { return false };
        debug_assert!(self.is_active(frame), "{frame:?} belongs to another list");
        self.homes[frame.0 as usize] &= !FrameHome::ACTIVE;
        self.inactive.push_head(&mut self.links, frame);
        true
    }

    pub(super) fn dump(&self) -> CacheDump {
        let mut dump = CacheDump {
            free: self.free.iter(&self.links).chain((self.fresh..self.len()).map(Frame)).collect(),
            inactive: self.inactive.iter(&self.links).collect(),
            active: self.active.iter(&self.links).collect(),
            ahead: self.ahead.iter(&self.links).collect(),
            ..CacheDump::default()
        };
        for frame in (0..self.len()).map(Frame).filter(|&frame| self.is_held(frame)) {
            match self.place(frame) {
                Some(_) => dump.held.push(frame),
                None => dump.orphans.push(frame),
            }
        }
        dump
    }

    fn unlist(&mut self, frame: Frame) {
        let home = self.home(frame);
        assert!(home != FrameHome::NONE, "{frame:?} holds no page");
        if self.hand == Some(frame) {
            self.hand = self.ahead.before(&self.links, frame);
        }
        let list = match home {
            home if home.is_ahead() => &mut self.ahead,
            home if home.is_active() => &mut self.active,
            _ => &mut self.inactive,
        };
        list.remove(&mut self.links, frame);
    }

    fn set_home(&mut self, frame: Frame, home: FrameHome) {
        let was = FrameHome(mem::replace(&mut self.homes[frame.0 as usize], home.0));
        self.ahead_homes -= u32::from(was.is_ahead());
        self.ahead_homes += u32::from(home.is_ahead());
        debug_assert!(self.ahead_homes <= self.fresh, "a frame is counted as ahead twice");
    }

    fn home(&self, frame: Frame) -> FrameHome {
        FrameHome(self.homes[frame.0 as usize])
    }
}
