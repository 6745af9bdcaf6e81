//! `--save` and `--trace` leave what foreread did not write.
//!
//! In:    the real binary; a file of every kind in the place of its output.
//! Out:   a refusal before any work, or the output whole.
//! Never: a file changed that is no earlier output of the same command.

use crate::common;
use crate::common::Command;
use crate::said::{self, LAB, program};

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Need, needs, scratch, skip, unmount};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tempfile::TempDir;

/// A command with an output, in a folder of its own.
struct Case {
    folder: TempDir,
    verb: &'static [&'static str],
    flag: &'static str,
    /// What the command reads, and what it calls that.
    input: &'static str,
    called: &'static str,
}

/// Each verb that writes a file where the user says.
fn cases() -> [Case; 3] {
    let case = |verb, flag, input, called| {
        let folder = TempDir::new_in(scratch()).unwrap();
        fs::write(folder.path().join("small.toml"), said::one_reader(3000)).unwrap();
        fs::write(folder.path().join("disk"), vec![7; 64 << 20]).unwrap();
        Case { folder, verb, flag, input, called }
    };
    let bench = &["bench", "--pattern", "hot-small", "--method", "foreread", "--runs", "1"];
    let flood: &[&str] =
        &["bench", "--pattern", "flood", "--overwrite", "--method", "foreread", "--runs", "1"];
    [
        case(&["sim"], "--trace", "small.toml", "the scenario"),
        case(bench, "--save", "disk", "TARGET"),
        case(flood, "--save", "disk", "TARGET"),
    ]
}

impl Case {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, to: &Path) -> Output {
        let mut command = Command::new(program(self.verb));
        command.args(self.verb).arg(self.path(self.input)).arg(self.flag).arg(to);
        command.output().unwrap()
    }

    /// Refused before any work, with a line that contains `hint`; `to` is as it was before.
    #[track_caller]
    fn leaves(&self, to: &Path, hint: &str) {
        let is = |it: &fs::Metadata| (it.ino(), it.mode(), it.len(), it.mtime(), it.mtime_nsec());
        let before = fs::symlink_metadata(to).unwrap();
        let output = self.run(to);
        let line = String::from_utf8_lossy(&output.stderr);
        let context = format!("{} {}: {line}", self.verb[0], to.display());
        assert_eq!(output.status.code(), Some(2), "{context}");
        assert!(output.stdout.is_empty(), "{context}");
        assert!(line.contains(hint) && line.contains(self.flag), "{context}");
        assert_eq!(line.lines().count(), 1, "{context}");
        assert_eq!(is(&before), is(&fs::symlink_metadata(to).unwrap()), "{context}");
    }

    fn names(&self) -> usize {
        fs::read_dir(self.folder.path()).unwrap().count()
    }
}

#[test]
fn an_output_that_names_something_else_is_refused_and_left() {
    for case in cases() {
        fs::write(case.path("theirs"), "theirs\n").unwrap();
        fs::write(case.path("numbers"), "0.5 1.5\n1.5 2.5\n").unwrap();
        fs::write(case.path("json"), "[\n  {\"name\":1}\n]\n").unwrap();
        fs::write(case.path("empty"), "").unwrap();
        symlink(case.path("empty"), case.path("link")).unwrap();
        symlink(case.path("nothing"), case.path("dangling")).unwrap();
        fs::hard_link(case.path("empty"), case.path("second-name")).unwrap();
        fs::hard_link(case.path(case.input), case.path("of-input")).unwrap();
        fs::create_dir(case.path("folder")).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, case.path("fifo"), FileType::Fifo, mode, 0).unwrap();
        let before = case.names();
        for (name, hint) in [
            (case.input, &*format!("would replace {}", case.called)),
            ("of-input", &format!("would replace {}", case.called)),
            ("theirs", "exists and was not written by this command"),
            ("numbers", "exists and was not written by this command"),
            ("json", "exists and was not written by this command"),
            ("link", "is a symbolic link"),
            ("dangling", "is a symbolic link"),
            ("second-name", "has 2 names"),
            ("folder", "is a directory"),
            ("fifo", "is a FIFO"),
        ] {
            case.leaves(&case.path(name), hint);
        }
        assert_eq!(case.names(), before, "nothing was made");
    }
}

#[test]
fn a_device_node_is_refused_and_left() {
    const NAME: &str = "a_device_node_is_refused_and_left";
    if !needs(Need::Root, NAME) {
        return;
    }
    for case in cases() {
        let full = case.path("full");
        let mode = Mode::from_raw_mode(0o600);
        let kind = FileType::CharacterDevice;
        if let Err(error) = mknodat(CWD, &full, kind, mode, makedev(1, 7)) {
            return skip(NAME, &format!("no device nodes here: {error}"));
        }
        case.leaves(&full, "is a character device");
        assert!(fs::symlink_metadata(&full).unwrap().file_type().is_char_device());
    }
}

#[test]
fn an_earlier_output_and_an_empty_file_are_replaced() {
    for case in &cases()[..2] {
        let (to, before) = (case.path("result"), case.names());
        fs::write(&to, "").unwrap();
        for _ in 0..2 {
            let output = case.run(&to);
            assert!(output.status.success(), "{output:?}");
            assert!(fs::metadata(&to).unwrap().len() > 100);
        }
        assert_eq!(case.names(), before + 1, "no temporary file stays");
        // A run that cannot begin leaves the earlier output whole.
        let whole = fs::read(&to).unwrap();
        fs::remove_file(case.path(case.input)).unwrap();
        assert_eq!(case.run(&to).status.code(), Some(2));
        assert_eq!(fs::read(&to).unwrap(), whole);
    }
}

#[test]
fn streams_are_written_as_they_are() {
    let case = &cases()[0];
    let to_file = case.path("trace");
    assert!(case.run(&to_file).status.success());
    let trace = fs::read_to_string(&to_file).unwrap();
    for stdout in ["-", "/dev/stdout", "/dev/fd/1"] {
        let output = case.run(Path::new(stdout));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(&trace) && text.len() > trace.len(), "{stdout}");
    }
    assert!(case.run(Path::new("/dev/null")).status.success());
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    // What a shell makes of `--trace >(cat)`.
    let line = format!(
        "exec 3>&1; {} sim {} --trace /dev/fd/3 >/dev/null",
        LAB,
        case.path("small.toml").display()
    );
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), trace);
}

/// One of them was refused after the work, as "replaced by another process just now".
#[test]
fn two_outputs_of_a_command_are_not_one_file() {
    let folder = TempDir::new_in(scratch()).unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (scenario, disk, trace) = (at("small.toml"), at("disk"), at("trace.csv"));
    let (plain, linked) = (at("x"), at("link/x"));
    fs::write(&scenario, said::one_reader(3000)).unwrap();
    fs::write(&disk, vec![7; 1 << 20]).unwrap();
    fs::write(&trace, "time_ns,op,offset,length\n0,r,0,4096\n").unwrap();
    symlink(folder.path(), at("link")).unwrap();
    let page = "--html";
    let unix = at("sock");
    let commands: [(&[&str], &str, &str); 14] = [
        (&["sim", &scenario], "--trace", page),
        (&["sim", &scenario, "--seeds", "2"], page, "--csv"),
        (&["sim", &scenario], "--trace", "--series"),
        (&["replay", &trace], page, "--csv"),
        (&["replay", &trace], page, "--series"),
        (&["replay", &trace], "--csv", "--series"),
        (&["bench", &disk, "--pattern", "hot-small", "--runs", "1"], "--save", page),
        (&["doctor"], "--prometheus", page),
        (&["tune", "--device", "sd-card"], page, "--device-model"),
        (&["tune", &disk, "--yes"], page, "--device-model"),
        (&["serve", &disk, "--unix", &unix], "--pid-file", "--record"),
        (&["serve", &disk], "--unix", "--record"),
        (&["serve", "http://127.0.0.1:9/x", "--unix", &unix], "--overlay", "--record"),
        (&["mount", &disk, &at("folder")], "--control", "--record"),
    ];
    let before = fs::read_dir(folder.path()).unwrap().count();
    for (command, first, second) in commands {
        for other in [plain.as_str(), &linked] {
            let line = said::refused(&[command, &[first, &plain, second, other]].concat());
            let says = format!("{second} {other}: {first} is written there; give one of them");
            assert!(line.contains(&says), "{command:?}: {line}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before, "{command:?}");
    }
    let both = ["sim", &scenario, "--trace", "-", page, "/dev/stdout"];
    assert!(said::refused(&both).contains("--html /dev/stdout: --trace is written there"));
    // What the shell has opened is empty, and would take the place of an earlier result.
    let redirected = at("redirected");
    for stream in ["stdout", "stderr"] {
        let mut command = Command::new(LAB);
        command.args(["sim", &scenario, "--trace", &redirected]);
        let file = fs::File::create(&redirected).unwrap();
        let output = match stream {
            "stdout" => command.stdout(file).output(),
            _ => command.stderr(file).output(),
        };
        assert_eq!(output.unwrap().status.code(), Some(2), "{stream}");
        let kept = fs::read_to_string(&redirected).unwrap();
        assert!(stream == "stdout" || kept.contains("is the destination of stderr"), "{kept}");
        assert!(stream == "stderr" || kept.is_empty(), "{kept}");
    }
    let nothing = ["sim", &scenario, "--trace", "/dev/null", page, "/dev/null"];
    assert!(said::foreread(&nothing).status.success(), "it takes any number");
}

/// A program that reads the one would be given the other behind it.
#[test]
fn json_and_a_page_do_not_share_stdout() {
    for verb in [&["seeds"][..], &["doctor"], &["sim", "rivals"], &["tune", "--device", "sd-card"]]
    {
        for stdout in ["-", "/dev/stdout", "/dev/fd/1"] {
            let line = said::refused(&[verb, &["--json", "--html", stdout]].concat());
            let says = format!("--html {stdout}: --json is written there; give the page a file");
            assert!(line.contains(&says), "{verb:?}: {line}");
        }
    }
}

/// A file system of 64 KiB is full before the trace is written.
#[test]
fn where_there_is_no_room_the_earlier_output_stays() {
    const NAME: &str = "where_there_is_no_room_the_earlier_output_stays";
    if !needs(Need::Root, NAME) {
        return;
    }
    let case = &cases()[0];
    assert!(case.run(&case.path("trace")).status.success());
    let trace = fs::read_to_string(case.path("trace")).unwrap();
    let small = case.path("small");
    fs::create_dir(&small).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=64k", "none"];
    assert!(Command::new("mount").args(mount).arg(&small).status().unwrap().success());
    let first = trace.lines().next().unwrap().to_owned() + "\n";
    fs::write(small.join("trace"), &first).unwrap();
    fs::write(small.join("fill"), vec![1; 56 << 10]).unwrap();
    let output = case.run(&small.join("trace"));
    let kept = fs::read_to_string(small.join("trace")).unwrap();
    let names = fs::read_dir(&small).unwrap().count();
    unmount(&small).unwrap();
    let line = String::from_utf8_lossy(&output.stderr);
    assert!(trace.len() > 64 << 10, "{}", trace.len());
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(line.contains("cannot write it: No space left"), "{line}");
    assert!(!output.stdout.is_empty(), "the result itself is printed all the same");
    assert_eq!((kept, names), (first, 2));
}
