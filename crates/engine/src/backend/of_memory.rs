//! Backends for disks in memory, which tests and experiments use.

use std::sync::Arc;

use foreread_core::units::ByteCount;

use super::write_side::WriteSide;
use super::{Backend, FileIdentity, Medium};
use crate::OpenOptions;
use crate::volatile::VolatileDisk;

impl Backend {
    pub(super) fn of_memory(device: &Arc<VolatileDisk>, options: &OpenOptions) -> Self {
        let identity = FileIdentity::Memory(Arc::as_ptr(device).addr());
        let len = ByteCount(device.len());
        let side = WriteSide { file: None, tail: None, flushes: None, _claim: None };
        let (medium, side) = (Medium::Memory(Arc::clone(device)), options.write.then_some(side));
        let mut backend = Self::new(medium, identity, len, None, side);
        backend.faults.clone_from(&options.faults);
        backend
    }
}
