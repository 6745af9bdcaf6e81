//! A slab of values with generational ids. An id is never reused, even when its slot is.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// Identifies one value in a [`Slab`]; `K` tags its kind.
pub struct Id<K> {
    index: u32,
    generation: u32,
    of: PhantomData<fn() -> K>,
}

/// Values with ids of kind `K`.
#[derive(Debug)]
pub(crate) struct Slab<K, T> {
    places: Vec<SlabSlot<T>>,
    free: Vec<u32>,
    of: PhantomData<fn() -> K>,
}

#[derive(Debug)]
struct SlabSlot<T> {
    generation: u32,
    value: Option<T>,
}

impl<K, T> Default for Slab<K, T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, T> Slab<K, T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), of: PhantomData }
    }

    pub(crate) fn insert(&mut self, value: T) -> Id<K> {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.places.len())
                .expect("fewer than 2^32 values are there at a time");
            self.places.push(SlabSlot { generation: 0, value: None });
            index
        });
        let place = &mut self.places[index as usize];
        assert!(place.value.is_none(), "a free place holds nothing");
        place.value = Some(value);
        Id { index, generation: place.generation, of: PhantomData }
    }

    /// Removes and returns the value; its id is never valid again.
    pub(crate) fn remove(&mut self, id: Id<K>) -> Option<T> {
        let place = self.places.get_mut(id.index as usize)?;
        if place.generation != id.generation {
            return None;
        }
        let value = place.value.take()?;
        // The generation wraps after 2^32 uses of one slot; no holder keeps an id for that long.
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.index);
        Some(value)
    }

    pub(crate) fn get(&self, id: Id<K>) -> Option<&T> {
        let place = self.places.get(id.index as usize)?;
        place.value.as_ref().filter(|_| place.generation == id.generation)
    }

    /// Returns the value in a slot, with its id.
    pub(crate) fn with_id_at(&self, index: u32) -> Option<(Id<K>, &T)> {
        let place = self.places.get(index as usize)?;
        let id = Id { index, generation: place.generation, of: PhantomData };
        place.value.as_ref().map(|value| (id, value))
    }

    pub(crate) fn get_mut(&mut self, id: Id<K>) -> Option<&mut T> {
        let place = self.places.get_mut(id.index as usize)?;
        let generation = place.generation;
        place.value.as_mut().filter(|_| generation == id.generation)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id<K>, &T)> {
        self.places.iter().zip(0..).filter_map(|(place, index)| {
            let id = Id { index, generation: place.generation, of: PhantomData };
            place.value.as_ref().map(|value| (id, value))
        })
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|place| place.value.as_mut())
    }

    pub(crate) fn any(&self, holds: impl Fn(&T) -> bool) -> bool {
        self.places.iter().filter_map(|place| place.value.as_ref()).any(holds)
    }

    /// Returns true if nothing was ever inserted.
    pub(crate) fn is_untouched(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl<K> Id<K> {
    /// Returns the slot, from 0: small, dense, and reused after a removal.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Returns the id as one number, for tags that travel through a device and back.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Creates an id from the result of [`to_bits`](Self::to_bits).
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of one word")]
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32, of: PhantomData }
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Id<K> {}

impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

impl<K> Eq for Id<K> {}

impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.to_bits().cmp(&other.to_bits())
    }
}

impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_bits().hash(state);
    }
}

impl<K> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_never_valid_again() {
        let mut slab = Slab::<char, _>::new();
        let first = slab.insert('a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b');
        assert_eq!(second.index(), first.index(), "the place is used again");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn an_id_survives_the_way_through_a_number() {
        let mut slab = Slab::<u8, _>::new();
        let gone = slab.insert(1);
        slab.remove(gone);
        let id = slab.insert(2);
        assert_eq!(slab.get(Id::from_bits(id.to_bits())), Some(&2));
    }
}
