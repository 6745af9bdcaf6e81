//! Sweeps of model stores in virtual time: what is chosen, what is asked for, when it ends.
//!
//! In:    stores whose answer is known.
//! Out:   the choice, the bounds, the order of steps.
//! Never: a network, a clock.

use crate::store_model;

use std::time::Duration;

use foreread_core::units::ByteCount;
use foreread_tune::store_sweep::{
    STORE_SHARE, StoreChoice, StorePoint, StoreStep, StoreSweepEnd, StoreSweepSettings,
    TransferStep,
};
use store_model::{ModelRun, ModelStore};

fn settings() -> StoreSweepSettings {
    StoreSweepSettings {
        budget: Duration::from_secs(60),
        bytes: ByteCount(64 << 30),
        object: ByteCount(4 << 30),
        connections_max: 64,
        seed: 1,
    }
}

fn run(store: ModelStore) -> ModelRun {
    store.run(settings(), usize::MAX)
}

fn chosen(run: &ModelRun) -> StoreChoice {
    run.findings.chosen.unwrap_or_else(|| panic!("a choice: {:#?}", run.findings))
}

/// The transfers, and whether the store has refused any of their requests.
fn transfers(run: &ModelRun) -> Vec<(TransferStep, bool)> {
    let of = |(step, result): &(StoreStep, _)| match step {
        StoreStep::Transfer(step) => {
            let result: &foreread_tune::store_sweep::StepResult = result;
            Some((*step, result.spent.throttled > 0))
        }
        StoreStep::NewConnections { .. } | StoreStep::SmallReads(_) | StoreStep::Pause(_) => None,
    };
    run.steps.iter().filter_map(of).collect()
}

/// What a point gives in the end, by reading it for long.
fn rate(store: ModelStore, part_kib: u64, connections: u32) -> f64 {
    let part = ByteCount(part_kib << 10);
    let point = StorePoint { part, connections };
    store.rate_of(point, settings())
}

#[test]
fn where_the_link_is_the_limit_the_fewest_connections_that_fill_it_are_chosen() {
    let store = ModelStore { link: 600e6, ..ModelStore::default() };
    let run = run(store);
    let choice = chosen(&run);
    // 64.6 MB/s a connection with parts of 8 MiB: eight give 517.
    assert_eq!((choice.connections, choice.connections_between), (16, [16, 16]), "{choice:?}");
    assert!(!choice.is_most_connections, "32 were tried, too");
    assert!(choice.mb_per_s > STORE_SHARE * 600.0 && choice.mb_per_s < 606.0, "{choice:?}");
    assert!(choice.part_kib == 2048 || choice.part_kib == 4096, "1 MiB gives 440: {choice:?}");
    assert_eq!(run.findings.ended, Some(StoreSweepEnd::Settled));
    assert!(run.ended_s < 60.0, "{} s", run.ended_s);
    assert_eq!(run.findings.throttling, []);
    let one = run.findings.one_connection_mb_per_s.expect("the climb has it");
    assert!((one - 64.6).abs() < 0.5, "{one} MB/s");
}

#[test]
fn rows_are_what_the_model_gives() {
    let store = ModelStore { link: 600e6, ..ModelStore::default() };
    let run = run(store);
    let rows = run.findings.connections.iter().chain(&run.findings.parts);
    let mut rows_seen = 0;
    for row in rows {
        let expected = rate(store, row.part_kib, row.connections);
        let off = row.mb_per_s / expected - 1.0;
        assert!(off.abs() < 0.03, "{row:?}: {expected} MB/s");
        assert!((row.requests_per_s * row.part_kib as f64 * 1.024e-3 - row.mb_per_s).abs() < 1e-6);
        rows_seen += 1;
    }
    assert!(rows_seen >= 8, "{rows_seen} rows");
}

#[test]
fn where_connections_are_the_limit_all_are_used_and_it_is_said() {
    let store = ModelStore { link: 1e12, ..ModelStore::default() };
    let choice = chosen(&run(store));
    assert!(choice.connections == 64 && choice.is_most_connections, "{choice:?}");
    assert!(choice.part_kib >= 8192, "a first byte is a fifth of a part of 8 MiB: {choice:?}");
}

#[test]
fn where_one_connection_is_enough_one_is_chosen() {
    let store = ModelStore { latency_s: 0.002, link: 50e6, ..ModelStore::default() };
    let choice = chosen(&run(store));
    assert_eq!(choice.connections, 1, "{choice:?}");
    // 4 MiB take 84 ms and 2 ms.
    assert!((2048..=8192).contains(&choice.part_kib), "{choice:?}");
}

#[test]
fn latency_and_connections_are_timed() {
    let found = run(ModelStore::default()).findings;
    let small = found.small_reads.expect("small reads");
    let (first, whole) = (small.first_byte_ms, small.whole_ms);
    assert!((first.p50 - 25.0).abs() < 0.01 && first.p99.is_some(), "{small:?}");
    assert!(whole.p50 > first.p50 && small.reads >= 100, "{small:?}");
    let connection = found.new_connection.expect("connections");
    assert!((connection.median_ms - 12.0).abs() < 0.01, "{connection:?}");
}

#[test]
fn connections_that_are_refused_are_respected() {
    let store = ModelStore { requests_at_once: 15, link: 10e9, ..ModelStore::default() };
    let run = run(store);
    let [seen] = &*run.findings.throttling else { panic!("{:?}", run.findings.throttling) };
    assert_eq!((seen.connections, seen.part_kib), (16, 8192), "the climb finds it");
    assert!(seen.refused > 0 && seen.requests_per_s > 1.0, "{seen:?}");
    let all = transfers(&run);
    let at = all.iter().position(|(_, is_refused)| *is_refused).expect("once");
    assert!(all[at + 1..].iter().all(|(step, _)| step.point.connections < 16), "never again");
    let next = run.steps.iter().skip_while(|(_, result)| result.spent.throttled == 0).nth(1);
    assert!(matches!(next, Some((StoreStep::Pause(_), _))), "it pauses first: {next:?}");
    assert_eq!(chosen(&run).connections, 8);
}

#[test]
fn a_limit_of_requests_leaves_out_small_parts() {
    let store = ModelStore { requests_per_s: 320.0, link: 600e6, ..ModelStore::default() };
    let run = run(store);
    assert!(!run.findings.throttling.is_empty(), "1 MiB would take 440 a second");
    let choice = chosen(&run);
    let takes = choice.mb_per_s * 1e6 / (choice.part_kib << 10) as f64;
    assert!(takes < 320.0, "{choice:?}");
    for seen in &run.findings.throttling {
        let asks_as_much =
            choice.part_kib <= seen.part_kib && choice.connections >= seen.connections;
        assert!(!asks_as_much, "{choice:?} {seen:?}");
    }
}

#[test]
fn a_store_that_refuses_everything_is_left_alone() {
    let store = ModelStore { requests_at_once: 0, ..ModelStore::default() };
    let run = run(store);
    assert_eq!(run.findings.ended, Some(StoreSweepEnd::Throttled));
    assert_eq!((run.findings.chosen, transfers(&run).len()), (None, 1), "{:?}", run.findings);
}

#[test]
fn a_store_that_gets_slower_favours_no_point() {
    let store = ModelStore { link: 600e6, ..ModelStore::default() };
    let steady = chosen(&run(store));
    let found = run(ModelStore { slower: 0.4, ..store });
    let choice = chosen(&found);
    assert_eq!(choice.connections, steady.connections, "{choice:?}");
    assert!(choice.part_kib <= 2 * steady.part_kib, "{choice:?} {steady:?}");
}

/// Each point of a round once, in an order that differs from round to round.
#[test]
fn rounds_are_interleaved() {
    let run = run(ModelStore { link: 600e6, ..ModelStore::default() });
    let is_reference = |(step, _): &&(TransferStep, bool)| step.point.part.0 == 8 << 20;
    let all = transfers(&run);
    let climb = all.iter().filter(is_reference).count();
    assert!(climb > 10, "{climb}");
    let parts: Vec<u64> = all.iter().rev().take(12).map(|(step, _)| step.point.part.0).collect();
    assert!(parts.windows(2).any(|pair| pair[0] > pair[1]), "{parts:?}");
    assert!(parts.windows(2).any(|pair| pair[0] < pair[1]), "{parts:?}");
}

#[test]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "random sizes")]
fn no_store_takes_more_than_the_bounds() {
    let mut random = 7_u64;
    let mut unit = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (random >> 11) as f64 / (1_u64 << 53) as f64
    };
    for seed in 0..300 {
        let store = ModelStore {
            latency_s: 10_f64.powf(-4.0 + 3.5 * unit()),
            jitter: 3.0 * unit() * unit(),
            connection: 10_f64.powf(5.0 + 4.5 * unit()),
            link: 10_f64.powf(5.5 + 4.5 * unit()),
            connect_s: 0.1 * unit(),
            requests_per_s: 10_f64.powf(1.0 + 5.0 * unit()),
            requests_at_once: if unit() < 0.2 { 12 } else { u32::MAX },
            slower: 0.3 * unit(),
        };
        let settings = StoreSweepSettings {
            budget: Duration::from_secs_f64(10.0 + 100.0 * unit()),
            bytes: ByteCount(2_u64.pow(26 + (8.0 * unit()) as u32)),
            object: ByteCount((8_u64 << 20) + (2_u64.pow(33) as f64 * unit() * unit()) as u64),
            connections_max: 64,
            seed,
        };
        let run = store.run(settings, usize::MAX);
        let found = &run.findings;
        let context = format!("seed {seed} {store:?} {settings:?} {found:#?}");
        assert!(found.asked.bytes <= settings.bytes.0, "{context}");
        let retried = found.asked.throttled * 2;
        assert!(found.asked.requests <= settings.plan().requests + 64 + retried, "{context}");
        let budget = settings.budget.as_secs_f64();
        assert!(run.ended_s <= budget * 1.1 + 1.0, "{} s: {context}", run.ended_s);
        assert!(found.ended.is_some(), "{context}");
        assert!(found.chosen.is_some() || !found.notes.is_empty(), "it says why: {context}");
    }
}

#[test]
fn what_is_chosen_gives_what_the_best_gives() {
    let mut worst: f64 = 1.0;
    for (seed, link) in [(1, 300e6), (2, 600e6), (3, 900e6), (4, 300e6), (5, 600e6), (6, 900e6)] {
        for latency_s in [0.005, 0.03, 0.1] {
            let store = ModelStore { latency_s, link, jitter: 1.5, ..ModelStore::default() };
            let run = store.run(StoreSweepSettings { seed, ..settings() }, usize::MAX);
            let choice = chosen(&run);
            let best = run.findings.connections.iter().chain(&run.findings.parts);
            let best = best.map(|row| rate(store, row.part_kib, row.connections));
            let best = best.fold(0.0, f64::max);
            let share = rate(store, choice.part_kib, choice.connections) / best;
            worst = worst.min(share);
        }
    }
    assert!(worst > 0.94, "{worst}");
}

#[test]
fn a_small_object_is_measured_with_smaller_parts() {
    let settings = StoreSweepSettings { object: ByteCount(64 << 20), ..settings() };
    let store = ModelStore { link: 300e6, latency_s: 0.005, ..ModelStore::default() };
    let run = store.run(settings, usize::MAX);
    let notes = run.findings.notes.join("\n");
    assert!(notes.contains("67108864 bytes") && notes.contains("read twice"), "{notes}");
    for (step, _) in transfers(&run) {
        let part = step.point.part.0;
        assert!(step.point.in_flight().0 <= 64 << 20 && part <= 4 << 20, "{step:?}");
        assert!(step.start + part <= 64 << 20, "{step:?}");
    }
    assert!(chosen(&run).connections >= 4, "{:?}", run.findings.chosen);
}

#[test]
fn a_slow_link_is_measured_with_parts_that_take_no_minute() {
    let run = run(ModelStore { connection: 2e6, link: 2e6, ..ModelStore::default() });
    let largest = transfers(&run).iter().map(|(step, _)| step.point.part.0).max();
    assert!(largest <= Some(4 << 20), "{largest:?}");
    let choice = chosen(&run);
    assert!(choice.connections <= 2 && run.ended_s < 62.0, "{choice:?} {}", run.ended_s);
}

#[test]
fn stopped_anywhere_it_says_what_is_known() {
    let store = ModelStore { link: 600e6, ..ModelStore::default() };
    let all = run(store).steps.len();
    for steps in 0..all {
        let found = store.run(settings(), steps).findings;
        assert_eq!(found.ended, None, "{steps} of {all}");
        let is_said = found.notes.iter().any(|note| note.contains("too little was measured"));
        assert_eq!(found.chosen.is_none(), is_said, "{steps}: {found:?}");
    }
    let early = store.run(settings(), 2).findings;
    assert!(early.small_reads.is_some() && early.new_connection.is_some(), "{early:?}");
}
