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
        };
        let mut stats = ServerStats::gather(about, &self.file, meter.counters())?;
        stats.writes.lost = self.written.has_lost()?;
        Ok(stats)
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
        let lost = if self.written.has_lost()? { "reported" } else { "none" };
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
            Some(_) => self.file.device().set_scheduler_by_name(name, value),
            None => {
                let names: Vec<_> = settings.iter().map(|one| one.name.as_str()).collect();
                return Err(format!("no tunable '{name}'; there are {}", names.join(", ")));
            }
        };
        set.map_err(|error| bad(&error))
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
            None => self.written.accept_lost().map_err(|error| error.to_string()),
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
