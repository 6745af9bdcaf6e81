//! `find` over a tree: lists each directory, stats each of its entries, then descends into its
//! subdirectories.

use foreread_core::path::Fault;
use foreread_core::units::Nanos;
use serde::Deserialize;

use super::mount::{EntryOrder, Ext4Mount, MountSpec};
use crate::ext4::{DirectoryId, LayoutSource};
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::time::{check_time, ns_of_ms};

/// Walks a tree like `find -size 0`, which has to read each inode.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// Mounted file system.
    pub mount: MountSpec,
    /// Tree on it.
    pub tree: LayoutSource,
    /// Order of the entries of a directory.
    #[serde(default)]
    pub order: EntryOrder,
    /// CPU time per entry, in us.
    #[serde(default)]
    pub entry_us: f64,
}

impl Find {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        self.mount.check(machine, &self.tree)?;
        check_time(self.entry_us / 1e3, "entry_us")
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        start: Nanos,
    ) -> Result<(), String> {
        let file = building.file(&self.mount.file)?;
        let params = self.clone();
        building.begin(name, start, async move |process: Process| {
            let Some(ext4) = Ext4Mount::open(&process, file, &params.mount, &params.tree) else {
                process.say("no room for the tree", 0);
                return;
            };
            // A fault ends the walk; the measurements up to it remain.
            let _ = params.walk(&process, &ext4).await;
        });
        Ok(())
    }

    async fn walk(&self, process: &Process, ext4: &Ext4Mount) -> Result<(), Fault> {
        let layout = ext4.layout();
        let entry_ns = ns_of_ms(self.entry_us / 1e3);
        let mut ahead: Vec<DirectoryId> = layout.tops().collect();
        ahead.reverse();
        while let Some(id) = ahead.pop() {
            let directory = layout.directory(id);
            if directory.parent.is_none() {
                ext4.stat(directory.inode).await?;
            }
            ext4.list(directory).await?;
            let from = ahead.len();
            for entry in self.order.of(directory) {
                ext4.stat(entry.inode).await?;
                process.pass_ns(entry_ns).await;
                ahead.extend(entry.directory);
            }
            ahead[from..].reverse();
        }
        Ok(())
    }
}
