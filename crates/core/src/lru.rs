//! Doubly linked lists of frames, by index instead of pointer. A frame is on one list at a time, so
//! all lists share one array of links, and nothing is allocated after the start.

use alloc::vec;
use alloc::vec::Vec;
use core::iter;

use crate::table::Frame;

/// The links of all frames.
///
/// A link is a frame's number + 1, and 0 is the end. The array therefore starts as zeros, which the
/// system allocates lazily.
#[derive(Debug)]
pub(crate) struct LruLinks(Vec<LruLink>);

/// One list: a head, a tail, and the links between them.
///
/// ```text
///   head                                       tail
///    |                                          |
///    v     next          next          next     v
///   [f] ---------> [f] ---------> [f] ---------> [f]
///       <---------     <---------     <---------
///          prev           prev           prev
/// ```
///
/// Pages enter at the head. The tail has been on the list longest, so eviction takes it.
#[derive(Debug, Default)]
pub(crate) struct LruList {
    head: u32,
    tail: u32,
    len: u32,
}

/// `[prev, next]`. It is an array because the allocator hands out zero pages for arrays only.
type LruLink = [u32; 2];

impl LruLinks {
    pub(crate) const BYTES_PER_FRAME: u64 = size_of::<LruLink>() as u64;

    pub(crate) fn new(frames: u32) -> Self {
        Self(vec![[END; 2]; frames as usize])
    }

    fn get(&mut self, link: u32) -> &mut LruLink {
        assert!(link != END, "the end of a list is no frame");
        &mut self.0[(link - 1) as usize]
    }
}

impl LruList {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the frame at the tail.
    pub(crate) fn tail(&self) -> Option<Frame> {
        self.tail.checked_sub(1).map(Frame)
    }

    /// Returns the frame that was pushed just after `frame`; None for the frame at the head.
    pub(crate) fn before(&self, links: &LruLinks, frame: Frame) -> Option<Frame> {
        links.0[frame.0 as usize][PREV].checked_sub(1).map(Frame)
    }

    /// Inserts a frame that is on no list at the head.
    pub(crate) fn push_head(&mut self, links: &mut LruLinks, frame: Frame) {
        let new = frame.0 + 1;
        assert!(*links.get(new) == [END; 2], "{frame:?} is on a list already");
        assert!(self.head != new, "{frame:?} is alone on this list already");

        *links.get(new) = [END, self.head];
        match self.head {
            END => self.tail = new,
            head => links.get(head)[PREV] = new,
        }
        self.head = new;
        self.len += 1;
    }

    /// Inserts a frame that is on no list at the tail.
    pub(crate) fn push_tail(&mut self, links: &mut LruLinks, frame: Frame) {
        let new = frame.0 + 1;
        assert!(*links.get(new) == [END; 2], "{frame:?} is on a list already");
        assert!(self.head != new, "{frame:?} is alone on this list already");

        *links.get(new) = [self.tail, END];
        match self.tail {
            END => self.head = new,
            tail => links.get(tail)[NEXT] = new,
        }
        self.tail = new;
        self.len += 1;
    }

    /// Removes and returns the frame at the head.
    pub(crate) fn pop_head(&mut self, links: &mut LruLinks) -> Option<Frame> {
        let frame = Frame(self.head.checked_sub(1)?);
        self.remove(links, frame);
        Some(frame)
    }

    /// Removes and returns the frame at the tail.
    pub(crate) fn pop_tail(&mut self, links: &mut LruLinks) -> Option<Frame> {
        let frame = self.tail()?;
        self.remove(links, frame);
        Some(frame)
    }

    /// Removes a frame from any position of this list.
    pub(crate) fn remove(&mut self, links: &mut LruLinks, frame: Frame) {
        let old = frame.0 + 1;
        let [prev, next] = *links.get(old);
        assert!(self.len > 0, "{frame:?} is not on an empty list");
        // Both neighbours, or head and tail, must name it: otherwise it is on another list, or on
        // none.
        let before = if prev == END { &mut self.head } else { &mut links.get(prev)[NEXT] };
        assert!(*before == old, "{frame:?} is not where its links say");
        *before = next;
        let after = if next == END { &mut self.tail } else { &mut links.get(next)[PREV] };
        assert!(*after == old, "{frame:?} is not where its links say");
        *after = prev;

        *links.get(old) = [END; 2];
        self.len -= 1;
        assert!((self.head == END) == (self.len == 0), "a list that is empty has no head");
        assert!((self.tail == END) == (self.len == 0), "a list that is empty has no tail");
    }

    /// Returns the frames from head to tail.
    pub(crate) fn iter(&self, links: &LruLinks) -> impl Iterator<Item = Frame> {
        let mut link = self.head;
        iter::from_fn(move || {
            let index = link.checked_sub(1)?;
            link = links.0[index as usize][NEXT];
            Some(Frame(index))
        })
    }
}

const END: u32 = 0;
const PREV: usize = 0;
const NEXT: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(list: &LruList, links: &LruLinks) -> Vec<u32> {
        let frames: Vec<u32> = list.iter(links).map(|frame| frame.0).collect();
        assert_eq!(frames.len(), list.len() as usize);
        frames
    }

    #[test]
    fn the_first_pushed_frame_is_popped_first() {
        let (mut links, mut list) = (LruLinks::new(4), LruList::default());
        for frame in [2, 0, 3] {
            list.push_head(&mut links, Frame(frame));
        }
        assert_eq!(frames(&list, &links), [3, 0, 2]);
        assert_eq!(list.pop_tail(&mut links), Some(Frame(2)));
        assert_eq!(list.pop_head(&mut links), Some(Frame(3)));
        assert_eq!(list.pop_tail(&mut links), Some(Frame(0)));
        assert_eq!(list.pop_tail(&mut links), None);
        assert_eq!(list.pop_head(&mut links), None);
    }

    #[test]
    fn a_frame_comes_in_at_either_end() {
        let (mut links, mut list) = (LruLinks::new(4), LruList::default());
        list.push_tail(&mut links, Frame(1));
        list.push_tail(&mut links, Frame(3));
        list.push_head(&mut links, Frame(0));
        list.push_tail(&mut links, Frame(2));
        assert_eq!(frames(&list, &links), [0, 1, 3, 2]);
        assert_eq!(list.pop_tail(&mut links), Some(Frame(2)));
        assert_eq!(list.pop_head(&mut links), Some(Frame(0)));
    }

    #[test]
    fn a_frame_leaves_from_either_end_and_from_the_middle() {
        for (frame, rest) in [(0, [2, 1]), (1, [2, 0]), (2, [1, 0])] {
            let (mut links, mut list) = (LruLinks::new(3), LruList::default());
            for frame in 0..3 {
                list.push_head(&mut links, Frame(frame));
            }
            list.remove(&mut links, Frame(frame));
            assert_eq!(frames(&list, &links), rest);
            list.push_head(&mut links, Frame(frame));
            assert_eq!(frames(&list, &links), [frame, rest[0], rest[1]]);
        }
    }

    #[test]
    fn a_frame_moves_between_lists_that_share_their_links() {
        let (mut links, mut one, mut two) =
            (LruLinks::new(2), LruList::default(), LruList::default());
        one.push_head(&mut links, Frame(0));
        two.push_head(&mut links, Frame(1));
        one.remove(&mut links, Frame(0));
        two.push_head(&mut links, Frame(0));
        assert_eq!(frames(&one, &links), [] as [u32; 0]);
        assert_eq!(frames(&two, &links), [0, 1]);
    }

    #[test]
    #[should_panic(expected = "on a list already")]
    fn a_frame_that_has_neighbours_cannot_be_put_on_a_second_list() {
        let (mut links, mut one, mut two) =
            (LruLinks::new(2), LruList::default(), LruList::default());
        one.push_head(&mut links, Frame(0));
        one.push_head(&mut links, Frame(1));
        two.push_head(&mut links, Frame(0));
    }

    #[test]
    #[should_panic(expected = "not where its links say")]
    fn a_frame_cannot_leave_a_list_that_it_is_not_on() {
        let (mut links, mut one, mut two) =
            (LruLinks::new(2), LruList::default(), LruList::default());
        one.push_head(&mut links, Frame(0));
        two.push_head(&mut links, Frame(1));
        two.remove(&mut links, Frame(0));
    }
}
