//! The names below a prefix.
//!
//! In:    a store, a prefix.
//! Out:   objects with their attributes, and prefixes, sorted.
//! Never: more names than [`NAMES_MAX`]: a caller would wait for minutes, and take memory for all.

use std::sync::Arc;

use futures_util::StreamExt as _;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::error::ObjectError;
use crate::object_url::ObjectUrl;
use crate::options::StoreOptions;
use crate::runtime::wait;

/// What is below a prefix.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listing {
    /// The names, sorted by their bytes.
    pub names: Vec<ListedName>,
    /// Whether there are more, which were not listed.
    pub is_cut: bool,
}

/// A name below a prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListedName {
    /// The name, from the prefix on. That of a prefix ends with `/`.
    pub name: String,
    /// The attributes of an object; None for a prefix.
    pub meta: Option<ObjectMeta>,
}

/// Lists directly below a prefix, or everything.
pub(crate) fn list(
    store: Arc<dyn ObjectStore>,
    url: &ObjectUrl,
    is_deep: bool,
    options: StoreOptions,
) -> Result<Listing, ObjectError> {
    let (text, location) = (url.to_string(), url.location.clone());
    let deadline = options.deadline;
    let listed = wait(async move {
        let prefix = (!location.as_ref().is_empty()).then_some(&location);
        let names = async {
            if is_deep { all_below(&store, prefix).await } else { directly(&store, prefix).await }
        };
        tokio::time::timeout(deadline, names).await
    });
    match listed.map_err(|error| ObjectError::of_process(&text, &error))? {
        Ok(Ok(mut listing)) => {
            listing.names.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(listing)
        }
        Ok(Err(error)) => Err(ObjectError::of(&text, None, &error)),
        Err(_) => Err(ObjectError::TimedOut { url: text, range: None, deadline }),
    }
}

async fn directly(
    store: &Arc<dyn ObjectStore>,
    prefix: Option<&Path>,
) -> object_store::Result<Listing> {
    let result = store.list_with_delimiter(prefix).await?;
    let start = prefix_len(prefix);
    let prefixes = result
        .common_prefixes
        .into_iter()
        .map(|path| ListedName { name: format!("{}/", below(path.as_ref(), start)), meta: None });
    let objects = result.objects.into_iter().map(|meta| named(meta, start));
    Ok(Listing { names: prefixes.chain(objects).collect(), is_cut: false })
}

async fn all_below(
    store: &Arc<dyn ObjectStore>,
    prefix: Option<&Path>,
) -> object_store::Result<Listing> {
    let start = prefix_len(prefix);
    let mut listing = Listing::default();
    let mut objects = store.list(prefix);
    while let Some(meta) = objects.next().await {
        if listing.names.len() == NAMES_MAX {
            listing.is_cut = true;
            break;
        }
        listing.names.push(named(meta?, start));
    }
    Ok(listing)
}

/// With the `/` behind it.
fn prefix_len(prefix: Option<&Path>) -> usize {
    prefix.map_or(0, |prefix| prefix.as_ref().len() + 1)
}

fn below(key: &str, start: usize) -> &str {
    key.get(start..).unwrap_or(key)
}

fn named(meta: ObjectMeta, start: usize) -> ListedName {
    ListedName { name: below(meta.location.as_ref(), start).to_owned(), meta: Some(meta) }
}

/// A few hundred MB of memory, and a thousand requests.
const NAMES_MAX: usize = 1_000_000;
