//! Writes whose caller has left.
//!
//! In:    a write whose caller has left, with the bytes.
//! Out:   the write is over, now or soon; its room, its frames and its pages are free.
//! Never: a page with bytes that were not copied.

use super::{WriteId, WriteKind, WriteState};
use crate::path::waiters::Waiter;
use crate::path::{Fault, IoPath};
use crate::replay::PathCall;
use crate::units::{ByteCount, Nanos};

impl IoPath {
    /// The caller of this write has left, and will not copy. To be called before
    /// [`WriteStep::Fill`] was polled: a write that is being filled has to be filled.
    ///
    /// ```text
    ///   it waits for pages, room or frames   it is over now
    ///   it reads the old bytes of a page     it is over when they come, and is not filled
    ///   it was filled; a flush               it goes on: others may be told, and the driver is
    /// ```
    ///
    /// [`WriteStep::Fill`]: super::WriteStep::Fill
    pub fn give_up(&mut self, now: Nanos, id: WriteId) {
        self.log().did(|| PathCall::GiveUp { now, id });
        let Some(write) = self.writes.get_mut(id) else { return };
        match write.state {
            WriteState::Locked | WriteState::Room | WriteState::Frames => {
                self.unlocked.retain(|&other| other != id);
                self.room.forget(id);
                self.queued.retain(|&other| other != Waiter::Write(id));
                self.give_back_room(id);
                self.unlock(id);
                self.end_write(id, ByteCount::ZERO, Some(Fault::Short));
            }
            WriteState::Reading => write.fault = write.fault.or(Some(Fault::Short)),
            WriteState::Filling => {
                assert!(write.kind != WriteKind::Write, "{id:?} has to be filled")
            }
            WriteState::Device | WriteState::Acting => {}
        }
        self.admit(now);
    }
}
