//! `foreread tune URL`.

use std::path::Path;
use std::process::{Output, Stdio};

use foreread::Pages;
use foreread::{LearntCost, LearntDevice};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Command, looks_until, scratch};
use crate::faulty_server::{Fault, FaultyServer};
use crate::images::pattern;
use crate::objects::weed::weed;
use crate::said;

/// An object that a debug build reads fast, and a bound that a busy machine keeps.
const LEN: usize = 16 << 20;
const SHORT: [&str; 4] = ["--seconds", "10", "--max-bytes", "512M"];

fn tune(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.args(["tune", url]).args(SHORT).args(args).stdin(Stdio::null());
    command
}

fn one(output: &Output) -> Value {
    let mut data = said::data(&output.stdout);
    assert_eq!(data.len(), 1, "{output:?}");
    data.remove(0)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_real_store_is_measured_within_the_bounds() {
    let Some(weed) = weed("a_real_store_is_measured_within_the_bounds") else { return };
    let url = weed.put("tuned.bin", &pattern(LEN));
    let state = TempDir::new_in(scratch()).unwrap();
    let page = state.path().join("page.html");
    let mut command = weed.foreread(&["tune", &url]);
    command.args(SHORT).args(["--json", "--remember", "--html"]).arg(&page);
    command.env("FOREREAD_PRICE_PER_GB", "0.09").env("STATE_DIRECTORY", state.path());
    let output = command.output().unwrap();
    let found = one(&output);
    let number = |at: &str| found.pointer(at).and_then(Value::as_f64).unwrap_or(f64::NAN);
    assert!(number("/asked/bytes") > 1e6 && number("/asked/bytes") <= 512e6 * 1.05, "{found}");
    assert!(number("/asked/requests") > 100.0 && number("/seconds") < 20.0, "{found}");
    assert!((number("/cost") - number("/asked/bytes") * 0.09e-9).abs() < 1e-9, "{found}");
    assert!(number("/small_reads/first_byte_ms/p50") > 0.0, "{found}");
    assert!(number("/new_connection/median_ms") >= 0.0, "{found}");
    assert_eq!(found["throttling"], Value::Array(Vec::new()), "{found}");
    assert!(!found["connections"].as_array().unwrap().is_empty(), "{found}");
    let rows = found["connections"].as_array().unwrap().iter();
    for row in rows.chain(found["parts"].as_array().unwrap()) {
        let in_flight = row["part_kib"].as_u64().unwrap() * row["connections"].as_u64().unwrap();
        assert!(in_flight << 10 <= LEN as u64 && row["mb_per_s"].as_f64() > Some(0.0), "{row}");
    }
    assert!(std::fs::read_to_string(&page).unwrap().contains("Throughput over connections"));
    // A machine with much else to do may not come to an answer in ten seconds.
    let Some(chosen) = found["chosen"].as_object() else {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        return;
    };
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = std::fs::read_to_string(&page).unwrap();
    for (client, setting) in settings_of_clients(chosen) {
        let named = found["clients"].as_array().unwrap().iter().find(|it| it["client"] == client);
        let set = named.unwrap_or_else(|| panic!("{client}: {found}"))["set"].as_array().unwrap();
        let is_set = set.iter().any(|line| line.as_str().unwrap().contains(&setting));
        assert!(is_set && page.contains(&setting), "{client}, {setting}: {found}");
    }
    let record = Path::new(found["remembered"].as_str().unwrap());
    assert!(record.starts_with(state.path().join("devices")), "{record:?}");
    let text = std::fs::read_to_string(record).unwrap();
    let window = format!("\nwindow_kib = {}\n", found["foreread"]["max_window_kib"]);
    assert!(text.contains(&window) && text.contains("device = \"store-s3---tests-"), "{text}");
    // A server of the same bucket begins with this file: it says if it cannot be used.
    let serve = || {
        let mut serve = weed.foreread(&["serve", &url, "--run", "true"]);
        let output = serve.env("STATE_DIRECTORY", state.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = serve();
    assert!(!said.contains("learning the device again"), "it can be used: {said}");
    std::fs::write(record, &text[..text.len() - 3]).unwrap();
    let said = serve();
    assert!(said.contains("it is truncated") && said.contains(record.to_str().unwrap()), "{said}");
}

/// What is to be set in each client for the parts and connections that were chosen.
fn settings_of_clients(chosen: &serde_json::Map<String, Value>) -> Vec<(&'static str, String)> {
    let connections = chosen["connections"].as_u64().unwrap();
    let kib = chosen["part_kib"].as_u64().unwrap();
    let in_units = |mib: &str, kib_unit: &str| {
        if kib.is_multiple_of(1024) {
            format!("{}{mib}", kib / 1024)
        } else {
            format!("{kib}{kib_unit}")
        }
    };
    let gbps = (chosen["mb_per_s"].as_f64().unwrap() * 8.0 / 1000.0).ceil().max(1.0);
    let (bytes, part) = (kib << 10, in_units("M", "K"));
    let aws = "default.s3.";
    vec![
        ("AWS CLI", format!("{aws}max_concurrent_requests {connections}")),
        ("AWS CLI", format!("{aws}multipart_chunksize {}", in_units("MB", "KB"))),
        ("AWS CLI", format!("{aws}multipart_threshold {}", in_units("MB", "KB"))),
        ("rclone mount", format!("--vfs-read-chunk-size {part} ")),
        ("rclone mount", format!("--vfs-read-chunk-streams {connections} ")),
        ("Mountpoint for S3", format!("--read-part-size {bytes} ")),
        ("Mountpoint for S3", format!("--maximum-throughput-gbps {gbps}")),
        ("s3fs (fsspec)", format!("default_block_size={bytes}, max_concurrency={connections})")),
        ("s3fs (fsspec)", "fs.open(.., block_size=".to_owned()),
        ("DuckDB", format!("SET async_threads = {connections};")),
        ("DuckDB", format!("SET threads = {connections};")),
    ]
}

#[test]
fn a_dry_run_says_what_it_may_cost_and_takes_one_request() {
    let server = FaultyServer::start(LEN as u64);
    let url = server.url();
    let mut command = tune(&url, &["--dry-run"]);
    let output = command.env("FOREREAD_PRICE_PER_GB", "0.09").output().unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && errors.is_empty(), "{output:?}");
    for part in
        ["16777216 bytes; nothing was measured", "1, 2, 4, 8, 16, 32, 64,", "537 MB in 10 s"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    // 2^29 bytes at 0.09 for 10^9.
    assert!(said.contains("which cost 0.04832"), "{said}");
    assert_eq!(server.gets(), 1, "the request that opens the object");
    let plan = one(&tune(&url, &["--dry-run", "--json"]).output().unwrap());
    assert_eq!((&plan["plan"]["bytes"], &plan["cost"]), (&(512 << 20).into(), &Value::Null));
}

#[test]
fn a_store_that_refuses_many_at_once_is_asked_for_fewer() {
    let server = FaultyServer::start(LEN as u64);
    server.at_once(3);
    let output = tune(&server.url(), &["--json"]).output().unwrap();
    let found = one(&output);
    let seen = found["throttling"].as_array().unwrap();
    // On a busy machine one or two connections give as much as more, and none is refused.
    let is_refused = found["asked"]["throttled"].as_u64() > Some(0);
    assert_eq!(is_refused, !seen.is_empty(), "{found}");
    assert!(seen.iter().all(|seen| seen["connections"].as_u64() >= Some(4)), "{found}");
    if let Some(connections) = found["chosen"]["connections"].as_u64() {
        assert!(connections < 4, "{found}");
    }
}

#[test]
fn the_model_of_a_store_is_a_device_of_replays() {
    let server = FaultyServer::start(LEN as u64);
    let folder = TempDir::new_in(scratch()).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (model, trace) = (path("store.toml"), path("trace.csv"));
    let mut command = tune(&server.url(), &["--json", "--device-model", &model]);
    let output = command.env("FOREREAD_PRICE_PER_GB", "0.09").output().unwrap();
    let found = one(&output);
    if found["device_model"].is_null() {
        // A machine with much else to do may not have come to the rounds in ten seconds.
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        return;
    }
    assert_eq!(found["device_model"]["kind"], "store", "{found}");
    let text = std::fs::read_to_string(&model).unwrap();
    for part in ["first byte, p50", "connections, parts of", "price_per_gb = 0.09"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    std::fs::write(&trace, "time_ns,op,offset,length\n0,r,0,4096\n1000,r,819200,4096\n").unwrap();
    let rows = said::json(&["replay", &trace, "--device", &model, "--memory", "8M", "--json"]);
    let device = rows[0]["device"].as_str().unwrap();
    assert!(device.contains("127.0.0.1") && device.ends_with("(store.toml)"), "{device}");
    assert!(rows.iter().all(|row| row["waits"].as_u64() > Some(0)), "{rows:?}");
}

#[test]
fn what_keeps_a_store_from_being_measured_is_one_line() {
    let server = FaultyServer::start(LEN as u64);
    for (fault, code, part) in [
        (Fault::IgnoreRange, 2, "ignores Range"),
        (Fault::Status(403), 2, "check the credentials"),
        (Fault::Status(503), 1, "refuses requests (503 or 429)"),
    ] {
        server.always(fault);
        let output = tune(&server.url(), &[]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{fault:?}: {output:?}");
        let line = text(&output.stderr);
        assert!(line.lines().count() == 1 && line.contains(part), "{fault:?}: {line}");
        assert!(output.stdout.is_empty(), "{fault:?}");
    }
    let small = FaultyServer::start(1 << 20);
    let line = said::refused(&["tune", &small.url()]);
    assert!(line.contains("1048576 bytes") && line.contains("at least 8M"), "{line}");
    for (args, part) in [
        (&["tune", "s3://b/k", "--apply"][..], "--apply: a store has no setting"),
        (&["tune", "s3://b/k", "--scratch", "/tmp"], "--scratch: a store has no setting"),
        (&["tune", "/dev/null", "--dry-run"], "--dry-run is for the URL of an object"),
        (&["tune", "sda", "--max-bytes", "1G"], "--max-bytes is for the URL of an object"),
        (&["tune", "ftp://host/file"], "not the URL of a store"),
        (&["tune", "s3://bucket/"], "must not end with /"),
    ] {
        let line = said::refused(args);
        assert!(line.contains(part), "{args:?}: {line}");
    }
}

/// Waits until the small reads are over and parts are read.
fn reads(server: &FaultyServer) {
    let is_reading = (0..100).any(|_| looks_until(|| server.gets() > 140));
    assert!(is_reading, "{} requests", server.gets());
}

#[test]
fn an_object_that_is_replaced_ends_it_with_what_was_measured() {
    let server = FaultyServer::start(LEN as u64);
    let mut command = tune(&server.url(), &["--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    reads(&server);
    server.replace();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("it has changed since it was opened"), "{output:?}");
    let found = one(&output);
    assert!(found["ended"].is_null() && !found["small_reads"].is_null(), "{found}");
}

#[test]
fn ctrl_c_ends_it_with_what_was_measured() {
    let server = FaultyServer::start(LEN as u64);
    let child = tune(&server.url(), &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    reads(&server);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("foreread: interrupted"), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("not known yet") && said.contains("first byte"), "{said}");
}

/// What `tune URL --remember` writes was to be removed by hand, and no command showed it.
#[test]
fn a_remembered_store_is_listed_checked_and_forgotten() {
    let state = TempDir::new_in(scratch()).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
        command.arg("tune").args(args).env("STATE_DIRECTORY", state.path());
        // Nothing listens there: no request is sent.
        command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:9").output().unwrap()
    };
    let cost = LearntCost {
        per_request_ns: 20e6,
        per_kib_ns: 12_800.0,
        parallel: Some(48),
        min_parallel: 48,
    };
    let learnt = LearntDevice { window: Pages(1 << 13), cost: Some(cost) };
    let directory = state.path().join("devices");
    let keep = |name| foreread::write_device_record(&directory, name, learnt).unwrap();
    let record = keep("store-s3://bucket http://127.0.0.1:9");
    keep("disk-7");
    let name = "store-s3---bucket-http---127.0.0.1-9";

    let listed = text(&run(&["--list"]).stdout);
    for part in [name, "max_window=32M", "first byte 20 ms, 80 MB/s a connection, 48 at once"] {
        // A narrow terminal breaks no cell.
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(!listed.contains("disk-7"), "a disk's own record is serve's: {listed}");
    let found = said::data(&run(&["--list", "--json"]).stdout);
    let store = found.iter().find(|it| it["store"] == name).unwrap();
    assert_eq!((&store["max_window_kib"], &store["requests_at_once"]), (&32768.into(), &48.into()));
    assert_eq!(store["mb_per_s"].as_f64(), Some(80.0), "{store}");
    let checked = text(&run(&["verify"]).stdout);
    assert!(checked.contains(&format!("{name}: can be used")), "{checked}");

    let whole = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, &whole[..whole.len() - 3]).unwrap();
    let output = run(&["verify"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let checked = text(&output.stdout);
    assert!(checked.contains("can NOT be used") && checked.contains("truncated"), "{checked}");
    let output = run(&["verify", "--json"]);
    let found = said::data(&output.stdout);
    assert!(found.iter().any(|it| it["name"] == name && it["ok"] == false), "{output:?}");
    let listed = text(&run(&["--list"]).stderr);
    assert!(listed.contains(&format!("foreread tune forget {name}")), "{listed}");

    // Broken or not, by the URL of any object of it.
    let forgotten = text(&run(&["forget", "s3://bucket/any/key"]).stdout);
    assert!(forgotten.contains("removed") && !record.exists(), "{forgotten}");
    for named in ["s3://bucket/", name] {
        let output = run(&["forget", named]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains("nothing is remembered of this store"), "{output:?}");
    }
    keep("store-s3://bucket http://127.0.0.1:9");
    assert!(run(&["forget", name]).status.success() && !record.exists());
}
