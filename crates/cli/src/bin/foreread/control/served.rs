//! Server side of `foreread stats` and `foreread set`.

use std::time::Instant;

use foreread::{Engine, EngineError, SettingError};
use foreread_core::units::ByteCount;
use foreread_serve::stats::{ServerInfo, ServerStats, SettingValue, StoreStats};
use foreread_serve::{CounterReader, OverlayLosses};

use foreread_cli::clock::clock;
use foreread_cli::store::{StoreAsked, asked_so_far};

/// State served to `foreread stats` and `foreread set`.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) engine: Engine,
    pub(crate) file: foreread::File,
    /// File that receives writes: the overlay's, or the target.
    pub(crate) written: foreread::File,
    /// Accepts lost writes of an overlay, on request of its owner.
    pub(crate) losses: Option<OverlayLosses>,
    pub(crate) target: String,
    pub(crate) export: String,
    /// The number of bytes that clients see.
    pub(crate) bytes: u64,
    pub(crate) read_only: bool,
    pub(crate) memory: ByteCount,
    pub(crate) started: Instant,
}

impl Served {
    /// Answers one request.
    pub(crate) fn answer(&self, text: &str, meter: &CounterReader) -> Result<String, String> {
        let in_words = |error: serde_json::Error| error.to_string();
        match text.split_once(' ') {
            None if text == "stats" => {
                let stats = self.stats(meter).map_err(|forked| forked.to_string())?;
                serde_json::to_string(&stats).map_err(in_words)
            }
            None if text == "settings" => {
                let settings = self.settings().map_err(|forked| forked.to_string())?;
                serde_json::to_string(&settings).map_err(in_words)
            }
            Some(("set", assignment)) => {
                let (name, value) = assignment.split_once('=').ok_or("write NAME=VALUE")?;
                self.set(name, value).map(|()| "ok".to_owned())
            }
            _ => Err("there are stats, settings, and set NAME=VALUE".to_owned()),
        }
    }

    pub(crate) fn stats(&self, meter: &CounterReader) -> Result<ServerStats, EngineError> {
        let about = ServerInfo {
            version: env!("CARGO_PKG_VERSION"),
            target: &self.target,
            name: &self.export,
            bytes: self.bytes,
            read_only: self.read_only,
            memory: self.memory.0,
            up_s: clock().duration_since(self.started).as_secs_f64(),
            store: asked_so_far().map(store_stats),
            engine: &self.engine,
            overlay: self.overlay(),
        };
        ServerStats::gather(about, &self.file, meter.counters())
    }

    /// Returns all settings: of the engine, then of the file's scheduler.
    pub(crate) fn settings(&self) -> Result<Vec<SettingValue>, EngineError> {
        let of = |of: &str, (name, value): (&str, String)| SettingValue {
            name: name.to_owned(),
            value,
            of: of.to_owned(),
        };
        let engine = self.engine.settings()?.into_iter().map(|one| of("engine", one));
        let scheduler = self.file.device().scheduler_settings()?.into_iter();
        let lost = if self.written.lost_writes().is_pending()? { "reported" } else { "none" };
        let file = std::iter::once((LOST_WRITES, lost.to_owned()));
        Ok(engine
            .chain(scheduler.map(|one| of("scheduler", one)))
            .chain(file.map(|one| of("file", one)))
            .collect())
    }

    /// Sets one of them.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<(), String> {
        let settings = self.settings().map_err(|forked| forked.to_string())?;
        let set = match settings.iter().find(|one| one.name == name) {
            Some(one) if one.of == "engine" => self.engine.set_by_name(name, value),
            // An unchanged value is accepted.
            Some(one) if one.of == "file" && one.value == value => return Ok(()),
            Some(one) if one.of == "file" => return self.accept_lost(value),
            Some(_) => self.set_scheduler(name, value),
            None => {
                let names: Vec<_> = settings.iter().map(|one| one.name.as_str()).collect();
                return Err(format!("no tunable '{name}'; there are {}", names.join(", ")));
            }
        };
        set.map_err(|error| bad(&error))
    }

    /// Changes the scheduler of all devices: with an overlay, writes go to another device than most
    /// reads.
    fn set_scheduler(&self, name: &str, value: &str) -> Result<(), SettingError> {
        let devices = [Some(&self.file), self.overlay()];
        let mut devices = devices.into_iter().flatten();
        devices.try_for_each(|file| file.device().set_scheduler_by_name(name, value))
    }

    /// Returns the overlay's file, if there is one.
    fn overlay(&self) -> Option<&foreread::File> {
        self.losses.is_some().then_some(&self.written)
    }

    /// Lets flushes succeed again once the owner of the data has accepted the loss.
    fn accept_lost(&self, value: &str) -> Result<(), String> {
        if value != "accept" {
            let is = "lost_writes can be set to 'accept' only: flushes succeed again after \
                      acknowledged writes were lost";
            return Err(format!("{is}, not to '{value}'"));
        }
        match &self.losses {
            Some(losses) => losses.accept().map_err(|error| error.to_string()),
            None => self.written.lost_writes().accept().map_err(|error| error.to_string()),
        }
    }
}

fn store_stats(asked: StoreAsked) -> StoreStats {
    let StoreAsked { requests, retried, hedged, throttled, failed, bytes, cost } = asked;
    StoreStats { requests, retried, hedged, throttled, failed, bytes, cost }
}

/// Name of the setting that accepts lost writes.
const LOST_WRITES: &str = "lost_writes";

fn bad(error: &SettingError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::ops::Range;

    use foreread::{Reply, Source, SourceIdentity};
    use foreread_serve::Overlay;

    use super::*;

    /// Zeros on a device of their own.
    struct Zeros;

    impl Source for Zeros {
        fn identity(&self) -> SourceIdentity {
            SourceIdentity::new("zeros", "1")
        }

        fn length(&self) -> io::Result<u64> {
            Ok(1 << 20)
        }

        fn fetch(&self, range: Range<u64>, reply: Reply) {
            let len = usize::try_from(range.end - range.start).expect("at most a MiB");
            let mut reply = reply;
            let _ = reply.write(&vec![0; len]);
        }
    }

    /// Settings of the scheduler used to reach the base's device only, to which nothing is written.
    #[test]
    fn the_scheduler_and_the_state_of_writes_are_those_of_an_overlay() {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = Engine::builder().memory(1 << 20).build().expect("an engine");
        let file = engine.open_source(Zeros).expect("it opens");
        let identity = SourceIdentity::new("zeros", "1");
        let overlay = Overlay::open(&engine, file.clone(), &identity, &folder.path().join("over"));
        let overlay = overlay.expect("it opens");
        let written = overlay.written_file().clone();
        let served = Served {
            engine,
            file: file.clone(),
            written: written.clone(),
            losses: Some(overlay.losses().clone()),
            target: "zeros".to_owned(),
            export: String::new(),
            bytes: 1 << 20,
            read_only: false,
            memory: ByteCount(1 << 20),
            started: clock(),
        };
        served.set("writes_in_flight", "7").expect("it is a setting");
        for file in [&file, &written] {
            let settings = file.device().scheduler_settings().expect("no fork");
            assert!(settings.contains(&("writes_in_flight", "7".to_owned())), "{settings:?}");
        }
        file.device().set_scheduler_by_name("writes_in_flight", "5").expect("it is a setting");
        let stats = served.stats(&CounterReader::default()).expect("no fork");
        assert_eq!(stats.device.write.limit, Some(7), "the limit of the device that is written");
    }
}
