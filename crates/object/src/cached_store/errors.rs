//! Converts read errors of the engine into errors of an object store.

/// Converts the error of a read.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn failed(error: foreread::ReadError) -> object_store::Error {
    generic(error.to_string())
}

/// Creates an error without a variant of its own.
pub(super) fn generic(why: String) -> object_store::Error {
    object_store::Error::Generic { store: "CachedStore", source: why.into() }
}
