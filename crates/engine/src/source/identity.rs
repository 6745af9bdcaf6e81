//! The identity of a source: its name and the version of its contents. Two are equal only if both
//! strings are.

/// Identifies the contents of a source by name and version.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct SourceIdentity {
    name: String,
    version: String,
}

impl SourceIdentity {
    /// Creates the identity of a version of the named contents, for example URL and `ETag`.
    ///
    /// ```
    /// use foreread::SourceIdentity;
    ///
    /// let before = SourceIdentity::new("http://store/table", "\"5d41\"");
    /// let after = SourceIdentity::new("http://store/table", "\"7d79\"");
    /// assert_ne!(before, after);
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into() }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}
