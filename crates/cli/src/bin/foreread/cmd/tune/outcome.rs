//! A measured device: its report, and all that is needed to set the recommendation.

use std::path::Path;

use foreread_tune::device_fit::DeviceLimits;
use foreread_tune::flood::FloodReport;
use foreread_tune::probe::Stopped;
use foreread_tune::report::Report;
use foreread_tune::setting::DeviceSetting;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::target::TunedMount;
use foreread_tune::temporary_settings::DeviceInstance;
use serde::Serialize;

use super::device_model::{ModelFile, WrittenModel};
use super::plan::TuneAction;
use super::report;
use foreread_cli::output::{Failure, Printer};

/// A measured device.
#[derive(Serialize)]
pub(super) struct MeasuredDevice {
    #[serde(flatten)]
    pub(super) report: Report,
    pub(super) flood: Option<FloodReport>,
    /// Model written with --device-model.
    pub(super) device_model: Option<WrittenModel>,
    /// Limits that the device reports.
    #[serde(skip)]
    pub(super) limits: DeviceLimits,
    /// File systems with an inode table on the device.
    #[serde(skip)]
    pub(super) ext4: Vec<String>,
    /// Values before, for the recommended settings.
    #[serde(skip)]
    pub(super) before: Vec<DeviceSetting>,
    #[serde(skip)]
    pub(super) stopped: Option<Stopped>,
    /// Setting of its window, with any value.
    #[serde(skip)]
    pub(super) window: DeviceSetting,
    /// Mount, if it has its own window.
    #[serde(skip)]
    pub(super) mount: Option<TunedMount>,
    /// The device that had this name when it was measured; None for a model.
    #[serde(skip)]
    pub(super) instance: Option<DeviceInstance>,
}

impl MeasuredDevice {
    /// Returns false if the device was removed, or another one has its name now.
    pub(super) fn is_here(&self, sys: &SystemRoot) -> bool {
        self.instance.as_ref().is_none_or(|instance| instance.is_here(sys))
    }

    pub(super) fn print(&self, action: TuneAction, out: &mut Printer) -> Result<(), Failure> {
        report::print(out, &self.report, action)?;
        if let Some(flood) = &self.flood {
            report::print_flood(out, flood)?;
        }
        let of_flood = self.flood.iter().flat_map(|flood| flood.notes.iter());
        let notes = self.report.notes.iter().chain(of_flood).cloned();
        out.notes(&notes.chain(self.model_text()).collect::<Vec<_>>())
    }

    /// Writes the model if one was requested and the measurement is complete.
    pub(super) fn write_model(
        &mut self,
        file: Option<ModelFile>,
        target: Option<&Path>,
    ) -> Result<(), Failure> {
        let Some(file) = file.filter(|_| self.stopped.is_none()) else { return Ok(()) };
        self.device_model = Some(file.fit(&self.report, &self.limits, target)?);
        Ok(())
    }

    /// Returns the summary of the model.
    pub(super) fn model_text(&self) -> Option<String> {
        self.device_model.as_ref().map(WrittenModel::text)
    }

    /// Returns all recommended settings in the order to set them.
    pub(super) fn recommended(&self) -> Vec<DeviceSetting> {
        let Some(recommended) = &self.report.recommended else { return Vec::new() };
        let device = &self.report.device;
        let kib = recommended.read_ahead_kb.to_string();
        let window = DeviceSetting { value: kib, ..self.window.clone() };
        let blocks = recommended.inode_readahead_blks;
        let inodes = blocks.into_iter().flat_map(|blocks| {
            self.ext4.iter().map(move |name| DeviceSetting {
                device: device.clone(),
                attribute: format!("/sys/fs/ext4/{name}/inode_readahead_blks"),
                value: blocks.to_string(),
            })
        });
        let scheduler = recommended.scheduler.iter().cloned();
        [window].into_iter().chain(scheduler).chain(inodes).collect()
    }
}

/// Returns an error if the measurement was stopped.
pub(super) fn ended(one: &MeasuredDevice) -> Result<(), Failure> {
    match &one.stopped {
        None => Ok(()),
        Some(Stopped::Interrupted) => Err(Failure::Check(if one.report.restored {
            "interrupted; every setting is as it was".into()
        } else {
            "interrupted".into()
        })),
        Some(Stopped::Failed(why)) => Err(Failure::Check(why.clone())),
    }
}
