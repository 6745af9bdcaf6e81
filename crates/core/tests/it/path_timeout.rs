//! The time at which a path needs to be called although nothing happens.

use foreread_core::geometry::Geometry;
use foreread_core::path::{Config, IoPath};
use foreread_core::prefetch::{Policy, Rules};
use foreread_core::sched::{Op, Origin, SchedulerKind, Submitter};
use foreread_core::units::{ByteCount, Nanos, Pages, Sector, Sectors};

const MS: u64 = 1_000_000;

/// A driver that was given a time in the past, and could do nothing, called again at once for as
/// long as the device was busy.
#[test]
fn a_device_without_room_is_not_waited_for_by_time() {
    let config = Config {
        memory: ByteCount(1 << 20),
        policy: Policy::None,
        max_window: Pages(1),
        rules: Rules::default(),
    };
    let mut path = IoPath::new(config);
    let geometry = Geometry { depth: 1, ..Geometry::new(ByteCount(1 << 30)) };
    let cfq = SchedulerKind::from_name("cfq").expect("a scheduler with time slices");
    let device = path.add_device(geometry, &cfq);
    for submitter in [1, 2] {
        for place in 0..2 {
            let origin =
                Origin { op: Op::Read, submitter: Submitter(submitter), ..Origin::default() };
            let start = Sector(u64::from(submitter) * 1000 + place * 100);
            path.direct(Nanos(0), device, start, Sectors(8), origin);
        }
    }
    // The second begins the slice of the first submitter; the device has no room for more.
    let mut now = 0;
    for _ in 0..2 {
        let io = path.poll_dispatch(Nanos(now)).expect("it has room");
        assert_eq!(path.poll_dispatch(Nanos(now)), None);
        assert_eq!(path.poll_timeout(), None, "a completion comes first");
        now += 1000 * MS;
        path.timeout(Nanos(now));
        assert_eq!(path.poll_dispatch(Nanos(now)), None);
        assert_eq!(path.poll_timeout(), None, "the slice is over, but there is no room");
        path.complete(Nanos(now), io.tag, Ok(io.len));
    }
    assert!(path.poll_dispatch(Nanos(now)).is_some(), "and now there is");
}
