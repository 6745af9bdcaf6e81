//! `cat`, `ls`, `stat` and `bench` of objects.

use std::process::Output;

use serde_json::Value;

use crate::bucket_server::BucketServer;
use crate::common::Command;
use crate::images::pattern;
use crate::objects::prefix_mounts::bucket_command;
use crate::objects::weed::weed;
use crate::said;

fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn printed(command: &mut Command) -> String {
    String::from_utf8(output(command).stdout).unwrap()
}

fn data(command: &mut Command) -> Vec<Value> {
    said::data(&output(command).stdout)
}

#[test]
fn cat_prints_an_object_as_it_was_put() {
    let Some(weed) = weed("cat_prints_an_object_as_it_was_put") else { return };
    for len in [0, 1, 5_000_001] {
        let bytes = pattern(len);
        let url = weed.put(&format!("cat/{len}.bin"), &bytes);
        let signed = output(&mut weed.foreread(&["cat", &url]));
        assert!(signed.stdout == bytes, "{len} bytes");
        let public = output(weed.without_key(&["cat", &url]).env("AWS_SKIP_SIGNATURE", "true"));
        assert!(public.stdout == bytes, "{len} bytes, without a signature");
    }
}

#[test]
fn stat_says_what_the_store_says_of_an_object() {
    let Some(weed) = weed("stat_says_what_the_store_says_of_an_object") else { return };
    let url = weed.put("stat/some%20name", &pattern(1234)).replace("%20", " ");
    let text = printed(&mut weed.foreread(&["stat", &url]));
    for part in ["      size: 1234 bytes\n", "      etag: \"", "  modified: 20"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = data(&mut weed.foreread(&["stat", &url, "--json"]));
    assert_eq!((json.len(), &json[0]["size"]), (1, &1234.into()), "{json:?}");
}

#[test]
fn ls_lists_a_prefix_and_all_below_it() {
    let Some(weed) = weed("ls_lists_a_prefix_and_all_below_it") else { return };
    weed.put("listed/b.bin", &pattern(10));
    weed.put("listed/a/one", &pattern(20));
    weed.put("listed/a/two", &pattern(3000));
    let text = printed(&mut weed.foreread(&["ls", "s3://tests/listed/"]));
    let names: Vec<_> = text.lines().filter_map(|line| line.split(' ').next_back()).collect();
    assert_eq!(names, ["a/", "b.bin"], "{text}");
    let json = data(&mut weed.foreread(&["ls", "-R", "s3://tests/listed/", "--json"]));
    let sizes: Vec<_> =
        json.iter().map(|it| (it["name"].as_str().unwrap(), it["size"].as_u64())).collect();
    assert_eq!(sizes, [("a/one", Some(20)), ("a/two", Some(3000)), ("b.bin", Some(10))]);
}

#[test]
fn bench_reads_an_object_by_two_methods() {
    let Some(weed) = weed("bench_reads_an_object_by_two_methods") else { return };
    let url = weed.put("bench.bin", &pattern(4 << 20));
    let args = ["bench", &url, "--pattern", "seq64k,rand64k", "--runs", "1", "--amount", "1M"];
    let prices = [("FOREREAD_PRICE_PER_1000_REQUESTS", "0.5"), ("FOREREAD_PRICE_PER_GB", "1000")];
    let rows = data(weed.foreread(&args).envs(prices).arg("--json"));
    for row in &rows {
        let store = |key: &str| row["store"][key].as_f64().unwrap();
        assert!(store("requests") > 0.0 && store("bytes") >= f64::from(1 << 20), "{row}");
        // A request for each read; what an earlier run had read ahead may come meanwhile.
        assert!(row["method"] != "direct" || store("requests") >= 16.0, "{row}");
        let cost = store("requests") * 0.5 / 1e3 + store("bytes") / 1e9 * 1000.0;
        assert!((store("cost") - cost).abs() < 1e-9, "{row}");
    }
    let read = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        (text("pattern"), text("method"), row["bytes_wanted"].as_u64().unwrap())
    };
    let rows: Vec<_> = rows.iter().map(read).collect();
    for pattern in ["seq64k", "rand64k"] {
        for method in ["direct", "foreread"] {
            let row = (pattern.to_owned(), method.to_owned(), 1 << 20);
            assert!(rows.contains(&row), "{row:?} in {rows:?}");
        }
    }
}

#[test]
fn a_command_says_what_it_has_cost_if_there_is_a_price() {
    let Some(weed) = weed("a_command_says_what_it_has_cost_if_there_is_a_price") else { return };
    let url = weed.put("cost.bin", &pattern(1000));
    let stderr = |command: &mut Command| String::from_utf8(output(command).stderr).unwrap();
    assert_eq!(stderr(&mut weed.foreread(&["cat", &url])), "");
    let mut priced = weed.foreread(&["cat", &url]);
    let line = stderr(priced.env("FOREREAD_PRICE_PER_1000_REQUESTS", "5"));
    // One for the attributes, one for the bytes.
    let said = "foreread: the store was sent 2 requests (0 of them sent again, 0 second copies of \
                late ones, 0 throttled, 0 failed), and 0.0 MB came, which costs 0.01000\n";
    assert_eq!(line, said);
    let mut stat = weed.foreread(&["stat", &url]);
    assert!(stderr(stat.env("FOREREAD_PRICE_PER_GB", "0.09")).contains("sent 1 request ("));
}

/// A page with one of these was an error, and keys that end with / were shown as others.
#[test]
fn ls_lists_keys_that_no_request_can_ask_for_beside_the_others() {
    let server = BucketServer::start();
    for key in ["a//b", "/c", "a/../d", "good", "a/good", "a/dir/"] {
        server.put(key, if key.ends_with('/') { b"" } else { b"bytes" });
    }
    server.pages_of(2);
    let url = "s3://bucket/";
    let output = bucket_command(&server, &["ls", "-R", url, "--json"]).output().unwrap();
    let rows = said::data(&output.stdout);
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["kind"].as_str().unwrap()))
        .collect();
    let unreadable = ["/c", "a/../d", "a//b"].map(|name| (name, "unreadable"));
    assert_eq!(rows, [&[("a/good", "object"), ("good", "object")][..], &unreadable].concat());
    let note = String::from_utf8(output.stderr).unwrap();
    assert_eq!(note, "note: 3 keys that no request can ask for, such as '/c'\n");
    let text = printed(&mut bucket_command(&server, &["ls", "s3://bucket/a/"]));
    let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().next_back()).collect();
    assert_eq!(lines, [Some("dir/"), Some("good"), Some("../"), Some("/")], "{text}");
    assert_eq!(server.requests().0, 3 + 2, "names that are one request each");
}

/// Each page of a listing has the deadline for itself; names that come in many pages are all shown.
#[test]
fn ls_lists_all_pages_and_cat_takes_a_window() {
    let server = BucketServer::start();
    for number in 0..95 {
        server.put(&format!("n/{number:02}"), &pattern(100));
    }
    server.pages_of(10);
    let text = printed(&mut bucket_command(&server, &["ls", "s3://bucket/n/"]));
    assert_eq!((text.lines().count(), server.requests().0), (95, 10));
    server.put("big", &pattern(3_000_000));
    for window in ["64K", "1M", "auto"] {
        let args = ["cat", "s3://bucket/big", "--max-window", window];
        assert!(output(&mut bucket_command(&server, &args)).stdout == pattern(3_000_000));
    }
}
