//! What callers see of remembered devices: saved when they want it, and what came of a record.
//!
//! In:    an engine, a file.
//! Out:   records written; the state of one.
//! Never: a wait for a device.

use std::io;

use crate::engine::Engine;
use crate::file_device::FileDevice;
use crate::remember::DeviceRecord;

/// # Remembering devices
impl Engine {
    /// Writes what was learnt of devices to the directory of
    /// [`EngineBuilder::remember`](crate::EngineBuilder::remember), if it has changed by more than
    /// a tenth. Blocks for as long as the file system takes to sync small files. The engine does
    /// the same when it ends, and then drops the error; a program that runs for long may call this
    /// now and then.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = std::env::temp_dir();
    /// let engine = foreread::Engine::builder().remember(directory).build()?;
    /// engine.save_learnt()?; // nothing was read, so nothing is written
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If a file cannot be written, or is not foreread's; in a forked child.
    pub fn save_learnt(&self) -> io::Result<()> {
        let Some(records) = &self.state.records else { return Ok(()) };
        records.note_all(&*self.state.drive().map_err(io::Error::other)?);
        records.save()
    }
}

impl FileDevice<'_> {
    /// Returns what the engine did with the device's record when it opened the file: restored,
    /// ignored, none there; `Off` in a forked child.
    #[must_use]
    pub fn record(&self) -> DeviceRecord {
        let file = self.file.file_state();
        // The lock may be held forever there.
        if file.engine.check_process().is_err() {
            return DeviceRecord::Off;
        }
        let records = file.engine.records.as_ref().zip(file.record_name.as_ref());
        records.map_or(DeviceRecord::Off, |(records, name)| records.state(name))
    }
}
