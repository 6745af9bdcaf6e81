//! The version of an object found at opening: builds conditions for its requests, and checks that
//! each response is of the same version. An object without `ETag` and date cannot be pinned.

use object_store::{GetOptions, GetResult, ObjectMeta};

use crate::response_head::StatesDate;

/// The version of an open object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PinnedVersion {
    e_tag: Option<String>,
    /// Version identifier of a store that keeps several versions.
    version: Option<String>,
    /// Seconds since 1970; None if the server sent no date.
    modified: Option<i64>,
    pub(crate) size: u64,
}

impl PinnedVersion {
    /// Returns the version of these attributes; None if they identify no version.
    pub(crate) fn of(meta: &ObjectMeta) -> Option<Self> {
        Self::of_dated(meta, None)
    }

    /// Returns the version, given whether the server sent a date.
    pub(crate) fn of_dated(meta: &ObjectMeta, states_date: Option<StatesDate>) -> Option<Self> {
        let pinned = Self::new(meta, states_date);
        (pinned.e_tag.is_some() || pinned.modified.is_some()).then_some(pinned)
    }

    fn new(meta: &ObjectMeta, states_date: Option<StatesDate>) -> Self {
        let seconds = meta.last_modified.timestamp();
        // Clients substitute the first second of 1970 for a missing date.
        let StatesDate(is_dated) = states_date.unwrap_or(StatesDate(seconds != 0));
        Self {
            e_tag: meta.e_tag.clone(),
            version: meta.version.clone(),
            modified: is_dated.then_some(seconds),
            size: meta.size,
        }
    }

    /// Returns an error if a response is of another version, also by the date that it states.
    pub(crate) fn check_response(&self, response: &GetResult) -> Result<(), String> {
        let states_date = response.extensions.get::<StatesDate>().copied();
        self.check_version(&Self::new(&response.meta, states_date))
    }

    /// Returns the conditions that make a request fail for another version.
    pub(crate) fn conditions(&self, meta: &ObjectMeta) -> GetOptions {
        let mut options = GetOptions::default();
        match &self.e_tag {
            // By the standard a weak tag never matches; the response is compared instead.
            Some(tag) if !tag.starts_with("W/") => options.if_match = Some(tag.clone()),
            _ if self.modified.is_some() => options.if_unmodified_since = Some(meta.last_modified),
            _ => {}
        }
        options
    }

    /// Compares with the attributes of a response, because some servers ignore conditions. The
    /// error names the difference.
    #[cfg(test)]
    pub(crate) fn check(&self, response: &ObjectMeta) -> Result<(), String> {
        self.check_version(&Self::new(response, None))
    }

    fn check_version(&self, is: &Self) -> Result<(), String> {
        let differs = |what: &str, was: &dyn std::fmt::Debug, is: &dyn std::fmt::Debug| {
            Err(format!("its {what} was {was:?} and is {is:?}"))
        };
        if let (Some(was), Some(is)) = (&self.e_tag, &is.e_tag)
            && opaque(was) != opaque(is)
        {
            return differs("ETag", was, is);
        }
        if let (Some(was), Some(is)) = (&self.version, &is.version)
            && was != is
        {
            return differs("version", was, is);
        }
        if self.size != is.size {
            return differs("length", &self.size, &is.size);
        }
        let is_same_tag = self.e_tag.is_some() && is.e_tag.is_some();
        // Two versions that a server considers equivalent may share a weak tag.
        let is_weak = |tag: &Option<String>| tag.as_ref().is_some_and(|tag| tag.starts_with("W/"));
        if is_same_tag && !is_weak(&self.e_tag) && !is_weak(&is.e_tag) {
            return Ok(());
        }
        if let (Some(was), Some(is)) = (self.modified, is.modified) {
            let same = was == is;
            return if same { Ok(()) } else { differs("time of modification", &was, &is) };
        }
        if is_same_tag {
            return Ok(());
        }
        Err("the response has neither ETag nor Last-Modified".to_owned())
    }

    /// Formats the version for the identity of a source.
    pub(crate) fn text(&self) -> String {
        let Self { e_tag, version, modified, size } = self;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{} {} {} {size}", part(e_tag), part(version), modified.unwrap_or_default())
    }
}

/// Returns a tag without quotes and the mark of a weak one. Apache marks the tag of a file as weak
/// during the second in which it was written, and servers that compress mark all their tags.
fn opaque(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::*;

    fn meta(tag: Option<&str>, seconds: i64, size: u64) -> ObjectMeta {
        // The date's own crate is not needed for anything else.
        let start: std::time::SystemTime = std::time::UNIX_EPOCH;
        ObjectMeta {
            location: Path::from("key"),
            last_modified: (start + std::time::Duration::from_secs(seconds.unsigned_abs())).into(),
            size,
            e_tag: tag.map(str::to_owned),
            version: None,
        }
    }

    #[test]
    fn another_tag_length_or_date_is_another_version() {
        let pinned = PinnedVersion::of(&meta(Some("a"), 5, 10)).unwrap();
        assert_eq!(pinned.check(&meta(Some("a"), 6, 10)), Ok(()), "the tag alone decides");
        assert!(pinned.check(&meta(Some("b"), 5, 10)).unwrap_err().contains("ETag"));
        assert!(pinned.check(&meta(Some("a"), 5, 11)).unwrap_err().contains("length"));
        assert_eq!(pinned.check(&meta(None, 5, 10)), Ok(()), "no tag, but the same date");
        assert!(pinned.check(&meta(None, 6, 10)).unwrap_err().contains("modification"));
        assert!(pinned.check(&meta(None, 0, 10)).unwrap_err().contains("neither"));
    }

    #[test]
    fn a_weak_tag_alone_does_not_tell_that_the_bytes_are_the_same() {
        let pinned = PinnedVersion::of(&meta(Some("W/\"a\""), 5, 10)).unwrap();
        assert_eq!(pinned.check(&meta(Some("W/\"a\""), 5, 10)), Ok(()));
        let other = pinned.check(&meta(Some("W/\"a\""), 6, 10)).unwrap_err();
        assert!(other.contains("modification"), "{other}");
        assert_eq!(pinned.check(&meta(Some("W/\"a\""), 0, 10)), Ok(()), "no date to compare");
    }

    /// The same file was said to have changed.
    #[test]
    fn a_tag_that_becomes_strong_or_weak_is_compared_with_the_date() {
        for (was, is) in [("W/\"a\"", "\"a\""), ("\"a\"", "W/\"a\"")] {
            let pinned = PinnedVersion::of(&meta(Some(was), 5, 10)).unwrap();
            assert_eq!(pinned.check(&meta(Some(is), 5, 10)), Ok(()), "{was} {is}");
            assert!(pinned.check(&meta(Some(is), 6, 10)).is_err(), "{was} {is}");
            assert!(pinned.check(&meta(Some("\"b\""), 5, 10)).is_err(), "{was} {is}");
        }
    }

    #[test]
    fn a_version_without_tag_and_date_cannot_be_pinned() {
        assert_eq!(PinnedVersion::of(&meta(None, 0, 10)), None);
        assert!(PinnedVersion::of(&meta(None, 5, 10)).is_some());
    }

    #[test]
    fn a_weak_tag_is_compared_and_not_sent() {
        let weak = meta(Some("W/\"a\""), 5, 10);
        let conditions = PinnedVersion::of(&weak).unwrap().conditions(&weak);
        assert_eq!(conditions.if_match, None);
        assert_eq!(conditions.if_unmodified_since, Some(weak.last_modified));
        let strong = meta(Some("\"a\""), 5, 10);
        let conditions = PinnedVersion::of(&strong).unwrap().conditions(&strong);
        assert_eq!(conditions.if_match.as_deref(), Some("\"a\""));
    }
}
