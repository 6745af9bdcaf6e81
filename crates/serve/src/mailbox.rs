//! Mailbox of a connection: results and wake-ups from other threads. Only the first piece of mail
//! after the connection has emptied it costs a system call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use rustix::event::{EventfdFlags, eventfd};

use crate::nbd::NbdErrno;

#[derive(Debug)]
pub(crate) struct Mailbox {
    bell: OwnedFd,
    is_rung: AtomicBool,
    mail: Mutex<Vec<Mail>>,
}

/// Message to a connection.
#[derive(Debug)]
pub(crate) enum Mail {
    /// The read in this slot can make progress: poll it.
    ReadWoken(usize),
    /// The write or flush in this slot can make progress: poll it.
    WriteWoken(usize),
    /// Result of a part of a write that had to wait.
    Written { result: Result<(), NbdErrno>, paid: usize },
    /// The server's budget has free bytes again.
    Memory,
    /// A complete reply, and the bytes of budget that its request holds.
    Reply { bytes: Vec<u8>, paid: usize, is_error: bool },
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { bell, is_rung: AtomicBool::new(false), mail: Mutex::default() })
    }

    pub(crate) fn post(&self, mail: Mail) {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner).push(mail);
        if !self.is_rung.swap(true, Ordering::SeqCst) {
            // The counter of an eventfd does not overflow here.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Moves all mail into `to`, which is empty.
    pub(crate) fn take(&self, to: &mut Vec<Mail>) {
        if !self.is_rung.load(Ordering::SeqCst) {
            return;
        }
        // Clear the eventfd first, so that later mail signals it again.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.is_rung.store(false, Ordering::SeqCst);
        std::mem::swap(to, &mut self.mail.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// Wakes the connection to poll the future in one of its slots.
struct SlotWaker {
    mailbox: Arc<Mailbox>,
    mail: fn(usize) -> Mail,
    slot: usize,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.mailbox.post((self.mail)(self.slot));
    }
}

/// Returns a waker for the future in a slot, which posts `mail` of it.
pub(crate) fn waker(mailbox: &Arc<Mailbox>, mail: fn(usize) -> Mail, slot: usize) -> Waker {
    Waker::from(Arc::new(SlotWaker { mailbox: Arc::clone(mailbox), mail, slot }))
}
