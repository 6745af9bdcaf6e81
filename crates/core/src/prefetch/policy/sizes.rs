//! Size of a first window, and growth of windows: two tables shared by all policies of Linux.

use crate::prefetch::decision::WindowLimits;
use crate::units::Pages;

/// Returns the largest window of a stream with a read of `count` pages. A read above the limit that
/// still fits one request of the device is better sent as one.
///
/// ```text
///   count        8   32   64  256  512      max = 32, io_pages = 256
///   largest     32   32   64  256  256
/// ```
pub(super) fn largest(count: Pages, limits: WindowLimits) -> Pages {
    if limits.max == Pages::ZERO {
        return Pages::ZERO;
    }
    limits.max.max(count.min(limits.io_pages))
}

/// Returns the first window of a stream whose first read has `count` pages.
///
/// ```text
///   count    1   2   4   8  16  32      max = 32
///   window   4   4   8  16  32  32
/// ```
///
/// A small read may or may not start a stream, so it gets a few times its size; a read that already
/// fills a quarter of the largest window probably does.
#[must_use]
pub fn initial(count: Pages, max: Pages) -> Pages {
    debug_assert!(count > Pages::ZERO, "a first read has at least one page");
    let rounded = count.0.next_power_of_two();
    Pages(if rounded <= max.0 / SMALL_READ {
        rounded * 4
    } else if rounded <= max.0 / MEDIUM_READ {
        rounded * 2
    } else {
        max.0
    })
}

/// Returns the window after one of `size` pages: growth is fast while a mistake is cheap.
///
/// ```text
///   1, 4, 8, 16, 32, 32, ..             max = 32
///   4, 16, 32, 64, 128, 256, 256, ..    max = 256
/// ```
#[must_use]
pub fn next(size: Pages, max: Pages) -> Pages {
    let grown = if size.0 < max.0 / SMALL_WINDOW { size.0 * 4 } else { size.0 * 2 };
    debug_assert!(grown >= size.0, "a window that grows is not smaller");
    Pages(grown.min(max.0))
}

/// A first read of at most max/32 pages gets four times its size: Linux's own step.
const SMALL_READ: u64 = 32;

/// One of at most max/4 pages gets twice its size.
const MEDIUM_READ: u64 = 4;

/// A window below max/16 grows by four, above by two.
const SMALL_WINDOW: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// One row per largest window: (count, first window) at the borders of each step.
    const INITIAL: &[(u64, &[(u64, u64)])] = &[
        (1, &[(1, 1), (2, 1), (64, 1)]),
        (2, &[(1, 2), (64, 2)]),
        (4, &[(1, 2), (2, 4), (64, 4)]),
        (8, &[(1, 2), (2, 4), (3, 8), (64, 8)]),
        (16, &[(1, 2), (2, 4), (4, 8), (5, 16), (64, 16)]),
        (32, &[(1, 4), (2, 4), (3, 8), (8, 16), (9, 32), (64, 32)]),
        (128, &[(1, 4), (2, 8), (4, 16), (5, 16), (8, 16), (16, 32), (32, 64), (33, 128)]),
        (256, &[(1, 4), (2, 8), (4, 16), (8, 32), (16, 32), (32, 64), (64, 128), (65, 256)]),
    ];

    #[test]
    fn a_first_window_is_a_few_times_the_first_read() {
        for (max, row) in INITIAL {
            for (count, size) in *row {
                assert_eq!(initial(Pages(*count), Pages(*max)), Pages(*size), "{count} of {max}");
            }
        }
    }

    #[test]
    fn windows_grow_to_max_and_stay_there() {
        let ramp = |mut size: Pages, max: Pages| {
            let mut sizes = [0; 6];
            for slot in &mut sizes {
                size = next(size, max);
                *slot = size.0;
            }
            sizes
        };
        assert_eq!(ramp(Pages(1), Pages(32)), [4, 8, 16, 32, 32, 32]);
        assert_eq!(ramp(Pages(4), Pages(256)), [16, 32, 64, 128, 256, 256]);
        assert_eq!(ramp(Pages(4), Pages(60)), [8, 16, 32, 60, 60, 60]);
        assert_eq!(ramp(Pages(1), Pages(1)), [1, 1, 1, 1, 1, 1]);
    }
}
