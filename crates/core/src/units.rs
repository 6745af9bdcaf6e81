//! Units: distinct types for positions, counts and sizes.
//!
//! ```text
//!   PageIndex + Pages = PageIndex      Pages + Pages = Pages      Pages::bytes() -> Bytes
//!   PageIndex - PageIndex = Pages      Pages - Pages = Pages      Bytes::pages_up() -> Pages
//!   Sector + Sectors = Sector          Sectors + Sectors = Sectors
//! ```
//!
//! Any other operation does not compile. This catches the classic off-by-one of a read path, where
//! a byte offset is added to a page index, or a count to a size. An operation that leaves the range
//! of its type is a bug of the caller and panics; none wraps.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Bytes in a page: the unit of the cache on every machine, regardless of the machine's page size.
pub const PAGE_SIZE: u64 = 4096;

/// Bytes in a sector: the unit of Linux for the size of a device.
pub const SECTOR_SIZE: u64 = 512;

/// Sectors in a page.
pub const SECTORS_PER_PAGE: u64 = PAGE_SIZE / SECTOR_SIZE;

/// The longest file: the kernel limits file offsets to 2^63 - 1 bytes.
pub const MAX_FILE_BYTES: ByteCount = ByteCount(i64::MAX as u64);

/// The largest number of pages in a file.
pub const MAX_FILE_PAGES: Pages = MAX_FILE_BYTES.pages_up();

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

macro_rules! count {
    ($(#[$doc:meta])* $name:ident) => {
        quantity!($(#[$doc])* $name);

        impl Add for $name {
            type Output = Self;

            #[inline]
            fn add(self, other: Self) -> Self {
                Self(checked(self.0.checked_add(other.0)))
            }
        }

        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }

        impl Sub for $name {
            type Output = Self;

            /// Panics on a negative count, which is a bug.
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(checked(self.0.checked_sub(other.0)))
            }
        }

        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }

        impl $name {
            /// The empty count.
            pub const ZERO: Self = Self(0);

            /// Subtracts `other`, or returns zero if it is larger.
            #[inline]
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
    };
}

macro_rules! position {
    ($(#[$doc:meta])* $name:ident, $count:ident) => {
        quantity!($(#[$doc])* $name);

        impl Add<$count> for $name {
            type Output = Self;

            #[inline]
            fn add(self, count: $count) -> Self {
                Self(checked(self.0.checked_add(count.0)))
            }
        }

        impl Sub for $name {
            type Output = $count;

            /// Returns the distance from `earlier`. Panics if it is negative, which is a bug.
            #[inline]
            fn sub(self, earlier: Self) -> $count {
                $count(checked(self.0.checked_sub(earlier.0)))
            }
        }
    };
}

count! {
    /// A size in bytes, or an offset from the start of a file.
    ByteCount
}
count! {
    /// A number of pages.
    Pages
}
count! {
    /// A number of sectors of 512 bytes.
    Sectors
}
position! {
    /// Position of a page in a file, from 0.
    PageIndex, Pages
}
position! {
    /// Position of a sector on a device, from 0.
    Sector, Sectors
}

quantity! {
    /// A point in time, in nanoseconds since a start chosen by the driver.
    ///
    /// The core never reads a clock: the driver passes the time in.
    Nanos
}

impl ByteCount {
    /// Returns the page that contains the byte at this offset.
    #[inline]
    #[must_use]
    pub const fn page(self) -> PageIndex {
        PageIndex(self.0 / PAGE_SIZE)
    }

    /// Returns the number of pages for this many bytes; a partial page counts as one.
    #[inline]
    #[must_use]
    pub const fn pages_up(self) -> Pages {
        Pages(self.0.div_ceil(PAGE_SIZE))
    }
}

impl Pages {
    /// Returns the size in bytes.
    ///
    /// # Panics
    ///
    /// If the size does not fit 64 bits.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> ByteCount {
        match self.0.checked_mul(PAGE_SIZE) {
            Some(bytes) => ByteCount(bytes),
            None => panic!("a count of pages has no size in 64 bits"),
        }
    }
}

impl PageIndex {
    /// Returns the page's offset in its file.
    #[inline]
    #[must_use]
    pub const fn offset(self) -> ByteCount {
        Pages(self.0).bytes()
    }
}

impl Sectors {
    /// Returns the size in bytes.
    ///
    /// # Panics
    ///
    /// If the size does not fit 64 bits.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> ByteCount {
        match self.0.checked_mul(SECTOR_SIZE) {
            Some(bytes) => ByteCount(bytes),
            None => panic!("a count of sectors has no size in 64 bits"),
        }
    }
}

impl Sector {
    /// Returns the sector's offset on its device.
    #[inline]
    #[must_use]
    pub const fn offset(self) -> ByteCount {
        Sectors(self.0).bytes()
    }
}

#[inline]
#[track_caller]
const fn checked(value: Option<u64>) -> u64 {
    match value {
        Some(value) => value,
        None => panic!("a quantity left the range of its type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_page_counts_as_one() {
        assert_eq!(ByteCount(0).pages_up(), Pages(0));
        assert_eq!(ByteCount(1).pages_up(), Pages(1));
        assert_eq!(ByteCount(4096).pages_up(), Pages(1));
        assert_eq!(ByteCount(4097).pages_up(), Pages(2));
        assert_eq!(MAX_FILE_PAGES, Pages(1 << 51));
    }

    #[test]
    fn a_byte_belongs_to_the_page_it_lies_in() {
        assert_eq!(ByteCount(4095).page(), PageIndex(0));
        assert_eq!(ByteCount(4096).page(), PageIndex(1));
        assert_eq!(PageIndex(3).offset(), ByteCount(12288));
    }

    #[test]
    #[should_panic(expected = "left the range")]
    fn a_negative_distance_panics() {
        let _ = PageIndex(3) - PageIndex(4);
    }

    #[test]
    #[should_panic(expected = "left the range")]
    fn a_position_never_wraps() {
        let _ = PageIndex(u64::MAX) + Pages(1);
    }
}
