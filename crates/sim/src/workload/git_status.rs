//! `git status`: stats each file of the index by its path, then reads the trees of the last commit
//! from the pack.

use foreread_core::path::Fault;
use foreread_core::units::{ByteCount, Nanos, PAGE_SIZE};
use serde::Deserialize;

use super::mount::{EntryOrder, Ext4Mount, MountSpec};
use crate::ext4::{DirectoryEntry, DirectoryId, LayoutSource};
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::run::SimFile;
use crate::time::{check_time, ns_of_ms};
use crate::validate::check;

/// Checks a working tree like `git status`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitStatus {
    /// Mounted file system.
    pub mount: MountSpec,
    /// Tree on it.
    pub tree: LayoutSource,
    /// Order of the entries: the index is sorted by path; `htree` visits the entries of each
    /// directory in hash order, as if it were listed.
    #[serde(default)]
    pub order: EntryOrder,
    /// CPU time per entry, in us.
    #[serde(default)]
    pub entry_us: f64,
    /// Pack file with the objects.
    pub pack: Option<String>,
    /// Number of random pages read from it.
    #[serde(default)]
    pub objects: u32,
}

impl GitStatus {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        self.mount.check(machine, &self.tree)?;
        check_time(self.entry_us / 1e3, "entry_us")?;
        match &self.pack {
            Some(pack) => {
                let has_pages = machine.file(pack)?.size.0.0 >= PAGE_SIZE;
                check(has_pages, "pack", "a file of at least a page")
            }
            None => check(self.objects == 0, "objects", "0 without a pack"),
        }
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        start: Nanos,
    ) -> Result<(), String> {
        let file = building.file(&self.mount.file)?;
        let pack = self.pack.as_ref().map(|pack| building.file(pack)).transpose()?;
        let params = self.clone();
        let own = name.to_owned();
        building.begin(name, start, async move |process: Process| {
            let Some(ext4) = Ext4Mount::open(&process, file, &params.mount, &params.tree) else {
                process.say("no room for the tree", 0);
                return;
            };
            // A fault ends it; the measurements up to it remain.
            let _ = params.refresh(&process, &ext4).await;
            if let Some(pack) = pack {
                let _ = params.read_objects(&process, pack, &own).await;
            }
        });
        Ok(())
    }

    /// Stats all files, depth first.
    async fn refresh(&self, process: &Process, ext4: &Ext4Mount) -> Result<(), Fault> {
        let layout = ext4.layout();
        let entry_ns = ns_of_ms(self.entry_us / 1e3);
        let mut ahead: Vec<Visit> = Vec::new();
        let mut tops: Vec<DirectoryId> = layout.tops().collect();
        tops.reverse();
        while let Some(visit) = ahead.pop().or_else(|| tops.pop().map(Visit::Enter)) {
            match visit {
                Visit::Enter(id) => {
                    let directory = layout.directory(id);
                    if directory.parent.is_none() {
                        ext4.stat(directory.inode).await?;
                    }
                    let entries = self.order.of(directory);
                    ahead.extend(entries.into_iter().rev().map(|entry| Visit::Entry(id, entry)));
                }
                Visit::Entry(id, entry) => {
                    ext4.look_up(layout.directory(id), &entry).await?;
                    ext4.stat(entry.inode).await?;
                    process.pass_ns(entry_ns).await;
                    ahead.extend(entry.directory.map(Visit::Enter));
                }
            }
        }
        Ok(())
    }

    async fn read_objects(&self, process: &Process, pack: SimFile, own: &str) -> Result<(), Fault> {
        let (reader, mut rng) = (process.open(pack), process.rng(own));
        for _ in 0..self.objects {
            let page = rng.below(pack.len.0 / PAGE_SIZE);
            reader.read(ByteCount(page * PAGE_SIZE), ByteCount(PAGE_SIZE)).await?;
        }
        Ok(())
    }
}

/// Next step of the traversal.
enum Visit {
    Enter(DirectoryId),
    Entry(DirectoryId, DirectoryEntry),
}
