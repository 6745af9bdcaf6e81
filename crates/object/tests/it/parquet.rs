//! A scan of a few columns of a parquet file through `CachedStore`, by counts.
//!
//! In:    the example's table and scan, without its latency.
//! Out:   the same values; how many requests reach the store.
//! Never: a claim about time.

use std::sync::Arc;
use std::time::Duration;

use foreread::Engine;
use foreread_object::CachedStore;

#[path = "../../examples/parquet_projection.rs"]
#[allow(dead_code, reason = "the example's main")]
#[allow(unreachable_pub, reason = "an example that is a module here")]
mod parquet_projection;

use parquet_projection::{COLUMNS, FarStore, GROUPS, ROWS, WIDTH, scan};

/// Of the engine's cache.
const PAGE: u64 = 4096;

#[tokio::test]
async fn a_projection_costs_what_it_reads_and_the_second_time_no_request() {
    let far = Arc::new(FarStore::with_table(Duration::ZERO).await.unwrap());
    let engine = Engine::builder().memory(64 << 20).learn_max_window().build().unwrap();
    let cached = Arc::new(CachedStore::new(Arc::clone(&far) as _, engine));
    let bare = scan(Arc::clone(&far) as _, &far).await.unwrap();
    let first = scan(Arc::clone(&cached) as _, &far).await.unwrap();
    let again = scan(cached, &far).await.unwrap();
    assert_eq!(bare.rows as u64, GROUPS * ROWS);
    for scanned in [first, again] {
        assert_eq!((scanned.rows, scanned.sum), (bare.rows, bare.sum));
    }
    assert_eq!((again.requests, again.bytes), (0, 0));
    // The head, the footer, and two columns of each group.
    assert_eq!(bare.requests, 2 + GROUPS * COLUMNS.len() as u64);
    assert!(first.requests <= bare.requests, "{first:?} beside {bare:?}");
    // Whole pages, and no more.
    let wanted = GROUPS * ROWS * COLUMNS.len() as u64 * 8;
    let whole = GROUPS * ROWS * WIDTH * 8;
    assert!(first.bytes >= wanted && bare.bytes < whole, "{first:?}, {wanted} wanted");
    assert!(first.bytes <= bare.bytes + bare.requests * 2 * PAGE, "{first:?} beside {bare:?}");
}
