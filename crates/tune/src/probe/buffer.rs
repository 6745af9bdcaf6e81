//! Memory that O_DIRECT takes: whole pages.
//!
//! In:    a length.
//! Out:   that many bytes, at an address that is a multiple of a page.
//! Never: `unsafe`: a page more than asked for has the place in it.

use foreread_core::units::PAGE_SIZE;

pub(crate) struct Aligned {
    memory: Vec<u8>,
    len: usize,
}

impl Aligned {
    pub(crate) fn new(len: u64) -> Self {
        let size = usize::try_from(len + PAGE_SIZE).expect("a window fits the memory");
        Self { memory: vec![0; size], len: size - PAGE }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // `align_offset` may give up, by its contract; for bytes it does not.
        let start = self.memory.as_ptr().align_offset(PAGE);
        &mut self.memory[start..start + self.len]
    }
}

const PAGE: usize = PAGE_SIZE as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_on_a_page() {
        for len in [1, 4096, 1 << 20] {
            let mut memory = Aligned::new(len);
            assert_eq!(memory.bytes().len() as u64, len);
            assert_eq!(memory.bytes().as_ptr().addr() % PAGE, 0);
        }
    }
}
