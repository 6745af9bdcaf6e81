//! Files that grow until the file system is full: the append that has no space is refused, all that
//! was acknowledged before it can be flushed, and with room again it goes on.
//!
//! In:    real file systems with little space.
//! Out:   errors that say what to do; bytes and lengths.
//! Never: space that a refused append keeps.

#![allow(clippy::cast_possible_truncation, reason = "files of tests are small")]

use crate::little_room;
use crate::recorded;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use foreread::{Engine, IoBackend, OpenOptions, WriteError, WriteErrorKind, WriteMode};
use little_room::with_little_room;
use recorded::recorded;

const MIB: u64 = 1 << 20;
const ROOM: u64 = 3 * MIB;
/// Neither whole sectors nor whole pages.
const PIECE: usize = 50_001;

fn piece(number: u64) -> Vec<u8> {
    vec![number as u8 | 1; PIECE]
}

fn is_refused(error: &WriteError) -> bool {
    let WriteErrorKind::Length { source, .. } = &error.kind else {
        return false;
    };
    error.to_string().contains("free space") && source.raw_os_error() == Some(libc::ENOSPC)
}

fn overflows(path: &Path, spare: &Path, io: IoBackend) {
    let engine = recorded(Engine::builder().memory(8 * MIB).io_backend(io));
    let options = OpenOptions::new().write(true).create_new(true);
    let file = engine.open_with(path, &options).expect("room for a name");
    let mut want = Vec::new();
    let error = loop {
        assert!(want.len() < 64 * MIB as usize, "it is never full");
        match file.append(&piece(want.len() as u64)) {
            Ok(offset) => {
                assert_eq!(offset, want.len() as u64);
                want.extend(piece(offset));
            }
            Err(error) => break error,
        }
    };
    assert!(is_refused(&error), "{error}");
    assert!(want.len() as u64 > ROOM / 2, "{} bytes had room", want.len());
    let held = || fs::metadata(path).expect("it is there").blocks();
    let blocks = held();
    for refused in [
        file.append(&vec![1; MIB as usize]).map(drop),
        file.write_all_at_with(&[1; 1 << 20], want.len() as u64 + 7000, WriteMode::Fua),
    ] {
        assert!(is_refused(&refused.expect_err("there is no room")));
        assert_eq!(file.len(), want.len() as u64, "its length is unchanged");
    }
    // Beside what the file system needs for its own lists, in sectors.
    assert!(held() <= blocks + 64, "what was refused holds {} of {blocks}", held() - blocks);
    let mut got = vec![0; want.len()];
    file.read_at(&mut got, 0).expect("bytes");
    assert!(got == want);
    file.sync_data().expect("what was acknowledged has its space");
    assert!(fs::read(path).expect("it is there") == want);
    file.set_len(1 << 40).expect("a hole takes none");
    file.set_len(want.len() as u64).expect("its length is unchanged");

    // XFS frees the blocks of a removed file in the background, those of a shortened one at once.
    fs::File::options().write(true).open(spare).expect("the spare").set_len(0).expect("shorter");
    for _ in 0..20 {
        assert_eq!(file.append(&piece(7)).expect("there is room again"), want.len() as u64);
        want.extend(piece(7));
    }
    drop(file);
    assert!(fs::read(path).expect("it is there") == want);
}

fn on(test: &str, make: &'static [&'static str], bytes: u64) {
    with_little_room(test, Some(make), (bytes, ROOM), overflows);
}

#[test]
fn appends_to_a_full_ext4() {
    on("appends_to_a_full_ext4", &["mkfs.ext4", "-q", "-m", "0"], 32 * MIB);
}

#[test]
fn appends_to_a_full_ext4_with_small_blocks() {
    let make = &["mkfs.ext4", "-q", "-m", "0", "-b", "1024"];
    on("appends_to_a_full_ext4_with_small_blocks", make, 24 * MIB);
}

#[test]
fn appends_to_a_full_xfs() {
    on("appends_to_a_full_xfs", &["mkfs.xfs", "-q"], 320 * MIB);
}

#[test]
fn appends_to_a_full_tmpfs() {
    with_little_room("appends_to_a_full_tmpfs", None, (16 * MIB, ROOM), overflows);
}
