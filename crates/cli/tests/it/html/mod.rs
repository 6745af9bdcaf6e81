//! The pages of `--html`, in a real browser.
//!
//! KEEP_PAGES=DIR keeps pages and pictures, to be looked at.

pub(crate) mod chromium;
use crate::common;
mod others;
mod replay;
use crate::said;

use std::fs;
use std::path::{Path, PathBuf};

use chromium::{View, picture};
use common::{Need, needs};
use tempfile::TempDir;

/// A folder for pages.
fn folder() -> (Option<TempDir>, PathBuf) {
    match std::env::var_os("KEEP_PAGES") {
        Some(folder) => (None, folder.into()),
        None => {
            let folder = TempDir::new().unwrap();
            let path = folder.path().to_owned();
            (Some(folder), path)
        }
    }
}

/// What holds for every page: it is small, needs nothing else, and has text for what it shows.
fn check(page: &Path) -> String {
    let html = fs::read_to_string(page).unwrap();
    assert!(html.len() < 1_000_000, "{}: {} bytes", page.display(), html.len());
    for part in ["http:", "https:", "src=", "href=", "<script", "@import", "url("] {
        assert!(!html.contains(part), "{}: {part}", page.display());
    }
    assert_eq!(html.matches("<svg").count(), html.matches("role=\"img\" aria-label=\"").count());
    assert_eq!(html.matches("<figure>").count(), html.matches("<details>").count());
    assert!(html.contains("<h1>") && html.ends_with("</html>\n"));
    html
}

/// Opens it wide and light, and narrow and dark.
fn look_at(page: &Path, test: &str) {
    for view in [View { width: 1200, is_dark: false }, View { width: 400, is_dark: true }] {
        if needs(Need::Tool("chromium"), test) {
            picture(page, view);
        }
    }
}

/// Opens it once: the colours and the layout are those of all pages.
fn look_once(page: &Path, test: &str) {
    if needs(Need::Tool("chromium"), test) {
        picture(page, View { width: 1200, is_dark: false });
    }
}
