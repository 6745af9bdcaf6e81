//! What is recorded of a command.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::common::{Command, Need, needs};
use crate::record::recorded::{UNPRIVILEGED, file, folder_of_all_users, of, recorded, run};
use crate::said::{json, refused, stdout};

#[test]
fn each_read_of_dd_is_recorded_and_the_last_is_cut_at_the_end_of_the_file() {
    let folder = TempDir::new().unwrap();
    file(folder.path(), "data", 10_000);
    let test = "each_read_of_dd_is_recorded_and_the_last_is_cut_at_the_end_of_the_file";
    let command = ["dd", "if=data", "of=copy", "bs=4096", "status=none"];
    let Some((output, reads)) = recorded(test, folder.path(), &command) else { return };
    assert!(output.status.success(), "{output:?}");
    assert_eq!(of(&reads, "/data"), [(0, 4096), (4096, 4096), (8192, 1808)]);
    let [copy, data] = ["copy", "data"].map(|name| fs::read(folder.path().join(name)).unwrap());
    assert!(copy == data, "the program reads what it would read");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("trace.csv: ") && said.contains(" reads of "), "{said}");
}

/// All calls, by threads and by children, from descriptors that were duplicated and inherited.
const PYTHON: &str = r#"
import mmap, os, subprocess, sys, threading
data = os.open("data", os.O_RDONLY)
assert os.read(data, 100) == open("data", "rb").read(100)
os.pread(data, 200, 1000)
os.readv(data, [bytearray(30), bytearray(40)])
os.preadv(data, [bytearray(50), bytearray(60)], 3000)
other = os.dup(data)
os.lseek(other, 5000, os.SEEK_SET)
os.read(data, 11)
out = os.open("out", os.O_WRONLY | os.O_CREAT)
os.sendfile(out, data, 6000, 12)
os.copy_file_range(data, out, 13, offset_src=7000)
thread = threading.Thread(target=lambda: os.pread(data, 14, 8000))
thread.start()
thread.join()
if os.fork() == 0:
    os.pread(data, 15, 8100)
    os._exit(0)
os.wait()
os.set_inheritable(data, True)
os.lseek(data, 9000, os.SEEK_SET)
subprocess.run(["dd", "bs=16", "count=1", "status=none", "of=/dev/null"], stdin=data)
os.pread(data, 100, 1 << 40)
large = os.open("large", os.O_RDWR | os.O_CREAT)
os.truncate(large, 4 << 20)
mmap.mmap(large, 4 << 20, prot=mmap.PROT_READ)
subprocess.run([sys.executable, "-c", "import os; os.read(os.open('/proc/self/stat', 0), 99)"])
"#;

#[test]
fn all_calls_of_threads_and_children_are_recorded() {
    let test = "all_calls_of_threads_and_children_are_recorded";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    file(folder.path(), "data", 10_000);
    let command = ["python3", "-I", "-S", "-c", PYTHON];
    let Some((output, reads)) = recorded(test, folder.path(), &command) else { return };
    assert!(output.status.success(), "{output:?}");
    let found = of(&reads, "/data");
    for expected in [
        (0, 100),
        (1000, 200),
        (100, 70),
        (3000, 110),
        (5000, 11),
        (6000, 12),
        (7000, 13),
        (8000, 14),
        (8100, 15),
        (9000, 16),
    ] {
        assert_eq!(found.iter().filter(|read| **read == expected).count(), 1, "{expected:?}");
    }
    assert!(!found.iter().any(|(offset, _)| *offset > 10_000), "nothing is behind the end");
    let of_data = reads.iter().filter(|read| read.file.ends_with("/data"));
    let mut threads: Vec<u32> = of_data.map(|read| read.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 4, "itself, its thread, its fork, dd");
    assert!(!reads.iter().any(|read| read.file.starts_with("/proc")), "{reads:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(" mappings of files of "), "{said}");
}

#[test]
fn what_is_recorded_is_replayed() {
    let test = "what_is_recorded_is_replayed";
    for tool in ["sqlite3", "tar"] {
        if !needs(Need::Tool(tool), test) {
            return;
        }
    }
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let make = "create table t (v); with recursive n(i) as (select 1 union all select i + 1 from n \
                where i < 3000) insert into t select hex(randomblob(200)) from n";
    let made = Command::new("sqlite3").args(["t.db", make]).current_dir(path).status().unwrap();
    assert!(made.success());
    let script = "sqlite3 t.db 'select sum(length(v)) from t' && tar -cf - t.db | cat >/dev/null";
    let trace = path.join("trace.frt");
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_foreread"));
    recorder.args(["record", "--hash-names", "-o", "trace.frt", "--", "sh", "-c", script]);
    let Some((output, _)) = run(test, recorder.current_dir(path)) else { return };
    assert!(output.status.success() && output.stdout == b"1200000\n", "{output:?}");
    let trace = trace.to_str().unwrap();
    let summary = &json(&["trace", trace, "--json"])[0];
    assert_eq!(
        (summary["format"].as_str(), summary["level"].as_str()),
        (Some("foreread"), Some("file"))
    );
    let bytes = summary["read_bytes"].as_u64().unwrap();
    assert!(bytes > 2 * fs::metadata(path.join("t.db")).unwrap().len() * 9 / 10, "{summary}");
    let files = summary["files"].as_array().unwrap();
    let is_hash = |name: &str| name.len() == 17 && name.starts_with('h');
    assert!(files.iter().all(|file| is_hash(file["name"].as_str().unwrap())), "{files:?}");
    let rows = json(&["replay", trace, "--scale", "0", "--memory", "4M", "--json"]);
    let waited = |row: usize| rows[row]["waited_s"].as_f64().unwrap();
    assert!(waited(1) < waited(0), "read-ahead helps a scan: {} {}", waited(1), waited(0));
    // Formats of the field have it, too.
    let other = path.join("iolog");
    let to = ["trace", trace, "--to", "fio-3", "--output", other.to_str().unwrap()];
    assert_eq!(stdout(&to), "");
    assert_eq!(json(&["trace", other.to_str().unwrap(), "--json"])[0]["read_bytes"], bytes);
}

/// Root is not needed; what only root could see is counted.
#[test]
fn an_unprivileged_user_records_and_a_process_that_hides_itself_is_counted() {
    let test = "an_unprivileged_user_records_and_a_process_that_hides_itself_is_counted";
    for need in [Need::Root, Need::Tool("setpriv"), Need::Tool("python3")] {
        if !needs(need, test) {
            return;
        }
    }
    let folder = folder_of_all_users();
    let path = folder.path();
    file(path, "data", 5000);
    // 4 is PR_SET_DUMPABLE.
    let hides = "cat data >/dev/null; /usr/bin/python3 -I -S -c 'import ctypes, os\n\
                 ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n\
                 print(len(os.read(os.open(\"data\", 0), 99)))'";
    let mut recorder = Command::new(UNPRIVILEGED[0]);
    recorder.args(&UNPRIVILEGED[1..]).args(["./foreread", "record"]).args([
        "-o",
        "trace.csv",
        "--",
        "sh",
        "-c",
        hides,
    ]);
    let Some((output, said)) = run(test, recorder.current_dir(path)) else { return };
    assert!(output.status.success() && output.stdout == b"99\n", "{output:?}");
    let trace = fs::read_to_string(path.join("trace.csv")).unwrap();
    assert!(trace.contains("/data,0,5000,0\n") && !trace.contains("/data,0,99,0"), "{trace}");
    assert!(said.contains("1 reads are missing"), "{said}");
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let line = refused(&["record", "-o", &path("trace"), "--", "/nowhere/program"]);
    assert!(line.contains("cannot start /nowhere/program"), "{line}");
    assert!(!Path::new(&path("trace")).exists());
    fs::write(path("mine"), "mine").unwrap();
    let line = refused(&["record", "-o", &path("mine"), "--", "true"]);
    assert!(line.contains("was not written by"), "{line}");
    assert!(refused(&["record", "--", "true"]).contains("--output"));
    for stdout in ["-", "/dev/stdout"] {
        let line = refused(&["record", "-o", stdout, "--", "true"]);
        assert!(line.contains("stdout is the command's; give the trace a file"), "{line}");
    }
    assert!(refused(&["record", "-o", &path("trace")]).contains("COMMAND"));
}

/// A name with a blank would be another file to fio; the reads of a program that ran are kept.
#[test]
fn names_that_fio_cannot_hold_are_hashed_and_said() {
    let test = "names_that_fio_cannot_hold_are_hashed_and_said";
    let folder = TempDir::new().unwrap();
    file(folder.path(), "a b", 5000);
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_foreread"));
    recorder.args(["record", "-o", "reads.iolog", "--", "cat", "a b"]);
    let Some((output, said)) = run(test, recorder.current_dir(folder.path())) else { return };
    assert!(output.status.success(), "{said}");
    assert!(said.contains("hashes stand for 1 names of files, which fio-3 cannot hold"), "{said}");
    let log = fs::read_to_string(folder.path().join("reads.iolog")).unwrap();
    assert!(log.contains(" read 0 5000\n") && !log.contains("a b"), "{log}");
}
