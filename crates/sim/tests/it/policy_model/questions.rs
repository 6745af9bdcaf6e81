//! Random questions to a policy, and a walk in parallel with the model's.

use super::*;

pub(super) fn reader(policy: Policy, limits: WindowLimits, end: PageIndex) -> ReadWalk {
    ReadWalk { policy, limits, end, advice: Advice::Normal, rules: Rules::default() }
}

/// A failed case is saved next to this file, and tried first from then on.
pub(super) fn config(cases: u32) -> ProptestConfig {
    let failures = FileFailurePersistence::WithSource("proptest-regressions");
    ProptestConfig { cases, failure_persistence: Some(Box::new(failures)), ..Default::default() }
}

/// A step of bytes or pages; the stream comes first where there is one.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Seek(usize, u64, u64),
    ReadOn(usize, u64),
    Evict(Range<u64>),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let len = || prop_oneof![1..3 * PAGE_SIZE, (1..80_u64).prop_map(|pages| pages * PAGE_SIZE)];
    let page = || 0..300_u64;
    prop_oneof![
        2 => (0..2_usize, page(), len()).prop_map(|(s, p, n)| Step::Seek(s, p * PAGE_SIZE, n)),
        1 => (0..2_usize, 0..300 * PAGE_SIZE, len()).prop_map(|(s, p, n)| Step::Seek(s, p, n)),
        6 => (0..2_usize, len()).prop_map(|(s, n)| Step::ReadOn(s, n)),
        2 => (page(), 1..60_u64).prop_map(|(p, n)| Step::Evict(p..p + n)),
    ]
}

/// Last window, question, limits, and the resident pages before the page and from it on.
pub(super) fn question() -> impl Strategy<Value = (Window, Ask, WindowLimits, u64, u64)> {
    // Numbers of every length are equally frequent, so that small ones meet large ones.
    let number = |bits: u32| (0..=bits, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1));
    let last = (number(45), number(30), number(30));
    let read = (0..4, number(45), number(40), any::<bool>(), 0..9_usize);
    let limits = (number(40), number(20));
    (last, read, limits, number(9), number(9)).prop_map(|(last, read, limits, before, ahead)| {
        let (start, size, async_size) = last;
        let last =
            if size == 0 { unopened() } else { window(start, size, async_size % (size + 1)) };
        let (which, any_page, count, is_marker, prev_pos) = read;
        let page = match which {
            0 => last.end().0,
            1 => last.end().0 - last.async_size.0,
            2 => any_page % 600,
            _ => any_page,
        };
        let prev_pos = previous_ends(page)[prev_pos];
        let ask = if is_marker { marker } else { miss }(page, count + 1, prev_pos);
        let limits = WindowLimits { max: Pages(limits.0), io_pages: Pages(limits.1) };
        let ahead = if is_marker { ahead + 1 } else { 0 };
        (last, ask, limits, before.min(page), ahead)
    })
}

/// A stream and its cache, as left by the core and by the model.
pub(super) struct Pair {
    pub(super) state: StreamState,
    pub(super) sheet: Sheet,
}

impl Pair {
    /// Reads with the core's walk and with the model's; both must do the same.
    pub(super) fn read(&mut self, reader: &ReadWalk, first: u64, count: u64) -> Vec<Decided> {
        let (mut state, mut sheet) = (self.state, self.sheet.clone());
        let want = model::read(reader, &mut state, &mut sheet, first, count);
        let mut got = Vec::new();
        self.sheet.next = first;
        let before = self.sheet.clone();
        let memory = PolicyMemory { stream: &mut self.state, file: &mut Streams::default() };
        reader.read(memory, &mut self.sheet, PageIndex(first), Pages(count), |decided| {
            got.push(decided);
        });
        let same = got == want && self.state == state && self.sheet.same_pages(&sheet);
        assert!(same, "{first}+{count} {reader:?}\n{before:?}\ncore {got:#?}\nmodel {want:#?}");
        got
    }
}
