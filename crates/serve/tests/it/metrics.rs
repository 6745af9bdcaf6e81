//! The page of metrics, read by a strict scraper.

use crate::scrape;

use foreread_serve::metrics::page;
use foreread_serve::stats::{CostStats, ServerStats, WindowCount};
use scrape::scrape;

/// With something in every place, and names that need escaping.
fn stats() -> ServerStats {
    let mut stats = ServerStats::default();
    stats.export.target = "/a \"b\"\\\n{c}".to_owned();
    stats.export.bytes = 4_194_404;
    stats.up_s = 1.5;
    (stats.reads.hit, stats.reads.waited) = (u64::from(u32::MAX) * 1000, 7);
    stats.ahead.windows = vec![
        WindowCount { up_to_bytes: Some(4096), count: 3 },
        WindowCount { up_to_bytes: Some(131_072), count: 40 },
        WindowCount { up_to_bytes: None, count: 2 },
    ];
    stats.ahead.window_pages = 1_283;
    let fit =
        CostStats { per_request_ns: 4e6, per_kib_ns: Some(9.5e3), parallel: None, samples: 9 };
    stats.device.read.fit = Some(fit);
    stats.device.write.limit = Some(3);
    stats.clients.requests = [("read".to_owned(), 12), ("block_status".to_owned(), 1)].into();
    stats
}

#[test]
fn a_strict_scraper_takes_the_page() {
    let samples = scrape(&page(&stats()));
    for (name, value) in [
        ("foreread_up_seconds", 1.5),
        ("foreread_export_bytes", 4_194_404.0),
        ("foreread_reads_total{result=\"hit\"}", 4_294_967_295_000.0),
        ("foreread_reads_total{result=\"waited\"}", 7.0),
        ("foreread_ahead_window_bytes_bucket{le=\"4096\"}", 3.0),
        ("foreread_ahead_window_bytes_bucket{le=\"65536\"}", 3.0),
        ("foreread_ahead_window_bytes_bucket{le=\"131072\"}", 43.0),
        ("foreread_ahead_window_bytes_bucket{le=\"+Inf\"}", 45.0),
        ("foreread_ahead_window_bytes_sum", 1_283.0 * 4096.0),
        ("foreread_device_cost_per_request_seconds{direction=\"read\"}", 0.004),
        ("foreread_device_in_flight_limit_requests{direction=\"write\"}", 3.0),
        ("foreread_client_requests_total{kind=\"block_status\"}", 1.0),
    ] {
        let found = samples.get(name).unwrap_or_else(|| panic!("{name} is not there"));
        assert!((found - value).abs() <= value * 1e-12, "{name}: {found}");
    }
    let info = samples.keys().find(|name| name.starts_with("foreread_info{")).expect("an info");
    assert!(info.contains(r#"target="/a \"b\"\\\n{c}""#), "{info}");
}

#[test]
fn what_is_not_known_is_not_there() {
    let samples = scrape(&page(&stats()));
    for name in [
        "foreread_device_parallel",
        "foreread_device_cost_per_request_seconds{direction=\"write\"}",
        "foreread_device_in_flight_limit_requests{direction=\"read\"}",
    ] {
        assert!(!samples.keys().any(|sample| sample.starts_with(name)), "{name}");
    }
}

/// A server that has done nothing yet has all counters, at zero: a scraper sees no gap later.
#[test]
fn a_new_server_has_its_counters() {
    let samples = scrape(&page(&ServerStats::default()));
    assert!(samples.len() > 50, "{samples:?}");
    let counters = samples.iter().filter(|(name, _)| name.contains("_total"));
    assert!(counters.clone().count() > 25);
    assert!(counters.into_iter().all(|(_, value)| *value == 0.0));
}

/// The JSON keeps its keys, which other programs store: the test has its own list of them.
#[test]
fn the_keys_of_the_json_are_these() {
    let json = serde_json::to_value(stats()).expect("numbers and texts");
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    assert_eq!(
        keys(&json),
        [
            "ahead", "cache", "clients", "device", "export", "memory", "pages", "reads", "store",
            "up_s", "version", "writes"
        ]
    );
    assert_eq!(
        keys(&json["writes"]),
        [
            "asked",
            "failed",
            "flush_failures",
            "flushes",
            "lost",
            "pages",
            "partial",
            "retried",
            "rewritten",
            "waited_for_pages",
            "waited_for_room"
        ]
    );
    assert_eq!(keys(&json["device"]), ["read", "write"]);
    assert_eq!(
        keys(&json["device"]["read"]),
        ["bytes", "expired", "fit", "in_flight", "limit", "queued", "requests"]
    );
    assert_eq!(
        keys(&json["ahead"]),
        [
            "evicted_before_use",
            "hinted",
            "hints_shortened",
            "issued",
            "markers",
            "markers_dropped",
            "shortened",
            "window_pages",
            "windows"
        ]
    );
    assert_eq!(serde_json::from_value::<ServerStats>(json).expect("it reads itself"), stats());
}
