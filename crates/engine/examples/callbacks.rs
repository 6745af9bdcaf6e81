//! Copies a file by callbacks, in a program with an event loop: one thread, eight requests in
//! flight.
//!
//! In:    `cargo run -p foreread --example callbacks -- FROM TO`.
//! Out:   a durable copy.
//! Never: a wait outside the loop; a future.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use foreread::{CompletionQueue, Engine, File, OpenOptions};

const PART: usize = 256 << 10;
const IN_FLIGHT: usize = 8;

/// A copy in progress. Its callbacks run in one thread, so it needs no lock.
struct Copy {
    from: File,
    to: File,
    next: Cell<u64>,
    error: RefCell<Option<std::io::Error>>,
}

impl Copy {
    /// Reads the next part; its callback writes it, and reuses the buffer for another part.
    fn read_next(self: &Rc<Self>, queue: &CompletionQueue, buffer: Vec<u8>) {
        let offset = self.next.get();
        if offset >= self.from.len() || self.error.borrow().is_some() {
            return;
        }
        self.next.set(offset + PART as u64);
        let copy = Rc::clone(self);
        queue.read(&self.from, buffer, offset, move |queue, mut buffer, read| match read {
            Err(error) => copy.fail(error.into()),
            Ok(bytes) => {
                buffer.truncate(bytes);
                let (file, copy) = (copy.to.clone(), copy);
                queue.write(
                    &file,
                    buffer,
                    offset,
                    move |queue, mut buffer, written| match written {
                        Err(error) => copy.fail(error.into()),
                        Ok(written) if written < bytes => copy.fail(std::io::Error::other("full")),
                        Ok(_) => {
                            buffer.resize(PART, 0);
                            copy.read_next(queue, buffer);
                        }
                    },
                );
            }
        });
    }

    fn fail(&self, error: std::io::Error) {
        self.error.borrow_mut().get_or_insert(error);
    }
}

/// Copies a file and returns its length once the copy is durable.
pub fn copy(engine: &Engine, from: &Path, to: &Path) -> Result<u64, Box<dyn std::error::Error>> {
    let options = OpenOptions::new().write(true).create(true).truncate(true);
    let (from, to) = (engine.open(from)?, engine.open_with(to, &options)?);
    let (next, error) = (Cell::new(0), RefCell::default());
    let copy = Rc::new(Copy { from, to, next, error });
    let queue = engine.completion_queue();
    for _ in 0..IN_FLIGHT {
        copy.read_next(&queue, vec![0; PART]);
    }
    while queue.pending() > 0 {
        // A loop with other work calls run_ready, or run with a time limit.
        queue.run(None);
    }
    if let Some(error) = copy.error.take() {
        return Err(error.into());
    }
    let flushed = Rc::new(Cell::new(None));
    let result = Rc::clone(&flushed);
    queue.sync_data(&copy.to, move |_, flushed| result.set(Some(flushed)));
    queue.run(None);
    flushed.take().ok_or("the callback of the flush was not called")??;
    Ok(copy.to.len())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let (Some(from), Some(to)) = (args.next(), args.next()) else {
        println!("usage: callbacks FROM TO");
        return Ok(());
    };
    let engine = Engine::builder().memory(16 << 20).build()?;
    println!("{} bytes", copy(&engine, from.as_ref(), to.as_ref())?);
    Ok(())
}
