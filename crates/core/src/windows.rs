//! Histogram of window sizes, always on and of fixed size, unlike the trace.

use crate::units::Pages;

/// Windows by size. Decisions that requested nothing, because all pages were resident, do not
/// count.
///
/// ```text
///   class     0     1     2      3      ..    18      19
///   pages     1     2     3-4    5-8    ..    -2^18   more
/// ```
///
/// Classes end at powers of two, as windows do: a window of 128 KiB is the largest of its class,
/// not the smallest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Windows {
    /// Number of windows by class.
    pub counts: [u64; Self::CLASSES],
    /// Pages of all windows.
    pub pages: u64,
}

impl Windows {
    /// Number of classes; the last one is open-ended.
    pub const CLASSES: usize = 20;

    /// Returns the largest window of a class, or None for the last class.
    #[must_use]
    pub const fn largest(class: usize) -> Option<Pages> {
        if class + 1 < Self::CLASSES { Some(Pages(1 << class)) } else { None }
    }

    pub(crate) fn add(&mut self, window: Pages) {
        if window == Pages::ZERO {
            return;
        }
        // 1, 2, 3-4, 5-8: the exponent of the next power of two.
        let exponent = u64::BITS - (window.0 - 1).leading_zeros();
        let class = (exponent as usize).min(Self::CLASSES - 1);
        self.counts[class] += 1;
        self.pages += window.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_in_the_first_class_that_is_large_enough() {
        for (pages, class) in
            [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (32, 5), (33, 6), (1 << 18, 18)]
        {
            let mut windows = Windows::default();
            windows.add(Pages(pages));
            assert_eq!(windows.counts[class], 1, "{pages}");
            assert!(Windows::largest(class).is_some_and(|largest| Pages(pages) <= largest));
            assert!(class == 0 || Windows::largest(class - 1).unwrap() < Pages(pages));
        }
    }

    #[test]
    fn the_largest_windows_share_the_last_class() {
        let mut windows = Windows::default();
        windows.add(Pages::ZERO);
        assert_eq!(windows, Windows::default());
        windows.add(Pages((1 << 18) + 1));
        windows.add(Pages(1 << 40));
        assert_eq!(windows.counts[Windows::CLASSES - 1], 2);
        assert_eq!(Windows::largest(Windows::CLASSES - 1), None);
        assert_eq!(windows.pages, (1 << 18) + 1 + (1 << 40));
    }
}
