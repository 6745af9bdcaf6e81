//! The device below a file: its model, its state and its scheduler.

use foreread_core::device_model::DeviceModel;
use foreread_core::path::DeviceState;
use foreread_core::sched::SchedulerKind;

use crate::error::{EngineError, SettingError};
use crate::file::File;

impl File {
    /// Returns the device that holds this file: its model, its state and its scheduler.
    #[must_use]
    pub fn device(&self) -> FileDevice<'_> {
        FileDevice { file: self }
    }
}

/// The device that holds a file, or the store of a source; see [`File::device`].
///
/// Files on one device share its model, queue and scheduler.
#[derive(Clone, Copy, Debug)]
pub struct FileDevice<'f> {
    pub(crate) file: &'f File,
}

impl FileDevice<'_> {
    /// Returns the model of the device, estimated from this engine's reads: the cost of a request
    /// and of its bytes, and the number of requests it serves at once. None until there are enough
    /// reads.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// if let Some(model) = file.device().model()? {
    ///     println!("{} us a request, {:?} at once", model.per_request_ns / 1e3, model.parallel);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn model(&self) -> Result<Option<DeviceModel>, EngineError> {
        let file = &self.file.handle().file;
        Ok(file.engine.drive()?.path.device_model(file.device))
    }

    /// Returns the best model available. Until [`Self::model`] has one, that is the model
    /// remembered by an earlier run (`EngineBuilder::remember`) or the one that a
    /// [source](crate::Source) expects; its `parallel` is then a lower bound.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn expected_model(&self) -> Result<Option<DeviceModel>, EngineError> {
        let file = &self.file.handle().file;
        Ok(file.engine.drive()?.path.expected_model(file.device))
    }

    /// Returns the state of this engine's queue for the device: requests queued and in flight, the
    /// limit of writes in flight, expired requests.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// if let Some(state) = file.device().state()? {
    ///     println!("{} reads wait, {} are in flight", state.queued_reads, state.in_flight_reads);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn state(&self) -> Result<Option<DeviceState>, EngineError> {
        let file = &self.file.handle().file;
        Ok(file.engine.drive()?.path.device_state(file.device))
    }

    /// Returns the current settings of the scheduler, its name first.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn scheduler_settings(&self) -> Result<Vec<(&'static str, String)>, EngineError> {
        let file = &self.file.handle().file;
        Ok(file.engine.drive()?.path.scheduler_settings(file.device))
    }

    /// Replaces the scheduler of the device, or changes its settings. Queued requests stay queued.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// file.device().set_scheduler(&foreread::SchedulerKind::Noop)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the scheduler is for the simulator only; in a forked child.
    pub fn set_scheduler(&self, scheduler: &SchedulerKind) -> Result<(), SettingError> {
        SchedulerKind::for_device(scheduler.name())?;
        let settings = scheduler.settings();
        let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
        self.change_scheduler([("scheduler", scheduler.name())].into_iter().chain(settings))
    }

    /// Changes one setting of the scheduler by its name, with the value as text: for control
    /// sockets and configuration files. [`Self::scheduler_settings`] lists the names.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// file.device().set_scheduler_by_name("read_hold", "0")?; // of the scheduler `deadline`
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the scheduler has no such setting, or the value is invalid for it; in a forked child.
    pub fn set_scheduler_by_name(&self, name: &str, value: &str) -> Result<(), SettingError> {
        self.change_scheduler([(name, value)])
    }

    fn change_scheduler<'t>(
        &self,
        settings: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<(), SettingError> {
        let file = &self.file.handle().file;
        let mut driver = file.engine.drive()?;
        for (name, value) in settings {
            driver.path.set_scheduler(file.device, name, value)?;
        }
        driver.start_all();
        Ok(())
    }
}
