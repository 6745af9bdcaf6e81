//! Pinned pages as objects that export their memory: memoryview and NumPy read it without a copy.
//! The pages stay pinned as long as a view exists.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use foreread::PageRange;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Pages of a file that stay in memory, unchanged, until this and all views of it are gone.
#[pyclass(frozen, module = "foreread")]
pub(crate) struct PinnedRange {
    pages: Arc<PageRange>,
}

/// A run of pinned pages that is contiguous in memory.
#[pyclass(frozen, module = "foreread")]
pub(crate) struct PinnedPart {
    pages: Arc<PageRange>,
    /// Index of its first page. `len` is in bytes.
    first: usize,
    len: usize,
}

impl PinnedRange {
    pub(crate) fn new(pages: PageRange) -> Self {
        Self { pages: Arc::new(pages) }
    }
}

#[pymethods]
impl PinnedRange {
    fn __len__(&self) -> usize {
        self.pages.len()
    }

    /// True if all bytes are contiguous in memory, so that `memoryview(..)` works.
    #[getter]
    fn contiguous(&self) -> bool {
        self.pages.contiguous().is_some()
    }

    /// Returns the runs of pages that are contiguous in memory, in file order.
    fn parts(&self) -> Vec<PinnedPart> {
        let mut parts: Vec<PinnedPart> = Vec::new();
        let mut end = None;
        for (index, page) in self.pages.parts().enumerate() {
            let range = page.as_ptr_range();
            match parts.last_mut() {
                Some(part) if end == Some(range.start) => part.len += page.len(),
                Some(_) | None => {
                    let pages = Arc::clone(&self.pages);
                    parts.push(PinnedPart { pages, first: index, len: page.len() });
                }
            }
            end = Some(range.end);
        }
        parts
    }

    /// Returns a copy of the bytes.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyBytes>> {
        pyo3::types::PyBytes::new_with(py, self.pages.len(), |to| {
            self.pages.copy_to(to);
            Ok(())
        })
    }

    /// # Safety
    ///
    /// `view` comes from the interpreter, to be filled.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let Some(bytes) = slf.get().pages.contiguous() else {
            return Err(PyBufferError::new_err(
                "these pages are not contiguous in memory: use parts() or tobytes()",
            ));
        };
        let (at, len) = (bytes.as_ptr(), bytes.len());
        // SAFETY: `view` is ours to fill, by the contract of this function. The bytes neither move
        // nor change while `slf` lives, and the view keeps it alive.
        unsafe { fill(slf.as_any(), at, len, view, flags) }
    }
}

#[pymethods]
impl PinnedPart {
    fn __len__(&self) -> usize {
        self.len
    }

    /// # Safety
    ///
    /// `view` comes from the interpreter, to be filled.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let part = slf.get();
        let at = part.pages.parts().nth(part.first).map_or(std::ptr::null(), <[u8]>::as_ptr);
        // SAFETY: as above; the pages from the first on are contiguous for `len` bytes.
        unsafe { fill(slf.as_any(), at, part.len, view, flags) }
    }
}

/// Fills a view with read-only bytes owned by `owner`.
///
/// # Safety
///
/// `view` is writable, and the `len` bytes at `at` do not change while `owner` lives.
unsafe fn fill(
    owner: &Bound<'_, PyAny>,
    at: *const u8,
    len: usize,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    let at = at.cast::<c_void>().cast_mut();
    let len = ffi::Py_ssize_t::try_from(len).expect("memory is smaller than half of all addresses");
    // SAFETY: the caller's contract; the view takes a reference to the owner, and is read-only.
    let status = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), at, len, 1, flags) };
    if status == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}
