//! Acknowledged writes that a file has lost with a failed device flush, and their acceptance.

use crate::error::EngineError;
use crate::file::File;

impl File {
    /// Returns the acknowledged writes that this file has lost.
    #[must_use]
    pub fn lost_writes(&self) -> LostWrites<'_> {
        LostWrites { file: self }
    }
}

/// Acknowledged writes that a file has lost; see [`File::lost_writes`].
///
/// A device that fails a flush may have dropped writes it had taken. If they are no longer in
/// memory either, each flush of the file returns
/// [`WriteErrorKind::Lost`](crate::WriteErrorKind::Lost).
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let file = foreread::Engine::builder().build()?.create("/var/lib/db/table")?;
/// if file.sync_data().is_err() && file.lost_writes().is_pending()? {
///     // Rewrite the data worth keeping from a copy that the program still has.
///     file.write_all_at(b"again", 0)?;
///     file.lost_writes().accept()?;
///     file.sync_data()?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LostWrites<'f> {
    file: &'f File,
}

impl LostWrites<'_> {
    /// Returns true if writes were lost and not yet [accepted](Self::accept).
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn is_pending(&self) -> Result<bool, EngineError> {
        let file = &self.file.handle().file;
        Ok(file.engine.drive()?.path.lost(file.id).is_some())
    }

    /// Returns the number of times that the file has lost writes since it was opened, accepted or
    /// not. A program that keeps an index of its writes compares this number with an earlier one,
    /// and so detects a loss even if another handle has accepted it since.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn count(&self) -> Result<u64, EngineError> {
        let file = &self.file.handle().file;
        Ok(file.engine.drive()?.path.losses(file.id))
    }

    /// Accepts the loss: later flushes cover only the writes that follow. Before this call, rewrite
    /// or restore the data worth keeping. Does nothing if no write was lost.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn accept(&self) -> Result<(), EngineError> {
        let file = &self.file.handle().file;
        file.engine.drive()?.path.accept_lost(file.id);
        Ok(())
    }
}
