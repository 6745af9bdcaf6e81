//! What a server tells while it runs, and what can be changed: `stats`, `set`, metrics.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Output;

use serde_json::Value;

use crate::scrape::{Samples, scrape};
use crate::serve::server::{Place, Server};

/// What a verb prints that must succeed without a word on stderr.
#[track_caller]
fn said(output: Output) -> String {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What a verb says that is refused.
#[track_caller]
fn refused(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

fn scraped(server: &Server) -> Samples {
    let addr = server.ready.split_once("metrics at http://").expect("an address").1;
    let addr: SocketAddr = addr.split_once('/').unwrap().0.parse().unwrap();
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    scrape(page)
}

/// The same work is seen by the table, the JSON and the metrics.
#[test]
fn what_was_done_is_counted() {
    let place = Place::new();
    let file = place.file("disk", 8 << 20);
    let server = place.serve(&file, &["--memory", "16M", "--metrics", "0", "--dirty-age", "3600s"]);
    let mut client = server.session();
    let page = vec![0; 4096];
    for index in 0..256 {
        client.read(index * 4096, 4096).unwrap();
    }
    for index in [3, 4, 9] {
        client.write(index * 4096, &page, false).unwrap();
    }
    assert!(client.read(1 << 40, 4096).is_err());

    let stats = server.stats();
    let count = |path: &str| stats.pointer(path).and_then(Value::as_u64).expect(path);
    assert_eq!(count("/clients/requests/read"), 256, "wrong ones are no reads");
    assert_eq!(count("/clients/requests/write"), 3);
    assert_eq!(count("/clients/errors"), 1);
    assert_eq!(count("/clients/read_bytes"), 1 << 20);
    assert_eq!(count("/clients/written_bytes"), 3 * 4096);
    assert_eq!(count("/memory/dirty_bytes"), 3 * 4096);
    assert_eq!(count("/memory/bound_bytes"), 16 << 20);
    assert_eq!(count("/device/write/requests"), 0);
    let hits = count("/reads/hit");
    // A read that met a marker has work for the driver, and may not be counted as a hit.
    let with_markers = hits + count("/reads/waited") + count("/ahead/markers");
    assert!(hits >= 200 && with_markers >= 256, "{stats}");
    let asked = count("/device/read/bytes");
    assert!((1 << 20..4 << 20).contains(&asked), "{asked}");
    let windows = stats["ahead"]["windows"].as_array().unwrap();
    let counted: u64 = windows.iter().map(|window| window["count"].as_u64().unwrap()).sum();
    assert!((2..200).contains(&counted), "{stats}");
    assert!(count("/ahead/window_pages") * 4096 >= 1 << 20);

    client.flush().unwrap();
    let stats = server.stats();
    let count = |path: &str| stats.pointer(path).and_then(Value::as_u64).expect(path);
    assert_eq!(count("/memory/dirty_bytes"), 0);
    assert_eq!(count("/device/write/bytes"), 3 * 4096);
    assert_eq!(count("/device/write/requests"), 2, "two of the three are neighbours");
    assert_eq!(count("/clients/requests/flush"), 1);

    let samples = scraped(&server);
    for (name, value) in [
        ("foreread_client_requests_total{kind=\"read\"}", 256.0),
        ("foreread_client_bytes_total{direction=\"write\"}", 3.0 * 4096.0),
        ("foreread_device_requests_total{direction=\"write\"}", 2.0),
        ("foreread_dirty_bytes", 0.0),
    ] {
        assert!((samples[name] - value).abs() < 0.5, "{name}: {}", samples[name]);
    }
    let table = said(server.asked("stats", &[]));
    for part in ["disk (8M)", "requests", "read 256", "write 3", "flush 1", "errors 1", "writes"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(table.lines().all(|line| line.len() <= 110), "{table}");
    server.stop();
}

#[test]
fn every_tunable_is_listed_explained_and_can_be_set_to_what_it_is() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &["--set", "read_expire=123"]);
    let list = crate::said::data(said(server.asked("set", &["--json"])).as_bytes());
    let text = said(server.asked("set", &[]));
    assert_eq!(text.lines().count(), list.len());
    for one in &list {
        let (name, value) = (one["name"].as_str().unwrap(), one["value"].as_str().unwrap());
        let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).expect(name);
        // A name, what is in force, and what it is.
        assert!(line.split_whitespace().count() > 3, "{line}");
        let same = format!("{name}={value}");
        let after = said(server.asked("set", &[&same]));
        assert!(after.starts_with(name) && after.contains(value), "{same}: {after}");
    }
    for name in [
        "dirty_limit",
        "dirty_age",
        "max_window",
        "policy",
        "read_expire",
        "write_expire",
        "writes_starved",
        "fifo_batch",
        "front_merges",
        "writes_in_flight",
        "read_hold",
        "async_depth",
        "scheduler",
    ] {
        assert!(list.iter().any(|one| one["name"] == name), "{name}: {text}");
    }
    assert!(list.iter().any(|one| one["name"] == "read_expire" && one["value"] == "123"));
    server.stop();
}

#[test]
fn tunables_change_while_clients_read_and_write() {
    let place = Place::new();
    let file = place.file("disk", 8 << 20);
    let server = place.serve(&file, &["--memory", "4M"]);
    let mut client = server.session();
    let page = vec![0; 4096];
    let settings = [
        "max_window=262144",
        "read_expire=50",
        "writes_in_flight=2",
        "scheduler=noop",
        "scheduler=deadline",
        "policy=linux-6",
        "writes_in_flight=learn",
        "dirty_age=100",
        "max_window=0",
        "policy=adaptive",
        "fifo_batch=1",
        "front_merges=off",
    ];
    for (turn, setting) in settings.iter().enumerate() {
        for index in 0..64 {
            let offset = (turn * 64 + index) as u64 * 4096;
            client.read(offset, 4096).unwrap();
            client.write((8 << 20) - 4096 - offset / 4, &page[..1024], false).unwrap();
        }
        let after = said(server.asked("set", &[setting]));
        let (name, value) = setting.split_once('=').unwrap();
        let words: Vec<_> = after.split_whitespace().collect();
        assert_eq!(words[..2], [name, value], "{after}");
    }
    let several = said(server.asked("set", &["write_expire=1000", "writes_starved=4"]));
    assert_eq!(several.lines().count(), 2, "{several}");
    server.stop();
}

#[test]
fn what_makes_no_sense_is_refused_and_says_what_does() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &[]);
    for (setting, hint) in [
        ("fifobatch=1", "no tunable 'fifobatch'; there are "),
        ("fifo_batch=-1", "fifo_batch=-1: must be a number"),
        ("scheduler=cfq", "noop or deadline"),
        ("policy=linux-2.4", "linux-6"),
        ("dirty_limit=", "dirty_limit=: must be "),
        ("=", "no tunable ''"),
    ] {
        let line = refused(server.asked("set", &[setting]));
        assert!(line.starts_with("foreread: ") && line.contains(hint), "{setting}: {line}");
    }
    // The settings before the bad one are in force.
    refused(server.asked("set", &["fifo_batch=3", "nonsense=1", "read_expire=1"]));
    let after = said(server.asked("set", &[]));
    let in_force = |name: &str| {
        let line = after.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!((in_force("fifo_batch").as_str(), in_force("read_expire").as_str()), ("3", "500"));
    server.stop();
}

/// Clients over TCP are not authenticated.
#[test]
fn a_server_is_not_told_what_to_do_over_tcp() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &["--port", "0"]);
    let uri = server.ready.split(" and ").chain(server.ready.split(' '));
    let uri = uri.map(|word| word.trim_end_matches([';', ','])).find(|w| w.starts_with("nbd://"));
    for verb in ["stats", "set"] {
        let output = crate::serve::server::foreread(&[verb, uri.unwrap()]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(output.stderr.iter().filter(|byte| **byte == b'\n').count(), 1);
    }
    server.stop();
}
