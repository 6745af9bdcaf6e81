//! Reads the head of a device like `blkid`, which identifies the file system.
//!
//! ```text
//!   lseek 0, read 1024          page 0
//!   lseek 1536, read 16384      pages 0 to 4
//! ```

use foreread_core::prefetch::Advice;
use foreread_core::units::{ByteCount, Nanos};
use serde::Deserialize;

use super::sequential::AdviceName;
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;

/// Two small reads, each after a seek.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blkid {
    /// The file: the whole device.
    pub file: String,
    /// Advice on its access pattern.
    #[serde(default)]
    pub advice: AdviceName,
}

impl Blkid {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        machine.file(&self.file).map(drop)
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        start: Nanos,
    ) -> Result<(), String> {
        let file = building.file(&self.file)?;
        let advice: Advice = self.advice.into();
        building.begin(name, start, async move |process: Process| {
            let reader = process.open(file);
            if advice != Advice::Normal {
                reader.advise(advice);
            }
            for (pos, len) in READS {
                reader.seeked();
                if reader.read(pos, len).await.is_err() {
                    return;
                }
            }
        });
        Ok(())
    }
}

const READS: [(ByteCount, ByteCount); 2] =
    [(ByteCount(0), ByteCount(1024)), (ByteCount(1536), ByteCount(16384))];
