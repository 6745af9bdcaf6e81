//! A page in a real browser.
//!
//! In:    a page, a width, light or dark.
//! Out:   its picture; a panic where the console has a message or the picture is empty.
//! Never: a network: the browser is told to resolve no name.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::common::Command;

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) width: u32,
    pub(crate) is_dark: bool,
}

/// Opens a page, checks its console, and returns the picture.
pub(crate) fn picture(page: &Path, view: View) -> PathBuf {
    let View { width, is_dark } = view;
    let shade = if is_dark { "dark" } else { "light" };
    let folder = page.parent().expect("a page lies in a folder");
    let name = page.file_stem().unwrap().to_str().unwrap();
    let png = folder.join(format!("{name}-{width}-{shade}.png"));
    let profile = tempfile::tempdir().unwrap();
    let scheme = u8::from(!is_dark);
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--hide-scrollbars", "--enable-logging=stderr", "--v=0"])
        .args(["--disable-background-networking", "--disable-component-update"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--window-size={width},2400"))
        .arg(format!("--screenshot={}", png.display()))
        .arg(format!("file://{}", page.display()))
        .env("HOME", profile.path())
        .output()
        .expect("chromium starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && png.exists(), "{}: {said}", page.display());
    let complaints: Vec<_> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{}: {complaints:?}", page.display());
    let bytes = pixels(&fs::read(&png).unwrap());
    let mut seen = [false; 256];
    bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    let different = seen.iter().filter(|seen| **seen).count();
    // Of one colour, all rows are alike; edges of letters have many shades.
    assert!(different > 64, "{}: a picture of {different} values", png.display());
    png
}

/// The filtered scan lines of a PNG.
fn pixels(png: &[u8]) -> Vec<u8> {
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    let mut data = Vec::new();
    let mut rest = &png[8..];
    while rest.len() >= 12 {
        let len = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        if &rest[4..8] == b"IDAT" {
            data.extend_from_slice(&rest[8..8 + len]);
        }
        rest = &rest[12 + len..];
    }
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(&data[..]).read_to_end(&mut bytes).unwrap();
    bytes
}
