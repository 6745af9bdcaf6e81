//! `foreread doctor URL`.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::common::Command;
use crate::faulty_server::{Fault, FaultyServer};
use crate::images::pattern;
use crate::objects::weed::weed;
use crate::said;
use crate::schema::fits;

fn json(command: &mut Command) -> (Output, Value) {
    let output = command.output().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/doctor.schema.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    fits(&schema, &schema, &value, "doctor");
    (output, value)
}

fn checks(value: &Value) -> Vec<&str> {
    let findings = value["data"].as_array().unwrap().iter();
    findings.map(|finding| finding["check"].as_str().unwrap()).collect()
}

#[test]
fn doctor_of_a_real_store_says_what_it_is_like() {
    let Some(weed) = weed("doctor_of_a_real_store_says_what_it_is_like") else { return };
    let url = weed.put("doctor.bin", &pattern(1 << 20));
    let (output, value) = json(&mut weed.foreread(&["doctor", &url, "--json"]));
    let store = &value["stores"][0];
    assert_eq!((&store["size"], &store["ranges"]), (&(1 << 20).into(), &"honoured".into()));
    assert!(store["first_byte_ms"]["median"].as_f64().unwrap() > 0.0, "{store}");
    assert!(store["clock_ahead_s"]["min"].as_f64().unwrap() < 60.0, "{store}");
    assert_eq!(store["error"], Value::Null);
    assert_eq!(output.status.code(), Some(i32::from(!checks(&value).is_empty())), "{value}");
    let text = weed.foreread(&["doctor", &url]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    for part in [&*url, "  first byte   ", "  ranges       honoured", "1048576 bytes, ETag \""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (output, value) = json(&mut weed.foreread(&["doctor", "s3://tests/no-such", "--json"]));
    assert_eq!((output.status.code(), checks(&value)), (Some(1), vec!["store-unreachable"]));
    assert_eq!(value["data"][0]["mend"][0], "foreread ls s3://tests/");
}

#[test]
fn doctor_finds_what_a_server_does_wrong() {
    let server = FaultyServer::start(1 << 20);
    for (fault, check, evidence) in [
        (Fault::IgnoreRange, "store-ranges", "status 200"),
        (Fault::OtherRange, "store-ranges", "Content-Range is"),
        (Fault::OtherVersion, "store-ranges", "the ETag of a range"),
        (Fault::Status(503), "store-unreachable", "503"),
    ] {
        if fault == Fault::OtherVersion {
            // The first response is of the object; then another server of the name answers.
            server.next([Fault::None]);
        }
        server.always(fault);
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
        let (output, value) = json(command.args(["doctor", &server.url(), "--json"]));
        assert_eq!(output.status.code(), Some(1), "{fault:?}");
        let found = value["data"].as_array().unwrap().iter();
        let found = found.filter(|finding| finding["check"] == check).collect::<Vec<_>>();
        assert_eq!(found.len(), 1, "{fault:?}: {value}");
        assert!(found[0]["evidence"].to_string().contains(evidence), "{fault:?}: {value}");
    }
    server.always(Fault::None);
    // A GET decides.
    server.head(405);
    let gets = server.gets();
    let output = said::foreread(&["doctor", &server.url(), "--check"]);
    // Its date is that of a test: it states none of its own clock.
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(server.gets() - gets <= 9, "few requests");
}

/// It counted its requests and left the prices out.
#[test]
fn doctor_says_what_it_has_cost_if_the_environment_has_a_price() {
    let server = FaultyServer::start(1 << 20);
    let run = |price: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
        command.args(["doctor", &server.url(), "--check"]);
        command.env("FOREREAD_PRICE_PER_1000_REQUESTS", price).output().unwrap()
    };
    let line = String::from_utf8(run("1000").stderr).unwrap();
    let requests = server.gets();
    let said = format!("foreread: the store was sent {requests} requests (");
    assert!(line.starts_with(&said) && line.lines().count() == 1, "{line}");
    assert!(line.ends_with(&format!("which costs {requests}.000\n")), "{line}");
    let wrong = run("free");
    assert_eq!((wrong.status.code(), server.gets()), (Some(2), requests), "{wrong:?}");
    let line = String::from_utf8(wrong.stderr).unwrap();
    assert!(line.contains("FOREREAD_PRICE_PER_1000_REQUESTS: write a price"), "{line}");
}

#[test]
fn doctor_takes_stores_or_devices() {
    for args in [
        &["doctor", "s3://b/k", "/"][..],
        &["doctor", "s3://b/k", "--stacks"],
        &["doctor", "s3://b/"],
        &["doctor", "ftp://host/k"],
    ] {
        let line = said::refused(args);
        assert!(line.starts_with("foreread: "), "{line}");
    }
}
