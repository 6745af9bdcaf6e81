//! Writes whose caller has left.
//!
//! In:    a write whose caller has left, with the bytes.
//! Out:   the write is over, now or soon; its room, its frames and its pages are free.
//! Never: a page with bytes that were not copied.

use super::{Kind, State, WriteId};
use crate::path::waiters::Waiter;
use crate::path::{Fault, IoPath};
use crate::replay::Input;
use crate::units::{Bytes, Instant};

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
    pub fn give_up(&mut self, now: Instant, id: WriteId) {
        self.log().did(|| Input::GiveUp { now, id });
        let Some(write) = self.writes.get_mut(id) else { return };
        match write.state {
            State::Locked | State::Room | State::Frames => {
                self.unlocked.retain(|&other| other != id);
                self.room.forget(id);
                self.queued.retain(|&other| other != Waiter::Write(id));
                self.give_back_room(id);
                self.unlock(id);
                self.end_write(id, Bytes::ZERO, Some(Fault::Short));
            }
            State::Reading => write.fault = write.fault.or(Some(Fault::Short)),
            State::Filling => assert!(write.kind != Kind::Write, "{id:?} has to be filled"),
            State::Device | State::Acting => {}
        }
        self.admit(now);
    }
}
