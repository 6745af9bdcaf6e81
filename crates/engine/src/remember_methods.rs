//! Public methods of remembered devices: saving records, and the state of a file's record.

use std::io;

use crate::engine::Engine;
use crate::file_device::FileDevice;
use crate::remember::DeviceRecord;

/// # Remembering devices
impl Engine {
    /// Writes the engine's device measurements to the directory of
    /// [`EngineBuilder::remember`](crate::EngineBuilder::remember), if they have changed by more
    /// than a tenth. Blocks while the file system syncs small files. The engine does the same when
    /// it ends, but drops the error; a long-running program may call this now and then.
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
        records.note_all(&*self.state.drive()?);
        records.save()
    }
}

impl FileDevice<'_> {
    /// Returns the outcome of loading the device's record when the file was opened: restored,
    /// ignored, or none found; `Off` in a forked child.
    #[must_use]
    pub fn record(&self) -> DeviceRecord {
        let file = self.file.file_state();
        // A forked child may inherit a lock that is held forever.
        if file.engine.check_process().is_err() {
            return DeviceRecord::Off;
        }
        let records = file.engine.records.as_ref().zip(file.record_name.as_ref());
        records.map_or(DeviceRecord::Off, |(records, name)| records.state(name))
    }
}
