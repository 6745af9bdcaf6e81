//! Steps on a cache, and random sequences of them over few files and pages that often coincide.

use foreread_core::cache::Use;
use proptest::prelude::*;

use crate::cache_model::model::Name;

/// One step. Numbers are taken modulo the number of candidates; without candidates the step is
/// skipped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Fill {
        name: Name,
        use_: Use,
        marker: bool,
    },
    End {
        fill: usize,
        well: bool,
    },
    Hold {
        page: usize,
    },
    Release {
        hold: usize,
    },
    Pin {
        page: usize,
    },
    Unpin {
        pin: usize,
    },
    /// Reports the oldest unpinned orphan to the driver.
    Report,
    Touch {
        name: Name,
        continues: bool,
    },
    TakeMarker {
        name: Name,
    },
    ForgetRange {
        file: u32,
        start: u64,
        pages: u64,
    },
    ForgetFile {
        file: u32,
        pages: u64,
    },
    /// The written page stays held until it is released.
    Write {
        name: Name,
    },
    DropWrite,
    Reclaim {
        want: usize,
        live: Live,
    },
}

/// The streams that are alive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Live {
    All,
    OnlyOf(u32),
    UpTo(u64),
    None,
}
use Step::{
    DropWrite, End, Fill, ForgetFile, ForgetRange, Hold, Pin, Reclaim, Release, Report, TakeMarker,
    Touch, Unpin, Write,
};

/// Pages on both sides of leaf boundaries, near and far.
pub(crate) const PAGES: [u64; 12] = [0, 1, 2, 62, 63, 64, 65, 127, 128, 1 << 20, 1 << 40, LAST];
pub(crate) const LAST: u64 = (1 << 51) - 1;
pub(crate) const FILES: [u32; 3] = [0, 1, (1 << 19) - 2];

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let file = || prop::sample::select(&FILES[..]);
    let page = || prop::sample::select(&PAGES[..]);
    let name = move || (file(), page());
    let pages = || prop_oneof![0..3_u64, Just(64), Just(129), Just(1 << 50)];
    let use_ = prop::sample::select(&[Use::Wanted, Use::Ahead, Use::Ahead, Use::Hinted][..]);
    let live = prop_oneof![
        3 => Just(Live::All),
        1 => file().prop_map(Live::OnlyOf),
        1 => page().prop_map(Live::UpTo),
        1 => Just(Live::None),
    ];
    prop_oneof![
        10 => (name(), use_, any::<bool>())
            .prop_map(|(name, use_, marker)| Fill { name, use_, marker }),
        9 => (any::<usize>(), prop::bool::weighted(0.9))
            .prop_map(|(fill, well)| End { fill, well }),
        3 => any::<usize>().prop_map(|page| Hold { page }),
        3 => any::<usize>().prop_map(|hold| Release { hold }),
        3 => any::<usize>().prop_map(|page| Pin { page }),
        3 => any::<usize>().prop_map(|pin| Unpin { pin }),
        3 => Just(Report),
        8 => (name(), any::<bool>()).prop_map(|(name, continues)| Touch { name, continues }),
        2 => name().prop_map(|name| TakeMarker { name }),
        1 => (name(), pages())
            .prop_map(|((file, start), pages)| ForgetRange { file, start, pages }),
        1 => (file(), pages()).prop_map(|(file, pages)| ForgetFile { file, pages }),
        2 => name().prop_map(|name| Write { name }),
        1 => Just(DropWrite),
        4 => (0..9_usize, live).prop_map(|(want, live)| Reclaim { want, live }),
    ]
}
