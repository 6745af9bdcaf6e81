//! Answers to a request for a listing that are none, or not a whole one.
//!
//! In:    what servers, proxies and log-in pages send with status 200.
//! Out:   an error at each door.
//! Never: fewer names than there are, and success.

use std::sync::Arc;

use foreread_object::object_store::ObjectStore as _;
use foreread_object::{CachedStore, ObjectUrl};
use futures_util::TryStreamExt as _;

use super::bucket_server::BucketServer;
use super::odd_names::S3;
use super::{CLOUDS, engine};

const CUT: &str = "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key>\
    <LastModified>2026-11-24T10:00:00.000Z</LastModified><Size>1</Size></Contents>\
    </ListBucketResult>";

const AGAIN: &str = "<ListBucketResult><IsTruncated>true</IsTruncated>\
    <NextContinuationToken>t</NextContinuationToken><Contents><Key>a</Key>\
    <LastModified>2026-11-24T10:00:00.000Z</LastModified><Size>1</Size></Contents>\
    </ListBucketResult>";

const AZURE_AGAIN: &str = "<EnumerationResults><Blobs/><NextMarker>t</NextMarker>\
    </EnumerationResults>";

const OTHERS: [&str; 4] = [
    "<!DOCTYPE html><html><body>Log in</body></html>",
    "<?xml version=\"1.0\"?><Error><Code>InternalError</Code></Error>",
    "<ListBucketResult><Contents>",
    "",
];

/// A page that was cut, a page of a web site and an error with status 200 were listings with fewer
/// names or none, and a page that came again and again was read without end.
#[test]
fn an_incomplete_listing_is_an_error_in_every_api() {
    for cloud in CLOUDS.into_iter().chain([S3]) {
        let server = BucketServer::start();
        let stores = cloud.stores(&server);
        let url = cloud.url("");
        let parsed = ObjectUrl::parse(&url).unwrap();
        let cached = CachedStore::new(stores.client(&parsed).unwrap(), engine());
        let cached = Arc::new(cached);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let of_cloud = if cloud.scheme == "az" { vec![AZURE_AGAIN] } else { vec![CUT, AGAIN] };
        for text in OTHERS.into_iter().chain(of_cloud) {
            server.answer_listings_with(text);
            let what = format!("{}: {text}", cloud.scheme);
            for is_deep in [false, true] {
                let error = stores.list(&url, is_deep).expect_err(&what).to_string();
                assert!(error.contains(&url) && error.lines().count() == 1, "{error}");
            }
            let listed = runtime.block_on(cached.list_with_delimiter(None));
            assert!(listed.is_err(), "{what}: {listed:?}");
            let listed = runtime.block_on(cached.list(None).try_collect::<Vec<_>>());
            assert!(listed.is_err(), "{what}: {listed:?}");
        }
    }
}

/// Names of another prefix were left out, and the listing was empty.
#[test]
fn a_listing_of_something_else_is_an_error() {
    let object = |key: &str| {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2026-11-24T10:00:00.000Z</LastModified>\
             <Size>1</Size></Contents>"
        )
    };
    for names in [
        object("b/x"),
        object("a/x") + &object("b/x"),
        object("a%2Fx"),
        "<CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes>".to_owned(),
    ] {
        let server = BucketServer::start();
        server.answer_listings_with(&format!("<ListBucketResult>{names}</ListBucketResult>"));
        let error = S3.stores(&server).list("s3://bucket/a/", false).unwrap_err().to_string();
        assert!(error.contains("which is not below \"a/\""), "{names}: {error}");
    }
}

/// The whole page was an error.
#[test]
fn a_name_whose_date_is_none_is_listed() {
    let server = BucketServer::start();
    for date in ["", "<LastModified/>", "<LastModified>0001-01-01</LastModified>"] {
        let object = format!("<Contents><Key>a/x</Key>{date}<Size>1</Size></Contents>");
        server.answer_listings_with(&format!("<ListBucketResult>{object}</ListBucketResult>"));
        let listing = S3.stores(&server).list("s3://bucket/a/", false).unwrap();
        let names: Vec<_> = listing.names.iter().map(|listed| &*listed.name).collect();
        assert_eq!(names, ["x"], "{date}");
    }
    let azure = CLOUDS.into_iter().find(|cloud| cloud.scheme == "az").unwrap();
    for date in ["", "<Last-Modified>2026-11-24T10:00:00Z</Last-Modified>"] {
        let properties = format!(
            "<Properties>{date}<Content-Length>1</Content-Length>\
             <Content-Type>text/plain</Content-Type><Etag>a</Etag></Properties>"
        );
        let blob = format!("<Blobs><Blob><Name>a/x</Name>{properties}</Blob></Blobs>");
        let page = format!("<EnumerationResults>{blob}</EnumerationResults>");
        server.answer_listings_with(&page);
        let listing = azure.stores(&server).list("az://bucket/a/", false).unwrap();
        assert_eq!(listing.names.len(), 1, "{date}");
    }
}

/// Some servers repeat a key at the start of the next page.
#[test]
fn a_key_that_is_listed_twice_is_one_name() {
    let server = BucketServer::start();
    let object = "<Contents><Key>a</Key><LastModified>2026-11-24T10:00:00.000Z</LastModified>\
                  <Size>1</Size></Contents>";
    let prefix = "<CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes>";
    let twice = format!("{object}{object}{prefix}{prefix}");
    server.answer_listings_with(&format!("<ListBucketResult>{twice}</ListBucketResult>"));
    let listing = S3.stores(&server).list("s3://bucket/", false).unwrap();
    let names: Vec<_> = listing.names.iter().map(|listed| &*listed.name).collect();
    assert_eq!(names, ["a", "b/"]);
}
