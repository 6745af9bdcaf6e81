//! A caller's writable buffer: any object that exports writable contiguous memory, such as a
//! bytearray, memoryview or NumPy array. The export prevents its owner from freeing or resizing it.

use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// A buffer exported by its owner for writing.
pub(crate) struct WritableBuffer(PyUntypedBuffer);

impl WritableBuffer {
    /// Borrows the memory of an object.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        // A memoryview fills in the strides that some objects, such as those of ctypes, omit.
        let of_view = || PyUntypedBuffer::get(PyMemoryView::from(object)?.as_any());
        let buffer = PyUntypedBuffer::get(object).or_else(|_| of_view()).map_err(|_| {
            let name = object.get_type().name();
            let name = name.map_or_else(|_| "this".into(), |name| name.to_string());
            PyTypeError::new_err(format!("a writable bytes-like object is required, not {name}"))
        })?;
        if buffer.readonly() {
            return Err(PyTypeError::new_err("the buffer is read-only: give a writable one"));
        }
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not contiguous: give one that is"));
        }
        Ok(Self(buffer))
    }

    /// Returns its bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let (at, len) = (self.0.buf_ptr().cast::<u8>(), self.0.len_bytes());
        if len == 0 {
            return &mut [];
        }
        // SAFETY: the owner exports `len` contiguous writable bytes from `at` until the buffer is
        // released, which the borrow of `self` does not outlive. A thread that reads them
        // concurrently sees a mix of old and new bytes, as with `readinto` of any Python file.
        unsafe { slice::from_raw_parts_mut(at, len) }
    }
}
