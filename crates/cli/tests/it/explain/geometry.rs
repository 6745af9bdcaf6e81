//! `explain geometry`: the published limits and block sizes, through the command line.

use serde_json::{Value, json};

use crate::explain::run::{json_of, lines, words};

#[test]
fn geometry_as_json_has_the_promised_keys() {
    let got = json_of(&words("explain geometry 64M 255M 1870001s 0 505K --json"));
    let device = |bytes: u64, limit, rounded, effective, block, nearest: [u64; 2]| {
        json!({"bytes": bytes, "readahead_limit_kib": limit, "readahead_limit_rounded_kib": rounded,
               "effective_kib": effective, "block_size": block, "nearest_whole": nearest})
    };
    let want = json!([
        device(64 << 20, json!(64), json!(64), 64, 4096, [64 << 20, 64 << 20]),
        device(255 << 20, json!(64), json!(128), 64, 4096, [255 << 20, 255 << 20]),
        device(957_440_512, json!(128), json!(256), 128, 512, [957_440_000, 957_444_096]),
        device(0, Value::Null, Value::Null, 128, 4096, [0, 0]),
        device(517_120, json!(4), json!(4), 4, 1024, [516_096, 520_192]),
    ]);
    assert_eq!(got, want);
}

#[test]
fn the_published_limits_come_out_for_every_size_of_the_table() {
    let rows = [
        ("1M", 8),
        ("4M", 16),
        ("16M", 32),
        ("64M", 64),
        ("255M", 64),
        ("256M", 128),
        ("1G", 256),
        ("4G", 512),
        ("16G", 1024),
        ("64G", 2048),
        ("256G", 4096),
        ("125000s", 32),
        ("986s", 4),
        ("2T", 8192),
        ("4T", 16384),
    ];
    let mut args = words("explain geometry --json");
    args.extend(rows.iter().map(|(size, _)| *size));
    let got = json_of(&args);
    for (index, (size, limit_kib)) in rows.iter().enumerate() {
        assert_eq!(got[index]["readahead_limit_kib"], *limit_kib, "{size}");
        assert_eq!(got[index]["effective_kib"], (*limit_kib).min(128), "{size}");
    }
}

#[test]
fn blocks_of_the_device_are_respected() {
    let got = json_of(&words("explain geometry --json --logical-block 4096 1870001s"));
    assert_eq!(got[0]["block_size"], 4096);
}

#[test]
fn a_table_lines_up_and_has_one_row_a_size() {
    let got = lines(&words("explain geometry 125000s 0 1870001s"));
    assert_eq!(
        got,
        [
            "device         size  limit  rounded  effective  block  whole pages below     above",
            "125000s      62500K    32K      64K        32K   4096            125000s   125000s",
            "0s                0      -        -       128K   4096                 0s        0s",
            "1870001s  957440512   128K     256K       128K    512           1870000s  1870008s",
        ]
    );
}

#[test]
fn the_largest_size_has_no_whole_size_above() {
    let got = json_of(&words("explain geometry --json 18446744073709551615"));
    assert_eq!(got[0]["nearest_whole"], json!([18_446_744_073_709_547_520_u64, null]));
}
