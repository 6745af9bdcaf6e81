//! The cache of a run, lent to a Python policy for one decision. Any later use raises an exception.

use std::cell::Cell;
use std::mem::transmute;

use foreread_core::prefetch::Residency;
use foreread_core::units::{PageIndex, Pages};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Residency of the pages of the reader's file.
///
/// A page in flight from the device counts as resident.
#[pyclass(unsendable, module = "foreread._foreread", name = "Residency")]
pub(crate) struct LentResidency(Cell<Option<&'static dyn Residency>>);

#[pymethods]
impl LentResidency {
    /// Counts the resident pages just before `page`, without a gap, up to `limit`.
    fn history(&self, page: u64, limit: u64) -> PyResult<u64> {
        Ok(self.cache()?.history(PageIndex(page), Pages(limit)).0)
    }

    /// Returns the first page in `[page, page + limit)` that is not resident; None if all of them
    /// are.
    fn next_hole(&self, page: u64, limit: u64) -> PyResult<Option<u64>> {
        Ok(self.cache()?.next_hole(PageIndex(page), Pages(limit)).map(|hole| hole.0))
    }
}

impl LentResidency {
    fn cache(&self) -> PyResult<&dyn Residency> {
        let over = || PyRuntimeError::new_err("the cache can be used only while decide() runs");
        self.0.get().map(|cache| cache as &dyn Residency).ok_or_else(over)
    }
}

/// Lends a cache to Python while `act` runs.
pub(super) fn lend<'py, T>(
    py: Python<'py>,
    cache: &dyn Residency,
    act: impl FnOnce(&Bound<'py, LentResidency>) -> PyResult<T>,
) -> PyResult<T> {
    // SAFETY: the reference is used only through the object below. The object belongs to this
    // thread alone (unsendable: pyo3 refuses calls of other threads), its methods return before
    // this function does, and LoanEnd takes the reference out of it before this function returns or
    // unwinds, while `cache` is still borrowed.
    let cache = unsafe { transmute::<&dyn Residency, &'static dyn Residency>(cache) };
    let lent = Bound::new(py, LentResidency(Cell::new(Some(cache))))?;
    let end = LoanEnd(&lent);
    let result = act(&lent);
    drop(end);
    result
}

/// Ends the loan.
struct LoanEnd<'l, 'py>(&'l Bound<'py, LentResidency>);

impl Drop for LoanEnd<'_, '_> {
    fn drop(&mut self) {
        // No method borrows the object mutably, so this succeeds.
        self.0.borrow().0.set(None);
    }
}
