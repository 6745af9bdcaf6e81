//! Remembered stores: listed, checked, forgotten.
//!
//! Records are written by `tune URL --remember`, `serve` and `mount`. No request is sent: the next
//! reader's first requests detect an outdated record.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use foreread::PAGE_SIZE;
use foreread::{KeptRecord, device_records, forget_device_record};
use foreread::{LearntCost, LearntDevice};
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use serde::Serialize;

use super::date;
use foreread_cli::device_memory::default_directory;
use foreread_cli::output::{Failure, Printer};
use foreread_cli::store;
use foreread_cli::table::or_dash;

/// Prefix of the names of stores.
const STORE: &str = "store-";

/// A store that is remembered, and the keys of its JSON.
#[derive(Debug, Serialize)]
pub(super) struct RememberedStore {
    /// The name of its record.
    store: String,
    date: String,
    file: PathBuf,
    max_window_kib: u64,
    first_byte_ms: Option<f64>,
    /// Throughput of one connection.
    mb_per_s: Option<f64>,
    requests_at_once: Option<u32>,
}

/// A record of a store that cannot be used.
#[derive(Debug)]
pub(super) struct BrokenStore {
    pub(super) store: String,
    pub(super) why: String,
}

/// Returns the records of stores, and those that cannot be read.
pub(super) fn remembered() -> (Vec<RememberedStore>, Vec<BrokenStore>) {
    let records = match device_records(default_directory()) {
        Ok(records) => records,
        Err(error) => {
            let store = default_directory().display().to_string();
            return (Vec::new(), vec![BrokenStore { store, why: error.to_string() }]);
        }
    };
    let (mut stores, mut broken) = (Vec::new(), Vec::new());
    for KeptRecord { name: store, path: file, learnt, .. } in records {
        match learnt {
            _ if !store.starts_with(STORE) => {}
            Ok((learnt, saved)) => stores.push(RememberedStore::new(store, file, learnt, saved)),
            Err(why) => {
                broken.push(BrokenStore { store, why: format!("{}: {why}", file.display()) });
            }
        }
    }
    (stores, broken)
}

impl RememberedStore {
    fn new(store: String, file: PathBuf, learnt: LearntDevice, saved: SystemTime) -> Self {
        let LearntDevice { window, cost } = learnt;
        let seconds = saved.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let at_once = |cost: LearntCost| cost.parallel.unwrap_or(cost.min_parallel);
        Self {
            store,
            date: date::day(seconds / 86_400),
            file,
            max_window_kib: window.0 * (PAGE_SIZE / 1024),
            first_byte_ms: cost.map(|cost| cost.per_request_ns / 1e6),
            mb_per_s: cost.filter(|it| it.per_kib_ns > 0.0).map(|it| 1024e3 / it.per_kib_ns),
            requests_at_once: cost.map(at_once),
        }
    }

    /// Returns a row of `--list`.
    pub(super) fn cells(&self) -> [String; 6] {
        let window = Exact(ByteCount(self.max_window_kib << 10));
        let first_byte = self.first_byte_ms.map(|ms| format!("first byte {ms:.0} ms"));
        let connection = self.mb_per_s.map(|rate| format!("{rate:.0} MB/s a connection"));
        let at_once = self.requests_at_once.map(|count| format!("{count} at once"));
        let known: Vec<_> = [first_byte, connection, at_once].into_iter().flatten().collect();
        let known = (!known.is_empty()).then(|| known.join(", "));
        [
            self.store.clone(),
            "a store".to_owned(),
            self.date.clone(),
            window.to_string(),
            format!("max_window={window}"),
            or_dash(known),
        ]
    }

    /// Returns the name used by `verify`.
    pub(super) fn name(&self) -> &str {
        &self.store
    }
}

/// Forgets the store of a URL, or of a name that `--list` shows. None if it names no store.
pub(super) fn forget(name: &str, out: &mut Printer) -> Option<Result<(), Failure>> {
    let url = store::url_of(name.as_ref());
    let is_store = url.is_some() || name.starts_with(STORE);
    is_store.then(|| {
        let store = url.map_or_else(|| Ok(name.to_owned()), store::device_name_of)?;
        let forgotten = forget_device_record(default_directory(), &store)
            .map_err(|error| Failure::WrongUse(format!("{error}; it is still remembered")))?;
        match forgotten {
            Some(path) => out.entry("", &format!("{name}: removed {}", path.display())),
            None => Err(Failure::WrongUse(format!(
                "{name}: nothing is remembered of this store; foreread tune --list shows what is"
            ))),
        }
    })
}
