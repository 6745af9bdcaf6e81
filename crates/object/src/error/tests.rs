//! Errors of stores, as their readers see them.

use super::*;

fn generic(text: &str) -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: text.into() }
}

#[test]
fn a_page_of_a_server_is_cut_to_one_line() {
    let page = generic(&"<p>\n  sorry\n</p>".repeat(1000));
    let line = ObjectError::of("s3://b/k", Some(0..4096), &page).to_string();
    assert!(line.starts_with("s3://b/k: bytes 0 to 4096: <p> sorry"), "{line}");
    assert!(line.len() < 600 && !line.contains('\n'), "{line}");
}

/// A server's page could clear the screen, or set the title of the terminal.
#[test]
fn a_page_of_a_server_tells_the_terminal_nothing() {
    let page = generic("sorry \u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\0 gone");
    let line = ObjectError::of("s3://b/k", None, &page).to_string();
    assert_eq!(line, "s3://b/k: sorry ?[2J?]0;title??31m? gone");
}

/// The line ended with the URL, and did not say what had happened.
#[test]
fn the_cause_of_an_error_about_a_long_key_is_told() {
    let url = format!("http://127.0.0.1:9000/bucket/{}", "%C3%A4".repeat(1000));
    let text = format!("Error performing GET {url} in 1ms - status code: 503 Slow Down: x");
    let line = ObjectError::of("s3://b/k", Some(0..4096), &generic(&text)).to_string();
    assert!(line.contains("/bucket/%C3") && line.ends_with("503 Slow Down: x"), "{line}");
    assert!(line.len() < 300, "{line}");
}

/// The status is that of a request that makes no sense, and each page was asked for alone.
#[test]
fn credentials_that_have_expired_are_a_refusal_of_all_ranges() {
    let refused = |code: &str| {
        format!(
            "Error performing GET http://host/{} in 1ms - Server returned non-2xx status code: \
             400 Bad Request: <?xml version=\"1.0\"?><Error><Code>{code}</Code>",
            "x".repeat(500)
        )
    };
    let of = |error: &object_store::Error| ObjectError::of("s3://b/k", Some(0..4096), error);
    for code in ["ExpiredToken", "TokenRefreshRequired", "InvalidToken"] {
        let error = of(&generic(&refused(code)));
        assert!(error.is_of_all() && error.to_string().contains("set new credentials"), "{error}");
    }
    let error = of(&generic(&refused("InvalidRequest")));
    assert!(!error.is_of_all() && error.to_string().contains("bytes 0 to 4096"), "{error}");
    let source = refused("RequestTimeTooSkewed").replace("400 Bad Request", "403 Forbidden");
    let skewed = object_store::Error::PermissionDenied { path: "k".into(), source: source.into() };
    let error = of(&skewed).to_string();
    assert!(
        error.contains("set this machine's clock") && !error.contains("credentials"),
        "{error}"
    );
}

#[test]
fn a_server_that_ignores_ranges_is_named() {
    let error = generic("Received non-partial response when range requested");
    let line = ObjectError::of("s3://b/k", Some(0..4096), &error).to_string();
    assert!(line.contains("ignores Range"), "{line}");
}

/// It was "Input/output error" where the service's address has no route; and then it said that
/// none are set, also on a machine with a role whose service was too slow.
#[test]
fn a_client_that_finds_no_credentials_is_told_both_ways_to_have_some() {
    for (service, path) in [
        ("169.254.169.254", "latest/api/token"),
        ("metadata.google.internal", "computeMetadata/v1/instance"),
    ] {
        let text = format!(
            "Error performing PUT http://{service}/{path} in 1.1s, after 3 retries: HTTP \
             error: error sending request: operation timed out"
        );
        let found = ObjectError::of("s3://bucket/key", None, &generic(&text));
        let text = found.to_string();
        let start = "s3://bucket/key: not allowed: no credentials are set in the environment";
        assert!(text.starts_with(start), "{text}");
        for part in [
            format!("the metadata service at {service} provided none").as_str(),
            "set credentials (docs/guide/objects.md)",
            "if this machine has a role, check the service: Error performing PUT",
            "timed out",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(found.is_of_all(), "no page is asked for alone");
        assert_eq!(io::Error::from(found).kind(), io::ErrorKind::PermissionDenied);
    }
}
