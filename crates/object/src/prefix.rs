//! Lists the keys below a prefix page by page, up to a thousand names a page, and opens listed
//! objects without another request.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::StreamExt as _;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::{DELIMITER, Path};
use object_store::{Extensions, ListResult, ObjectMeta, ObjectStore};

use crate::error::ObjectError;
use crate::last_failure::LastFailure;
use crate::listing_filter::UnreadableKeys;
use crate::object::{CountedTraffic, Object, uncounted};
use crate::object_url::encoded;
use crate::options::StoreOptions;
use crate::retries::{Deadline, Retries, until_answered, until_opened};

/// All keys of a store with a common prefix.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let stores = foreread_object::Stores::new(foreread_object::StoreOptions::default());
/// let prefix = stores.prefix("s3://bucket/images/")?;
/// let page = prefix.page("old", false, None)?; // what is directly below images/old/
/// println!("{} names, more: {}", page.names.len(), page.next.is_some());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Prefix {
    store: Arc<dyn ObjectStore>,
    pages: Option<Arc<dyn PaginatedListStore>>,
    /// Names of the prefix and of its bucket in errors.
    url: String,
    device: String,
    /// Common start of all of its keys: empty, or ending with `/`.
    start: String,
    /// True if names below it are percent-encoded in URLs.
    is_encoded: bool,
    options: StoreOptions,
    counted: CountedTraffic,
}

/// A name below a prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListedName {
    /// Name relative to the prefix. Names of prefixes end with `/`.
    pub name: String,
    /// Attributes of an object; None for a prefix.
    pub meta: Option<ObjectMeta>,
}

/// A page of the names below a directory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PrefixPage {
    /// Names, in the order of the store.
    pub names: Vec<ListedName>,
    /// Names that no request can address, such as `a//b`.
    pub unreadable: Vec<String>,
    /// Token of the next page; None on the last page.
    pub next: Option<String>,
}

/// Attributes from a listing: enough to read that version of an object without another request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListedVersion {
    /// Length in bytes.
    pub size: u64,
    /// Time of the last modification.
    pub modified: SystemTime,
    /// `ETag`, as written in the listing.
    pub e_tag: Option<String>,
}

/// State shared by the prefixes of one bucket.
pub(crate) struct PrefixStore {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The store as a pager, if it supports paged listings.
    pub(crate) pages: Option<Arc<dyn PaginatedListStore>>,
    pub(crate) device: String,
    pub(crate) counted: CountedTraffic,
}

impl Prefix {
    /// Creates a prefix of any store, which lists each directory as one page. Errors name it by its
    /// `url`; its objects share one `device`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use foreread_object::object_store::{ObjectStoreExt as _, memory::InMemory, path::Path};
    /// use foreread_object::{Prefix, StoreOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let store = Arc::new(InMemory::new());
    /// runtime.block_on(store.put(&Path::from("data/greeting"), "hello".into()))?;
    /// let options = StoreOptions::default();
    /// let prefix = Prefix::new(store, &Path::from("data"), "memory:", "memory", options);
    /// assert_eq!(prefix.page("", false, None)?.names[0].name, "greeting");
    /// # Ok(()) }
    /// ```
    pub fn new(
        store: Arc<dyn ObjectStore>,
        location: &Path,
        url: &str,
        device: &str,
        options: StoreOptions,
    ) -> Self {
        let device = device.to_owned();
        let store = PrefixStore { store, pages: None, device, counted: uncounted(options) };
        Self::of(store, location, url, options)
    }

    pub(crate) fn of(
        store: PrefixStore,
        location: &Path,
        url: &str,
        options: StoreOptions,
    ) -> Self {
        let PrefixStore { store, pages, device, counted } = store;
        let start = directory_start("", location.as_ref());
        let is_encoded = false;
        Self { store, pages, url: url.to_owned(), device, start, is_encoded, options, counted }
    }

    /// Returns the prefix with percent-encoding of its names switched on or off.
    pub(crate) fn with_encoded_names(self, is_encoded: bool) -> Self {
        Self { is_encoded, ..self }
    }

    /// Returns a name as written in URLs.
    pub(crate) fn name_in_url(&self, name: String) -> String {
        if self.is_encoded { encoded(&name) } else { name }
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the name of the device that its objects share their speed with: the bucket, at its
    /// endpoint.
    #[must_use]
    pub fn device_name(&self) -> &str {
        &self.device
    }

    /// Lists one page of the names directly below a directory (`""`, `a`, `a/b`), or of all keys
    /// below it, by one request, and blocks until it arrives. Names are relative to the directory.
    ///
    /// # Errors
    ///
    /// If the store refuses, or does not answer within the deadline.
    pub fn page(
        &self,
        directory: &str,
        is_deep: bool,
        token: Option<String>,
    ) -> Result<PrefixPage, ObjectError> {
        let start = directory_start(&self.start, directory);
        let url = self.url_of(&directory_start("", directory));
        let (prefix, deadline) = (self.clone(), self.options.deadline);
        let (below, is_first) = (start.clone(), token.is_none());
        let owner = self.counted.1.owner;
        let failure = LastFailure::default();
        let noted = failure.clone();
        let listed = owner.wait(async move {
            let deadline = Deadline::of(&prefix.options);
            let list = || prefix.list(&below, is_deep, token.clone(), &noted);
            let options = &prefix.options;
            // The store has answered the earlier pages, so an outage is worth more retries.
            if is_first {
                deadline.bound(until_opened(options, &deadline, &noted, list)).await
            } else {
                let retries = Retries::new(options);
                deadline.bound(until_answered(&retries, &deadline, &noted, list)).await
            }
        });
        match listed.map_err(|error| ObjectError::of_process(&url, &error))? {
            Some(Ok((result, next))) => page_of(&result, next, &start)
                .map_err(|why| ObjectError::Failed { url, range: None, why }),
            Some(Err(error)) => Err(ObjectError::of(&url, None, &error)),
            None => {
                let last_failure = failure.text();
                Err(ObjectError::TimedOut { url, range: None, deadline, last_failure })
            }
        }
    }

    /// Opens a listed version of an object without a request.
    ///
    /// # Errors
    ///
    /// If the path cannot be a key, or the listed attributes identify no version.
    pub fn open(&self, path: &str, listed: &ListedVersion) -> Result<Object, ObjectError> {
        let key = format!("{}{path}", self.start);
        let url = self.url_of(path);
        let failed = |url: &str, why: String| {
            Err(ObjectError::Failed { url: url.to_owned(), range: None, why })
        };
        let location = match Path::parse(&key) {
            Ok(location) if location.as_ref() == key => location,
            Ok(_) => return failed(&url, "no request can express this key".to_owned()),
            Err(error) => return failed(&url, error.to_string()),
        };
        let meta = ObjectMeta {
            location,
            last_modified: listed.modified.into(),
            size: listed.size,
            e_tag: listed.e_tag.as_deref().map(quoted),
            version: None,
        };
        let store = Arc::clone(&self.store);
        let (name, counted) = ((url.clone(), self.device.clone()), self.counted.clone());
        match Object::new(store, meta, name, self.options, counted) {
            Some(object) => Ok(object),
            None => failed(
                &url,
                "the listing has neither ETag nor date to distinguish versions".to_owned(),
            ),
        }
    }

    /// Returns the URL of a path below the prefix.
    fn url_of(&self, path: &str) -> String {
        let slash = if path.is_empty() || self.url.ends_with('/') { "" } else { "/" };
        format!("{}{slash}{}", self.url, self.name_in_url(path.to_owned()))
    }

    async fn list(
        &self,
        start: &str,
        is_deep: bool,
        page_token: Option<String>,
        failure: &LastFailure,
    ) -> object_store::Result<(ListResult, Option<String>)> {
        if let Some(pages) = &self.pages {
            let delimiter = (!is_deep).then(|| DELIMITER.into());
            let extensions = failure.in_extensions(Extensions::new());
            let options =
                PaginatedListOptions { delimiter, page_token, extensions, ..Default::default() };
            let prefix = (!start.is_empty()).then_some(start);
            let page = pages.list_paginated(prefix, options).await?;
            // Some servers end the last page with an empty token.
            return Ok((page.result, page.page_token.filter(|token| !token.is_empty())));
        }
        let path = Path::parse(start)?;
        let prefix = (!start.is_empty()).then_some(&path);
        if !is_deep {
            return Ok((self.store.list_with_delimiter(prefix).await?, None));
        }
        let mut all = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
            extensions: Default::default(),
        };
        let mut objects = self.store.list(prefix);
        while let Some(meta) = objects.next().await {
            all.objects.push(meta?);
            if all.objects.len() > NAMES_MAX {
                break;
            }
        }
        Ok((all, None))
    }
}

/// Maximum number of names kept: a few hundred MB of memory, and a thousand requests.
pub(crate) const NAMES_MAX: usize = 1_000_000;

/// Returns the common start of the keys in a directory.
fn directory_start(start: &str, directory: &str) -> String {
    if directory.is_empty() { start.to_owned() } else { format!("{start}{directory}{DELIMITER}") }
}

/// Returns the names of a page below `start`.
///
/// # Errors
///
/// If a name is not below it: the server lists something else, and may not have listed all names.
fn page_of(result: &ListResult, next: Option<String>, start: &str) -> Result<PrefixPage, String> {
    let objects = result.objects.iter().map(|meta| &meta.location);
    let directory = start.strip_suffix(DELIMITER).unwrap_or(start);
    let is_other = |path: &&Path| !path.as_ref().starts_with(start) && path.as_ref() != directory;
    if let Some(other) = result.common_prefixes.iter().chain(objects).find(is_other) {
        return Err(format!("the server lists {:?}, which is not below {start:?}", other.as_ref()));
    }
    let unreadable = result.extensions.get::<UnreadableKeys>().cloned().unwrap_or_default().0;
    let name = |key: String| key.strip_prefix(start).map_or_else(|| key.clone(), str::to_owned);
    let unreadable = unreadable.into_iter().map(name).collect();
    // The key of the directory itself, which some programs create, has no name below it.
    let below = |path: &Path| {
        path.as_ref().strip_prefix(start).filter(|name| !name.is_empty()).map(str::to_owned)
    };
    let prefixes = result.common_prefixes.iter().filter_map(|path| {
        Some(ListedName { name: format!("{}{DELIMITER}", below(path)?), meta: None })
    });
    let objects = result.objects.iter().filter_map(|meta| {
        Some(ListedName { name: below(&meta.location)?, meta: Some(meta.clone()) })
    });
    Ok(PrefixPage { names: prefixes.chain(objects).collect(), unreadable, next })
}

/// Adds missing quotes to a tag: some servers omit them in listings but send them in responses.
fn quoted(tag: &str) -> String {
    if tag.ends_with('"') { tag.to_owned() } else { format!("\"{tag}\"") }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, start, options, .. } = self;
        let mut debug = f.debug_struct("Prefix");
        debug.field("url", url).field("start", start).field("options", options);
        debug.finish_non_exhaustive()
    }
}
