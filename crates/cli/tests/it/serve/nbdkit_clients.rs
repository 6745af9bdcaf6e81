//! nbdinfo and nbdcopy, libnbd's own tools.

use std::fs;

use crate::common::{Command, Need, needs};
use crate::serve::server::{Place, bytes, printed, refused};

fn nbdinfo(args: &[&str], uri: &str) -> Command {
    let mut command = Command::new("nbdinfo");
    command.args(args).arg(uri);
    command
}

fn nbdcopy(args: &[&str]) -> Command {
    let mut command = Command::new("nbdcopy");
    command.args(args);
    command
}

#[test]
fn nbdinfo_sees_an_export_with_all_that_it_can() {
    if !needs(Need::Tool("nbdinfo"), "nbdinfo_sees_an_export_with_all_that_it_can") {
        return;
    }
    let place = Place::new();
    let file = place.file("disk", (4 << 20) + 100);
    let server = place.serve(&file, &[]);
    let uri = server.uri();
    let plain = printed(&mut nbdinfo(&[], &uri));
    for part in ["newstyle-fixed without TLS, using structured packets", "export-size: 4194404"] {
        assert!(plain.contains(part), "{part}: {plain}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&printed(&mut nbdinfo(&["--json"], &uri))).unwrap();
    let export = &json["exports"][0];
    assert_eq!(export["export-name"], "");
    assert_eq!(export["export-size"], (4 << 20) + 100);
    assert_eq!(export["is_read_only"], false);
    assert_eq!(export["contexts"], serde_json::json!(["base:allocation"]));
    assert_eq!(printed(&mut nbdinfo(&["--size"], &uri)), "4194404\n");
    for what in
        ["connect", "read", "write", "flush", "fua", "trim", "zero", "cache", "df", "multi-conn"]
    {
        printed(&mut nbdinfo(&["--can", what], &uri));
    }
    refused(&mut nbdinfo(&["--is", "read-only"], &uri));
    refused(&mut nbdinfo(&["--is", "rotational"], &uri));
    refused(&mut nbdinfo(&["--is", "tls"], &uri));
    server.stop();
}

#[test]
fn nbdinfo_lists_names_and_sees_what_is_read_only() {
    if !needs(Need::Tool("nbdinfo"), "nbdinfo_lists_names_and_sees_what_is_read_only") {
        return;
    }
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &["--read-only", "--export", "some disk"]);
    let list = printed(&mut nbdinfo(&["--list"], &server.uri()));
    assert!(list.contains("export=\"some disk\""), "{list}");
    let uri = format!("nbd+unix:///some%20disk?socket={}", server.socket.display());
    printed(&mut nbdinfo(&["--is", "read-only"], &uri));
    for what in ["write", "trim", "zero"] {
        refused(&mut nbdinfo(&["--can", what], &uri));
    }
    let other = format!("nbd+unix:///other?socket={}", server.socket.display());
    refused(&mut nbdinfo(&[], &other));
    server.stop();
}

#[test]
fn nbdinfo_maps_what_is_data_and_what_is_not() {
    if !needs(Need::Tool("nbdinfo"), "nbdinfo_maps_what_is_data_and_what_is_not") {
        return;
    }
    let place = Place::new();
    let path = place.path("disk");
    let file = fs::File::create(&path).unwrap();
    file.set_len(16 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes(1 << 20), 4 << 20).unwrap();
    file.sync_all().unwrap();
    let server = place.serve(&path, &[]);
    let map = |args: &[&str]| printed(&mut nbdinfo(args, &server.uri()));
    let json: serde_json::Value = serde_json::from_str(&map(&["--map", "--json"])).unwrap();
    let extents: Vec<_> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["offset"].as_u64().unwrap(), one["length"].as_u64().unwrap(), &one["type"]))
        .collect();
    // A hole, data, a hole: 3 is a hole that reads as zeroes.
    let (mib, hole, data) = (1 << 20, &serde_json::json!(3), &serde_json::json!(0));
    assert_eq!(extents, [(0, 4 * mib, hole), (4 * mib, mib, data), (5 * mib, 11 * mib, hole)]);
    assert_eq!(map(&["--map"]).lines().count(), 3);
    server.stop();
}

#[test]
fn nbdcopy_copies_out_what_the_file_has() {
    if !needs(Need::Tool("nbdcopy"), "nbdcopy_copies_out_what_the_file_has") {
        return;
    }
    // Larger than the memory, of an odd length, with a hole.
    let place = Place::new();
    let len = (24 << 20) + 12_345;
    let file = place.file("disk", len);
    let mut expected = bytes(len);
    let hole = fs::File::options().write(true).open(&file).unwrap();
    let (from, hole_len) = (8 << 20, 1 << 20);
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    if rustix::fs::fallocate(&hole, flags, from, hole_len).is_ok() {
        expected[8 << 20..9 << 20].fill(0);
    }
    let server = place.serve(&file, &["--memory", "4M"]);
    for flags in [&[][..], &["--connections=1", "--requests=1"], &["--connections=8"]] {
        let copy = place.path("copy");
        let _ = fs::remove_file(&copy);
        printed(nbdcopy(flags).arg(server.uri()).arg(&copy));
        assert!(fs::read(&copy).unwrap() == expected, "{flags:?}");
    }
    server.stop();
}

#[test]
fn nbdcopy_copies_in_and_a_flush_is_a_flush() {
    if !needs(Need::Tool("nbdcopy"), "nbdcopy_copies_in_and_a_flush_is_a_flush") {
        return;
    }
    let place = Place::new();
    let len = (24 << 20) + 12_345;
    let source = place.path("source");
    let mut expected = bytes(len);
    expected.reverse();
    fs::write(&source, &expected).unwrap();
    for (flags, connections) in
        [(&[][..], "4"), (&["--connections=8"], "8"), (&["--synchronous"], "1")]
    {
        let file = place.file("disk", len);
        let server = place.serve(&file, &["--memory", "4M", "--dirty-age", "3600s"]);
        printed(nbdcopy(&["--flush"]).args(flags).arg(&source).arg(server.uri()));
        // Flushed: no clean end is needed.
        server.kill();
        assert!(fs::read(&file).unwrap() == expected, "{connections} connections");
        fs::remove_file(place.path("sock")).unwrap();
    }
}

#[test]
fn nbdcopy_copies_from_one_server_to_another() {
    if !needs(Need::Tool("nbdcopy"), "nbdcopy_copies_from_one_server_to_another") {
        return;
    }
    let place = Place::new();
    let (from, to) = (place.file("from", 9 << 20), place.path("to"));
    fs::write(&to, vec![1; 9 << 20]).unwrap();
    let source = place.serve(&from, &["--read-only", "--memory", "2M"]);
    let sink = place.serve_at(&place.path("sink"), &to, &["--memory", "2M"]);
    printed(nbdcopy(&[]).arg(source.uri()).arg(sink.uri()));
    source.stop();
    sink.stop();
    assert!(fs::read(&to).unwrap() == bytes(9 << 20));
}

#[test]
fn a_command_copies_from_the_server_that_runs_it() {
    if !needs(Need::Tool("nbdcopy"), "a_command_copies_from_the_server_that_runs_it") {
        return;
    }
    let place = Place::new();
    let file = place.file("disk", 5 << 20);
    let mut serve = crate::serve::server::foreread(&["serve"]);
    serve.arg(&file).args(["--read-only", "--run", "nbdcopy \"$uri\" - | cksum"]);
    let expected = printed(Command::new("sh").arg("-c").arg(format!("cksum < {}", file.display())));
    assert_eq!(printed(&mut serve), expected);
}
