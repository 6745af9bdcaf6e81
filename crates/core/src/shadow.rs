//! Shadows: records of evicted pages, from which the refault distance of a returning page is
//! computed. Each frame has at most one shadow; the oldest is overwritten. Read-ahead ignores them.
//!
//! The rule is Linux's (mm/workingset.c); semantics and sources are in docs/design/cache.md.

use alloc::vec;
use alloc::vec::Vec;

use crate::table::{FILES_MAX, FileSlot, mix};
use crate::units::PageIndex;

/// The shadows of a cache.
///
/// ```text
///   buckets, by fingerprint        ring: one slot per eviction, as many as frames
///   +---+                          +------+------+------+------+------+------+
///   | 5 |------------------------> |      |      |      |      |  s5  |      |
///   +---+                          |  s1  |  s2  |      |  s4  |   |  | old  |
///   | 0 |                          |      |      | used |      |   |  |  ^   |
///   +---+                          +--^---+------+------+------+---|--+--|---+
///                                     |                            |     cursor: overwritten next
///                                     +---- older of the bucket ---+
/// ```
///
/// The shadows are in a ring, not in the leaves of their pages, because a leaf lives only as long
/// as it has a page. Random reads over a large file would keep leaves alive for shadows alone and
/// exceed the memory bound.
///
/// Neighbours are adjacent in memory because a stream looks up the shadow of each page that it
/// reads, and leaves one for each page that it displaces. The buckets of 16 consecutive pages are
/// one cache line, and pages evicted in a row have consecutive slots in the ring.
#[derive(Debug)]
pub(crate) struct Shadows {
    /// Evictions and activations so far.
    age: u64,
    ring: Vec<Shadow>,
    /// For each slot of the ring, the next older shadow of its bucket (slot + 1), or 0.
    older: Vec<u32>,
    /// For each bucket, its newest shadow (slot + 1), or 0.
    buckets: Vec<u32>,
    cursor: u32,
    /// For each file slot, the number of files that used it before. Ends with the last slot that
    /// was reused.
    lives: Vec<u32>,
}

/// `[fingerprint of the page, age at its eviction]`; a fingerprint of 0 means no shadow.
///
/// The last bits of a fingerprint are those of the page number; the others hash the rest of it and
/// the file. Two pages with the same fingerprint (a chance of 2^-32 even among 2^28 shadows) are
/// confused, and a page then starts on the wrong list. That has no other effect.
type Shadow = [u64; 2];

impl Shadows {
    pub(crate) const BYTES_PER_FRAME: u64 = (size_of::<Shadow>() + 2 * size_of::<u32>()) as u64;

    pub(crate) fn new(frames: u32) -> Self {
        let len = frames as usize;
        Self {
            age: 0,
            ring: vec![NO_SHADOW; len],
            older: vec![0; len],
            buckets: vec![0; len.next_multiple_of(GROUP_LEN)],
            cursor: 0,
            lives: Vec::new(),
        }
    }

    /// Counts an activation: to stay resident, a page would have had to outlive one more.
    pub(crate) fn count_activation(&mut self) {
        self.age += 1;
    }

    /// Counts the eviction of a page that leaves no shadow.
    pub(crate) fn count_eviction(&mut self) {
        self.age += 1;
    }

    /// Records the shadow of a page evicted now, `too_early` evictions before its turn.
    pub(crate) fn leave(&mut self, file: FileSlot, page: PageIndex, too_early: u64) {
        let place = self.cursor;
        self.cursor = if place + 1 < self.len() { place + 1 } else { 0 };
        if self.ring[place as usize] != NO_SHADOW {
            self.remove(place);
        }

        let fingerprint = self.fingerprint(file, page);
        let bucket = self.bucket(fingerprint);
        self.ring[place as usize] = [fingerprint, self.age + too_early];
        self.older[place as usize] = self.buckets[bucket];
        self.buckets[bucket] = place + 1;
        self.age += 1;
    }

    /// Removes the shadow of a page that comes back, and returns its refault distance.
    ///
    /// ```text
    ///   evicted                             comes back
    ///      |                                     |
    ///  ----E-----e-----e-----a-----e-----a-------R---->   e: eviction, a: activation
    ///      |<------------- distance ------------>|        E itself counts
    /// ```
    ///
    /// Each eviction and each activation moved the pages behind it one position nearer to the tail
    /// of the inactive list. With `distance` more positions there, the page would still be
    /// resident. The distance is compared with the length of the active list, which would have had
    /// to give up these positions. It is 0 if the page comes back before its turn.
    pub(crate) fn take(&mut self, file: FileSlot, page: PageIndex) -> Option<u64> {
        let fingerprint = self.fingerprint(file, page);
        let mut link = self.buckets[self.bucket(fingerprint)];
        while let Some(place) = link.checked_sub(1) {
            let [found, evicted_at] = self.ring[place as usize];
            if found == fingerprint {
                self.remove(place);
                return Some(self.age.saturating_sub(evicted_at));
            }
            link = self.older[place as usize];
        }
        None
    }

    /// Invalidates all shadows of the file before its slot is reused.
    pub(crate) fn forget_file(&mut self, file: FileSlot) {
        assert!(file.0 < FILES_MAX, "{file:?} is no file slot");
        let slot = file.0 as usize;
        if self.lives.len() <= slot {
            self.lives.resize(slot + 1, 0);
        }
        self.lives[slot] = self.lives[slot].wrapping_add(1);
    }

    fn remove(&mut self, place: u32) {
        let [fingerprint, _] = self.ring[place as usize];
        assert!(fingerprint != 0, "there is a shadow to remove");
        let bucket = self.bucket(fingerprint);
        let next = self.older[place as usize];
        let mut link = self.buckets[bucket];
        if link == place + 1 {
            self.buckets[bucket] = next;
        } else {
            while self.older_of(link) != place + 1 {
                link = self.older_of(link);
            }
            self.older[(link - 1) as usize] = next;
        }
        self.older[place as usize] = 0;
        self.ring[place as usize] = NO_SHADOW;
    }

    fn older_of(&self, link: u32) -> u32 {
        assert!(link != 0, "a shadow is in the bucket of its fingerprint");
        self.older[(link - 1) as usize]
    }

    fn fingerprint(&self, file: FileSlot, page: PageIndex) -> u64 {
        let lives = self.lives.get(file.0 as usize).copied().unwrap_or(0);
        let life = u64::from(lives) << 32 | u64::from(file.0);
        // One bit is always set, so that no fingerprint is 0.
        let group = mix(mix(page.0 / GROUP) ^ life) | GROUP;
        group - group % GROUP + page.0 % GROUP
    }

    fn len(&self) -> u32 {
        u32::try_from(self.ring.len()).expect("a frame's number fits 28 bits")
    }

    fn bucket(&self, fingerprint: u64) -> usize {
        let groups = self.buckets.len() as u64 / GROUP;
        let group = ((fingerprint >> 32) * groups) >> 32;
        let bucket = group * GROUP + fingerprint % GROUP;
        usize::try_from(bucket).expect("a bucket's number fits 29 bits")
    }
}

/// Buckets in a cache line.
const GROUP_LEN: usize = 64 / size_of::<u32>();
const GROUP: u64 = GROUP_LEN as u64;

const NO_SHADOW: Shadow = [0; 2];

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileSlot = FileSlot(7);

    #[test]
    fn the_distance_counts_the_evictions_and_activations_since() {
        let mut shadows = Shadows::new(8);
        shadows.leave(FILE, PageIndex(0), 0);
        shadows.leave(FILE, PageIndex(1), 0);
        shadows.count_activation();
        shadows.leave(FILE, PageIndex(2), 0);
        assert_eq!(shadows.take(FILE, PageIndex(2)), Some(1), "the page's own eviction counts");
        assert_eq!(shadows.take(FILE, PageIndex(1)), Some(3));
        assert_eq!(shadows.take(FILE, PageIndex(0)), Some(4));
    }

    #[test]
    fn a_shadow_is_matched_once() {
        let mut shadows = Shadows::new(8);
        shadows.leave(FILE, PageIndex(5), 0);
        assert_eq!(shadows.take(FILE, PageIndex(5)), Some(1));
        assert_eq!(shadows.take(FILE, PageIndex(5)), None);
    }

    #[test]
    fn a_shadow_belongs_to_one_page_of_one_file() {
        let mut shadows = Shadows::new(8);
        shadows.leave(FILE, PageIndex(5), 0);
        assert_eq!(shadows.take(FILE, PageIndex(6)), None);
        assert_eq!(shadows.take(FileSlot(8), PageIndex(5)), None);
        assert_eq!(shadows.take(FILE, PageIndex(5)), Some(1));
    }

    #[test]
    fn the_shadows_of_a_closed_file_match_nothing_that_reuses_its_slot() {
        let mut shadows = Shadows::new(8);
        shadows.leave(FILE, PageIndex(5), 0);
        shadows.forget_file(FILE);
        assert_eq!(shadows.take(FILE, PageIndex(5)), None);
    }

    #[test]
    fn pages_in_a_row_have_buckets_in_a_row() {
        let shadows = Shadows::new(1000);
        let bucket = |page| shadows.bucket(shadows.fingerprint(FILE, PageIndex(page)));
        for first in (0..100_000).step_by(16) {
            let row = (first..first + 16).map(bucket);
            assert!(row.zip(bucket(first)..).all(|(bucket, wanted)| bucket == wanted));
        }
        // All groups are used evenly: 63 of them, 1587 of 100,000 pages in each bucket.
        let mut uses = vec![0; shadows.buckets.len()];
        (0..1_600_000).for_each(|page| uses[bucket(page)] += 1);
        assert!(uses.iter().all(|&uses| (1400..1800).contains(&uses)), "{uses:?}");
    }

    #[test]
    fn as_many_shadows_as_frames_are_kept_and_the_oldest_is_overwritten() {
        for frames in 1..=9 {
            let mut shadows = Shadows::new(frames);
            let pages = u64::from(frames) * 3;
            for page in 0..pages {
                shadows.leave(FILE, PageIndex(page), 0);
            }
            for page in 0..pages {
                let kept = page >= pages - u64::from(frames);
                let distance = kept.then_some(pages - page);
                assert_eq!(shadows.take(FILE, PageIndex(page)), distance, "{frames} {page}");
            }
        }
    }

    #[test]
    fn every_order_of_leaving_and_taking_keeps_the_buckets_whole() {
        // One to three buckets, so that chains form: all sequences of six steps over three pages,
        // each starting with the ring left by the previous ones.
        const STEPS: u32 = 6;
        const CHOICES: u32 = 6;
        for frames in 1..=3 {
            let mut shadows = Shadows::new(frames);
            for sequence in 0..CHOICES.pow(STEPS) {
                shadows.forget_file(FILE);
                let mut model: Vec<Option<(u64, u64)>> = Vec::new();
                let mut left = sequence;
                let mut age = 0;
                for _ in 0..STEPS {
                    let (page, leave) = (u64::from(left % CHOICES / 2), left % 2 == 0);
                    left /= CHOICES;
                    let known = model.iter().position(|s| s.is_some_and(|(p, _)| p == page));
                    let distance =
                        known.and_then(|at| model[at].take()).map(|(_, then)| age - then);
                    assert_eq!(shadows.take(FILE, PageIndex(page)), distance, "{sequence}");
                    if leave {
                        shadows.leave(FILE, PageIndex(page), 0);
                        model.push(Some((page, age)));
                        age += 1;
                        if model.len() > frames as usize {
                            model.remove(0);
                        }
                    }
                }
            }
        }
    }
}
