//! A page pinned by a process, for reading without a copy. The process reads the page before it
//! pins it.

use foreread_core::path::IoPath;
use foreread_core::table::{FileSlot, Frame, Generation};
use foreread_core::units::PageIndex;

use crate::process::Process;
use crate::run_state::SimFile;

/// A page that stays pinned until this is dropped.
#[derive(Debug)]
#[must_use = "a pin ends when it is dropped"]
pub struct PinnedPage {
    process: Process,
    slot: FileSlot,
    page: PageIndex,
    frame: Frame,
    generation: Generation,
}

impl Process {
    /// Pins a cached page of a file. None if it is not cached, or if a quarter of the cache is
    /// pinned.
    pub fn pin(&self, file: SimFile, page: PageIndex) -> Option<PinnedPage> {
        let slot = IoPath::slot(file.id);
        let pinned = self.world(|world| {
            if world.table.pin_budget().try_take(1) == 0 {
                return None;
            }
            let found = world.table.look_up(slot, page).filter(|found| world.table.pin(found));
            if found.is_none() {
                world.table.pin_budget().give_back(1);
            }
            found.map(|found| (found.entry().frame(), found.entry().generation()))
        });
        let (frame, generation) = pinned?;
        Some(PinnedPage { process: self.clone(), slot, page, frame, generation })
    }
}

impl PinnedPage {
    /// Returns true if a lookup finds the page in its pinned frame. It leaves only when it is
    /// forgotten; until then the frame must not be reused.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.process.world(|world| {
            let found = world.table.look_up(self.slot, self.page);
            found.is_some_and(|found| {
                let entry = found.entry();
                (entry.frame(), entry.generation()) == (self.frame, self.generation)
            })
        })
    }
}

impl Drop for PinnedPage {
    fn drop(&mut self) {
        // The world is not borrowed when a run that ends drops its processes.
        if let Ok(mut world) = self.process.state().world.try_borrow_mut() {
            if world.table.unpin(self.frame, self.generation) {
                let now = world.now();
                world.path.unpinned(now, self.frame);
                world.pump();
            }
            world.table.pin_budget().give_back(1);
        }
    }
}
