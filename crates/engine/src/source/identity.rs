//! The identity of a source: its name, and the version of what it contains.
//!
//! In:    two strings.
//! Out:   the same; equal only if both are.
//! Never: a guess whether two names are the same thing.

/// Which contents a source has: its name and their version.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct SourceIdentity {
    name: String,
    version: String,
}

impl SourceIdentity {
    /// Returns the identity of this version of what has this name, for example URL and `ETag`.
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
