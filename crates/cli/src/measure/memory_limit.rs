//! A limit on the kernel's page cache: a memory cgroup that this process enters for a while.
//!
//! While the guard lives, page-cache pages read by this process count against the limit. If the
//! process is killed, the server of the slow device removes the cgroup.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use foreread_files::{attribute, cgroup};

use crate::clock::{clock, sleep_until};

/// Held as long as the limit is in force.
#[derive(Debug)]
pub struct MemoryLimit {
    group: PathBuf,
    /// Control group of this process before the run.
    home: PathBuf,
}

impl MemoryLimit {
    /// Enters a new cgroup with this limit.
    pub fn new(bytes: u64) -> io::Result<Self> {
        let (root, home, limit) = hierarchy()?;
        // Version 2 gives children only the controllers that are named here; it may be there.
        let _ = attribute::set(&Path::new(root).join("cgroup.subtree_control"), "+memory");
        let group = group_of(root, process::id());
        cgroup::create(&group)?;
        let it = Self { group, home };
        attribute::set(&it.group.join(limit), &bytes.to_string())?;
        enter(&it.group)?;
        Ok(it)
    }

    /// Returns the reason if no limit can be set, before anything is measured.
    pub fn refusal() -> Option<io::Error> {
        // More than any process has: nothing is reclaimed.
        Self::new(1 << 50).err()
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let _ = enter(&self.home);
        remove(&self.group);
    }
}

/// Removes the cgroup of a killed process.
pub(crate) fn remove_left_behind(process: u32) {
    for (root, _) in HIERARCHIES {
        remove(&group_of(root, process));
    }
}

/// Removes the cgroup, with retries: an ending process leaves it shortly after it closes its files.
fn remove(group: &Path) {
    let end = clock() + LEAVES_WITHIN;
    while cgroup::remove(group).is_err() && group.exists() && clock() < end {
        sleep_until(clock() + Duration::from_millis(10));
    }
}

fn enter(group: &Path) -> io::Result<()> {
    attribute::set(&group.join("cgroup.procs"), &process::id().to_string())
}

fn group_of(root: &str, process: u32) -> PathBuf {
    Path::new(root).join(format!("foreread-demo-{process}"))
}

/// Returns the root of the hierarchy with the memory controller, the cgroup of this process in it,
/// and the name of the limit file.
fn hierarchy() -> io::Result<(&'static str, PathBuf, &'static str)> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let path_in = |is_it: &dyn Fn(&str) -> bool| {
        own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            is_it(controllers).then(|| path.to_owned())
        })
    };
    let [(v1, limit_v1), (v2, limit_v2)] = HIERARCHIES;
    let of_v1 = path_in(&|controllers| controllers.split(',').any(|it| it == "memory"));
    let (root, path, limit) = match of_v1 {
        Some(path) => (v1, path, limit_v1),
        None => {
            let path = path_in(&str::is_empty);
            (v2, path.ok_or_else(|| io::Error::other("no memory cgroup"))?, limit_v2)
        }
    };
    let home = Path::new(root).join(path.trim_start_matches('/'));
    if !home.join("cgroup.procs").exists() {
        return Err(io::Error::other("no memory cgroup"));
    }
    Ok((root, home, limit))
}

/// Versions 1 and 2: where each is mounted, and its limit.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// Longer than the end of a process takes.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);
