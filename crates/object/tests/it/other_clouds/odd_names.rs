//! Names that programs give to objects and other programs stumble over.
//!
//! In:    keys of odd parts, drawn from a seed.
//! Out:   for each: it is listed, and what is listed is opened and has its own bytes; or both say
//!        that no request can name it.
//! Never: the bytes of another key.

use std::collections::{BTreeMap, BTreeSet};

use foreread_object::{ListedVersion, ObjectError, ObjectUrl, Stores};

use super::bucket_server::{BUCKET, BucketServer};
use super::{CLOUDS, Cloud};

pub(super) const S3: Cloud = Cloud {
    scheme: "s3",
    endpoint: "aws_endpoint_url",
    settings: &[
        ("aws_access_key_id", "lab"),
        ("aws_secret_access_key", "lab"),
        ("aws_region", "us-east-1"),
    ],
    authorization: "AWS4-HMAC-SHA256",
};

const PARTS: [&str; 54] = [
    "a",
    "b",
    "Z",
    "0",
    "part",
    "%",
    "%%",
    "%20",
    "%2F",
    "%2f",
    "%41",
    "%00",
    "%ff",
    "100%",
    " ",
    "  ",
    "?",
    "??",
    "#",
    "+",
    "&",
    "&amp;",
    "&#32;",
    "=",
    "ts=2024-01-01 00:00",
    ":",
    ";",
    ",",
    "@",
    "!",
    "$",
    "'",
    "\"",
    "`",
    "(",
    ")",
    "[x]",
    "{1..2}",
    "<",
    ">",
    "]]>",
    "<![CDATA[",
    "|",
    "\\",
    "^",
    "~",
    "*",
    "\u{e4}",
    "a\u{308}",
    "\u{1f600}",
    "\u{a0}",
    "\u{3000}",
    "\u{2028}",
    ".",
];

/// Those that `object_store` cannot name, or that end a segment.
const RARE: [&str; 9] = ["/", "//", "/./", "/../", "\t", "\n", "\u{1}", "\u{7f}", "../"];

/// A linear congruential generator: numbers that look random and come again.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % end as u64).unwrap()
    }

    fn key(&mut self) -> String {
        let mut key = String::new();
        for _ in 0..=self.below(4) {
            let part = match self.below(20) {
                0 => RARE[self.below(RARE.len())],
                1 | 2 => "/",
                _ => PARTS[self.below(PARTS.len())],
            };
            key += part;
        }
        key
    }
}

/// A thousand keys, those of programs that are known among them.
fn keys(seed: u64) -> BTreeSet<String> {
    let known = [
        "a b",
        "a%20b",
        "a+b",
        "ts=2024-01-01 00%3A00/part",
        "what?",
        "v1#2",
        "100%",
        " a",
        "a ",
        "a//b",
        "/a",
        "a/",
        "a/./b",
        "a/../b",
        "a\nb",
        "%2e%2e/a",
        "...",
        "\u{fffd}",
        "a/%2F/b",
    ];
    let mut keys: BTreeSet<_> = known.into_iter().map(str::to_owned).collect();
    keys.insert("long ".repeat(204));
    let mut drawn = Drawn(seed);
    while keys.len() < 1000 {
        keys.insert(drawn.key());
    }
    keys
}

/// Whether a path of `object_store` is the key, by its documentation.
fn is_path(key: &str) -> bool {
    let is_segment = |part: &str| !matches!(part, "" | "." | "..");
    key.split('/').all(is_segment) && !key.contains(|letter: char| letter.is_ascii_control())
}

fn contents(key: &str) -> Vec<u8> {
    format!("the object {key:?}").into_bytes()
}

/// Reads the object of a URL.
fn read(stores: &Stores, url: &str) -> Result<Vec<u8>, ObjectError> {
    let object = stores.open(url)?;
    let mut bytes = vec![0; usize::try_from(object.meta().size).unwrap()];
    object.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// `s3://b/a%20b` read the object `a b`, names with `?` and `#` that a listing had could not be
/// opened, and names that begin or end with spaces were not listed.
#[test]
fn a_thousand_odd_names_are_listed_and_opened_as_they_are() {
    let seed = 36;
    let keys = keys(seed);
    for cloud in CLOUDS.into_iter().chain([S3]) {
        let server = BucketServer::start();
        for key in &keys {
            server.put(&format!("{PREFIX}{key}"), &contents(key));
        }
        server.pages_of(100);
        let (stores, url) = (cloud.stores(&server), cloud.url(PREFIX));
        let listing = stores.list(&url, true).unwrap();
        let names: BTreeMap<_, _> =
            listing.names.iter().map(|it| (&*it.name, it.meta.clone())).collect();
        assert_eq!(names.len(), listing.names.len(), "each once");
        let prefix = stores.prefix(&url).unwrap();
        for key in &keys {
            let what = format!("{}, {key:?}, seed {seed}", cloud.scheme);
            let is_listed = names.contains_key(&**key);
            let came = read(&stores, &format!("{url}{key}"));
            if is_path(key) {
                assert!(is_listed && came.unwrap() == contents(key), "{what}");
                let meta = names[&**key].clone().unwrap();
                let modified = meta.last_modified.into();
                let listed = ListedVersion { size: meta.size, modified, e_tag: meta.e_tag };
                let object = prefix.open(key, &listed).unwrap();
                let mut bytes = vec![0; contents(key).len()];
                object.read_exact_at(&mut bytes, 0).unwrap();
                assert!(bytes == contents(key), "{what}");
            } else {
                assert!(!is_listed && listing.unreadable.contains(key), "{what}: {came:?}");
                assert!(matches!(came, Err(ObjectError::Url { .. })), "{what}: {came:?}");
            }
        }
        let listed = listing.names.len() + listing.unreadable.len();
        assert_eq!(listed, keys.len(), "{}", cloud.scheme);
    }
}

/// The path of a web server's URL is decoded once, so that each key has one.
#[test]
fn odd_names_of_a_web_server_are_read_by_their_encoded_urls() {
    let server = BucketServer::start();
    let stores = Stores::new(foreread_object::StoreOptions::default());
    let keys = keys(37);
    for key in keys.iter().filter(|key| is_path(key)) {
        server.put(key, &contents(key));
    }
    for key in keys.iter().filter(|key| is_path(key)).step_by(3) {
        let letter = |byte: u8| match byte {
            b'/' => "/".to_owned(),
            _ => format!("%{byte:02X}"),
        };
        let path: String = key.bytes().map(letter).collect();
        let url = format!("{}/{BUCKET}/{path}", server.endpoint());
        assert_eq!(ObjectUrl::parse(&url).unwrap().key(), format!("{BUCKET}/{key}"));
        assert!(read(&stores, &url).unwrap() == contents(key), "{url}");
    }
}

/// An odd name, too.
const PREFIX: &str = " 100% sure?#+/";
