//! Translates a part size and a number of connections into settings of programs that read objects.
//!
//! Settings are commands or code with their source. Every setting is documented by its program, and
//! every value follows from a measurement.

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;
use serde::Serialize;

use super::STORE_SHARE;
use super::findings::{StoreChoice, StoreFindings};

/// Settings of one program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientSettings {
    /// Name of the program.
    pub client: &'static str,
    /// Commands, flags or code, one a line.
    pub set: Vec<String>,
    /// Default without these settings, and remarks.
    pub default: &'static str,
    /// Documentation of the settings.
    pub source: &'static str,
}

/// Settings of foreread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ForereadSettings {
    /// `--max-window`: bytes in flight for one stream.
    pub max_window_kib: u64,
    /// `--memory`; a window may use an eighth of it.
    pub memory_kib: u64,
    /// Parallel requests of at most 1 MiB that result from the window.
    pub requests_at_once: u32,
    /// Throughput of these requests, or of as many as were measured.
    pub mb_per_s: f64,
    /// True if that is less than the throughput of the chosen point: foreread sends no larger
    /// parts, and at most 64 at a time.
    pub is_limited: bool,
}

impl ForereadSettings {
    /// Returns the settings; None if no point was chosen.
    ///
    /// The number of requests matches the throughput of the best point, computed from the
    /// throughput of one request of the size that foreread sends.
    #[must_use]
    pub fn of(findings: &StoreFindings) -> Option<Self> {
        let choice = findings.chosen.as_ref()?;
        let is_ours = |part_kib: u64| part_kib <= REQUEST_KIB;
        let row = findings.parts.iter().rfind(|row| is_ours(row.part_kib));
        let row = row.or_else(|| findings.parts.first())?;
        let of_one = row.mb_per_s / f64::from(row.connections);
        let is_enough = row.mb_per_s >= STORE_SHARE * choice.mb_per_s;
        let wanted = if is_enough { f64::from(row.connections) } else { choice.mb_per_s / of_one };
        let requests = (1..REQUESTS_MAX).find(|n| f64::from(*n) >= wanted).unwrap_or(REQUESTS_MAX);
        let request_kib = row.part_kib.min(REQUEST_KIB);
        let window = (u64::from(requests) * request_kib).next_power_of_two();
        let max_window_kib = window.min(u64::from(REQUESTS_MAX) * REQUEST_KIB);
        Some(Self {
            max_window_kib,
            memory_kib: (WINDOWS_OF_MEMORY * max_window_kib).max(MEMORY_KIB_MIN),
            requests_at_once: requests,
            mb_per_s: (of_one * f64::from(requests)).min(choice.mb_per_s),
            is_limited: wanted > f64::from(REQUESTS_MAX),
        })
    }
}

/// Returns settings for widely used clients; empty if no point was chosen.
#[must_use]
pub fn client_settings(findings: &StoreFindings) -> Vec<ClientSettings> {
    let Some(choice) = &findings.chosen else { return Vec::new() };
    vec![
        aws_cli(choice),
        rclone(choice),
        mountpoint(choice),
        s3fs(choice, findings),
        duckdb(choice),
    ]
}

fn aws_cli(choice: &StoreChoice) -> ClientSettings {
    let part = with_unit(choice.part_kib, "MB", "KB");
    ClientSettings {
        client: "AWS CLI",
        set: vec![
            format!("aws configure set default.s3.max_concurrent_requests {}", choice.connections),
            format!("aws configure set default.s3.multipart_chunksize {part}"),
            format!("aws configure set default.s3.multipart_threshold {part}"),
        ],
        default: "10 requests, parts of 8MB",
        source: "https://docs.aws.amazon.com/cli/latest/topic/s3-config.html",
    }
}

fn rclone(choice: &StoreChoice) -> ClientSettings {
    let StoreChoice { part_kib, connections, .. } = choice;
    let part = size(*part_kib);
    // The default, or one part: read-ahead within the chunks that have arrived.
    let buffer = size((*part_kib).max(16 << 10));
    ClientSettings {
        client: "rclone mount",
        set: vec![format!(
            "--vfs-read-chunk-size {part} --vfs-read-chunk-streams {connections} --buffer-size \
             {buffer}"
        )],
        default: "one stream, chunks that double from 128M, a buffer of 16M",
        source: "https://rclone.org/commands/rclone_mount/#vfs-chunked-reading",
    }
}

fn mountpoint(choice: &StoreChoice) -> ClientSettings {
    let gbps = choice.mb_per_s * 8.0 / 1000.0;
    let gbps = (1..=GBPS_MAX).find(|n| f64::from(*n) >= gbps).unwrap_or(GBPS_MAX);
    ClientSettings {
        client: "Mountpoint for S3",
        set: vec![format!(
            "--read-part-size {} --maximum-throughput-gbps {gbps}",
            choice.part_kib << 10
        )],
        default: "parts of 8 MiB, the instance's throughput or 10 Gbit/s, and as many connections \
                  as that requires",
        source: "https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md",
    }
}

/// Returns the block size with 3 % loss for a client with one connection, which waits for the next
/// block's first byte after each block.
fn block_of_one_connection(findings: &StoreFindings) -> Option<u64> {
    let first_byte_s = findings.small_reads.as_ref()?.first_byte_ms.p50 / 1e3;
    let bytes = findings.one_connection_mb_per_s? * 1e6 * first_byte_s;
    let wanted = bytes * STORE_SHARE / (1.0 - STORE_SHARE);
    let powers = (0..=9).map(|power| 1_u64 << power);
    powers.map(|mib| mib << 20).find(|block| *block as f64 >= wanted).or(Some(512 << 20))
}

fn s3fs(choice: &StoreChoice, findings: &StoreFindings) -> ClientSettings {
    let mut set = vec![format!(
        "S3FileSystem(default_block_size={}, max_concurrency={})  # cat(), get()",
        choice.part_kib << 10,
        choice.connections
    )];
    set.extend(block_of_one_connection(findings).map(|block| {
        format!("fs.open(.., block_size={block}, cache_type=\"readahead\")  # one connection")
    }));
    ClientSettings {
        client: "s3fs (fsspec)",
        set,
        default: "10 requests, blocks of 50 MiB, readahead",
        source: "https://s3fs.readthedocs.io/en/latest/api.html",
    }
}

fn duckdb(choice: &StoreChoice) -> ClientSettings {
    let connections = choice.connections;
    ClientSettings {
        client: "DuckDB",
        set: vec![
            format!("SET async_threads = {connections};  -- from 2.0 on"),
            format!("SET threads = {connections};  -- before: each has one request at a time"),
        ],
        default: "a thread for each processor; from 2.0 on, four times as many for reads. \
                  Requests have the size of a column's part",
        source: "https://duckdb.org/docs/current/guides/performance/how_to_tune_workloads",
    }
}

fn size(kib: u64) -> String {
    Exact(ByteCount(kib << 10)).to_string()
}

/// Formats a size as `8MB`; the AWS CLI uses powers of 1024.
fn with_unit(kib: u64, mib: &str, kib_unit: &str) -> String {
    if kib.is_multiple_of(1024) {
        format!("{}{mib}", kib / 1024)
    } else {
        format!("{kib}{kib_unit}")
    }
}

/// Largest request that the engine sends to a source.
const REQUEST_KIB: u64 = 1024;

/// Most requests that the engine has in flight.
const REQUESTS_MAX: u32 = 64;

/// A window may use an eighth of the memory.
const WINDOWS_OF_MEMORY: u64 = 8;

/// Default of `serve` and `mount`.
const MEMORY_KIB_MIN: u64 = 64 << 10;

/// Faster than any machine's network.
const GBPS_MAX: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::super::findings::{LatencyQuantiles, PointResult, SmallReads};
    use super::super::step::StoreSpent;
    use super::*;

    fn findings(part_kib: u64, connections: u32, parts: &[(u64, f64)]) -> StoreFindings {
        let row = |(part_kib, mb_per_s): &(u64, f64)| PointResult {
            part_kib: *part_kib,
            connections,
            mb_per_s: *mb_per_s,
            low: *mb_per_s,
            high: *mb_per_s,
            requests_per_s: 1.0,
            samples: 9,
        };
        let rows: Vec<PointResult> = parts.iter().map(row).collect();
        let chosen = rows.iter().find(|row| row.part_kib == part_kib).expect("it was measured");
        let quantiles = LatencyQuantiles { p50: 25.0, p95: None, p99: None, max: 30.0 };
        StoreFindings {
            seconds: 30.0,
            asked: StoreSpent::default(),
            chosen: Some(StoreChoice {
                part_kib,
                part_between_kib: [part_kib; 2],
                connections,
                connections_between: [connections; 2],
                mb_per_s: chosen.mb_per_s,
                low: chosen.low,
                high: chosen.high,
                is_most_connections: false,
            }),
            connections: Vec::new(),
            parts: rows,
            one_connection_mb_per_s: Some(64.0),
            small_reads: Some(SmallReads {
                size_kib: 16,
                reads: 12,
                first_byte_ms: quantiles,
                whole_ms: quantiles,
            }),
            new_connection: None,
            throttling: Vec::new(),
            notes: Vec::new(),
            ended: None,
        }
    }

    #[test]
    fn foreread_has_as_many_requests_of_a_mebibyte_as_the_best_point_takes() {
        let of = |connections, parts: &[(u64, f64)]| {
            ForereadSettings::of(&findings(4096, connections, parts)).expect("a choice")
        };
        let found = of(16, &[(1024, 440.0), (4096, 600.0)]);
        // 600 / 27.5 = 21.8.
        assert_eq!((found.requests_at_once, found.max_window_kib >> 10), (22, 32));
        assert_eq!((found.memory_kib >> 10, found.is_limited), (256, false));
        assert!((found.mb_per_s - 600.0).abs() < 1e-9, "{found:?}");
        let found = of(4, &[(1024, 99.0), (4096, 100.0)]);
        assert_eq!((found.requests_at_once, found.max_window_kib >> 10), (4, 4));
        assert_eq!(found.memory_kib >> 10, 64);
        let found = of(64, &[(1024, 1000.0), (4096, 4000.0)]);
        assert_eq!((found.requests_at_once, found.max_window_kib >> 10), (64, 64));
        assert!(found.is_limited && (found.mb_per_s - 1000.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn clients_get_the_values_in_their_own_units() {
        let found = findings(4096, 16, &[(1024, 440.0), (4096, 1300.0)]);
        let all: Vec<String> =
            client_settings(&found).into_iter().flat_map(|client| client.set).collect();
        let all = all.join("\n");
        for part in [
            "default.s3.max_concurrent_requests 16\n",
            "default.s3.multipart_chunksize 4MB\n",
            "--vfs-read-chunk-size 4M --vfs-read-chunk-streams 16 --buffer-size 16M\n",
            "--read-part-size 4194304 --maximum-throughput-gbps 11\n",
            "default_block_size=4194304, max_concurrency=16)",
            // 64 MB/s for 25 ms are 1.6 MB; 3 % of 51.7 MB.
            "block_size=67108864, cache_type=\"readahead\"",
            "SET async_threads = 16;",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
        let small = findings(512, 2, &[(512, 10.0)]);
        let all = client_settings(&small)[0].set.join("\n");
        assert!(all.contains("multipart_chunksize 512KB"), "{all}");
        assert_eq!(client_settings(&StoreFindings { chosen: None, ..small }), []);
    }
}
