//! Jobs that wait for a base or a device that does not answer, beside others.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::event::PollFlags;

use super::*;
use crate::socket::wait;

/// Jobs at an odd offset wait for the base, which answers when the gate is dropped; so does the
/// device.
struct Stuck {
    gate: Mutex<Receiver<()>>,
}

impl Stuck {
    fn gated() -> (Sender<()>, Arc<dyn Store>) {
        let (open, gate) = channel();
        (open, Arc::new(Self { gate: Mutex::new(gate) }))
    }

    fn wait(&self) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.recv().unwrap_err();
    }
}

impl Store for Stuck {
    fn waits_for_base(&self, range: &Range<u64>, _: bool) -> bool {
        range.start % 2 == 1
    }
    fn read(&self, _: &mut [u8], _: u64) -> Result<(), NbdErrno> {
        Ok(())
    }
    fn try_write(&self, _: &[u8], _: u64) -> Result<usize, NbdErrno> {
        Ok(0)
    }
    fn write(&self, _: &[u8], offset: u64, _: bool) -> Result<(), NbdErrno> {
        if offset % 2 == 1 {
            self.wait();
        }
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        self.wait();
        Ok(())
    }
    fn discard(&self, _: Range<u64>) -> Result<(), NbdErrno> {
        Ok(())
    }
    fn zero(&self, _: Range<u64>, _: bool) -> Result<(), NbdErrno> {
        Ok(())
    }
    fn extents(&self, range: Range<u64>) -> Result<Vec<(Range<u64>, bool)>, NbdErrno> {
        Ok(vec![(range, true)])
    }
}

fn add(pool: &BlockingPool, store: &Arc<dyn Store>, mailbox: &Arc<Mailbox>, work: BlockingWork) {
    pool.add(store, BlockingJob { work, paid: 0, mailbox: Arc::clone(mailbox) });
}

fn answer(mailbox: &Mailbox) -> Mail {
    let mut mail = Vec::new();
    while mail.is_empty() {
        wait([(mailbox.as_fd(), PollFlags::IN)], None).unwrap();
        mailbox.take(&mut mail);
    }
    assert_eq!(mail.len(), 1);
    mail.remove(0)
}

/// A store that did not answer took all threads of the pool: reads of what is local waited.
#[test]
fn a_base_and_a_device_that_do_not_answer_hold_only_what_needs_them() {
    let (gate, store) = Stuck::gated();
    let pool = BlockingPool::default();
    let (stuck, mailbox) = (Arc::new(Mailbox::new().unwrap()), Arc::new(Mailbox::new().unwrap()));
    for cookie in 0..2 * MOST_THREADS as u64 {
        let part = BlockingWork::Part { bytes: vec![0; 512], offset: 1, fua: false };
        add(&pool, &store, &stuck, part);
        add(&pool, &store, &stuck, BlockingWork::Flush { cookie });
    }
    let read = BlockingWork::Read { cookie: 7, offset: 0, len: 8, chunk_at: None };
    add(&pool, &store, &mailbox, read);
    assert!(matches!(answer(&mailbox), Mail::Reply { is_error: false, .. }));
    let part = BlockingWork::Part { bytes: vec![0; 512], offset: 0, fua: false };
    add(&pool, &store, &mailbox, part);
    assert!(matches!(answer(&mailbox), Mail::Written { result: Ok(()), .. }));
    add(&pool, &store, &mailbox, BlockingWork::Extents { cookie: 8, range: 0..9, one: true });
    assert!(matches!(answer(&mailbox), Mail::Reply { is_error: false, .. }));
    for kind in &pool.kinds {
        let threads = kind.lock().threads;
        assert!(threads <= MOST_THREADS, "{threads} threads of one kind");
    }
    drop(gate);
    pool.close();
}
