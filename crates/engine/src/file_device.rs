//! The device below a file: what is known of it, and its scheduler.
//!
//! In:    a handle; settings, typed or as text.
//! Out:   the device's model and state; settings that are in force.
//! Never: a request of its own.

use foreread_core::device_model::DeviceModel;
use foreread_core::path::DeviceState;
use foreread_core::sched::Choice;

use crate::error::{ForkedError, SettingError};
use crate::file::File;

/// # The device below
impl File {
    /// The model of the device below, estimated from this engine's reads: the cost of a request and
    /// of its bytes, and how many requests it serves at once. None before there are enough reads.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// if let Some(model) = file.device_model()? {
    ///     println!("{} us a request, {:?} at once", model.per_request_ns / 1e3, model.parallel);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn device_model(&self) -> Result<Option<DeviceModel>, ForkedError> {
        let file = &self.handle().file;
        Ok(file.engine.drive()?.path.device_model(file.device))
    }

    /// The model of the device below, as soon as anything is known: that of [`Self::device_model`],
    /// and before there are enough reads what an earlier run has
    /// [remembered](crate::EngineBuilder::remember), or what its [source](crate::Source) expects.
    /// `parallel` is how many requests are served at once at least.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn expected_model(&self) -> Result<Option<DeviceModel>, ForkedError> {
        let file = &self.handle().file;
        Ok(file.engine.drive()?.path.expected_model(file.device))
    }

    /// The state of the device below, as far as this engine uses it: what is queued and in flight,
    /// the limit for writes, what has expired.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// if let Some(state) = file.device_state()? {
    ///     println!("{} reads wait, {} are in flight", state.queued_reads, state.in_flight_reads);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn device_state(&self) -> Result<Option<DeviceState>, ForkedError> {
        let file = &self.handle().file;
        Ok(file.engine.drive()?.path.device_state(file.device))
    }

    /// The settings of this file's scheduler as they are now, its own name first.
    ///
    /// # Errors
    ///
    /// In a forked child.
    pub fn scheduler_settings(&self) -> Result<Vec<(&'static str, String)>, ForkedError> {
        let file = &self.handle().file;
        Ok(file.engine.drive()?.path.scheduler_settings(file.device))
    }

    /// Gives this file's device another scheduler, or the same with other settings. What is queued
    /// stays queued.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// file.set_scheduler(&foreread::Choice::Noop)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If it is one for the simulator only; in a forked child.
    pub fn set_scheduler(&self, scheduler: &Choice) -> Result<(), SettingError> {
        Choice::for_device(scheduler.name())?;
        let settings = scheduler.settings();
        let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
        self.change_scheduler([("scheduler", scheduler.name())].into_iter().chain(settings))
    }

    /// Changes one setting of the scheduler of this file by its name, with the value as text: for
    /// control sockets and configuration files. [`Self::scheduler_settings`] has the names.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let file = foreread::Engine::builder().build()?.open("/dev/sdb")?;
    /// file.set_scheduler_by_name("read_hold", "0")?; // of the scheduler `deadline`
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the scheduler has no such setting, or the value makes no sense for it; in a forked child.
    pub fn set_scheduler_by_name(&self, name: &str, value: &str) -> Result<(), SettingError> {
        self.change_scheduler([(name, value)])
    }

    fn change_scheduler<'t>(
        &self,
        settings: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> Result<(), SettingError> {
        let file = &self.handle().file;
        let mut driver = file.engine.drive()?;
        for (name, value) in settings {
            driver.path.set_scheduler(file.device, name, value)?;
        }
        driver.start_all();
        Ok(())
    }
}
