//! A caller's buffer that bytes are read into.
//!
//! In:    any object that lends writable contiguous memory: bytearray, memoryview, NumPy array.
//! Out:   its bytes as a slice.
//! Never: a buffer that is freed or resized meanwhile: it is lent until this is dropped.

use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// A buffer that its owner lends for writing.
pub(crate) struct WritableBuffer(PyUntypedBuffer);

impl WritableBuffer {
    /// Borrows the memory of an object.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        // A memoryview states the strides that some objects, as those of ctypes, leave out.
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
        // SAFETY: the owner has lent `len` contiguous writable bytes from `at` on, until the buffer
        // is released, which the borrow of `self` outlives not. A thread that looks at them
        // meanwhile sees old and new bytes mixed, as with `readinto` of any file of Python's.
        unsafe { slice::from_raw_parts_mut(at, len) }
    }
}
