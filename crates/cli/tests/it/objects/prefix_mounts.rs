//! `mount` of a prefix: objects as files, through the kernel's FUSE.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Stdio};

use tempfile::TempDir;

use crate::bucket_server::{BUCKET, BucketServer};
use crate::common::{Command, Need, looks_until, needs, output, scratch};
use crate::images::pattern;
use crate::mount::mounted::without_use;
use crate::objects::weed::weed;
use crate::said;

/// A mounted prefix; unmounted when it is dropped.
pub(crate) struct PrefixMount {
    child: Child,
    stderr: BufReader<ChildStderr>,
    folder: TempDir,
    /// What it has said until it was ready.
    ready: String,
}

impl PrefixMount {
    pub(crate) fn start(command: &mut Command) -> Self {
        let folder = TempDir::new_in(scratch()).unwrap();
        let dir = folder.path().join("mounted");
        fs::create_dir(&dir).unwrap();
        let mut child = command.arg(&dir).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut mount = Self { child, stderr, folder, ready: String::new() };
        // Lines about what the root leaves out come first.
        while !mount.ready.contains("foreread: mounted s3://") {
            let line = mount.line();
            assert!(!line.is_empty(), "{}", mount.ready);
            mount.ready += &line;
        }
        mount
    }

    /// Of the bucket of a server of these tests.
    fn of(server: &BucketServer, prefix: &str, flags: &[&str]) -> Self {
        Self::start(bucket_command(server, &["mount", &url(prefix), "--no-remember"]).args(flags))
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).unwrap();
        line
    }

    /// Ends it as users do; it must end well. What it has said since.
    pub(crate) fn end(mut self) -> String {
        Command::wait_for_execs();
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {said}");
        without_use(&said)
    }
}

impl Drop for PrefixMount {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // A test has failed: nothing stays.
            let _ = Command::new("umount").arg("-l").arg(self.dir()).status();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn url(prefix: &str) -> String {
    format!("s3://{BUCKET}/{prefix}")
}

/// The command, with a server of these tests as its endpoint.
pub(crate) fn bucket_command(server: &BucketServer, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.args(args).stdin(Stdio::null()).env_clear();
    command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.env("AWS_ENDPOINT_URL", server.endpoint()).env("AWS_REGION", "us-east-1");
    command.env("AWS_SKIP_SIGNATURE", "true");
    command
}

fn can_fuse(test: &str) -> bool {
    needs(Need::Fuse, test) && needs(Need::Root, test)
}

/// The names in a directory, sorted.
fn names(dir: PathBuf) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn find_ls_tar_and_python_read_a_prefix_as_a_tree_of_files() {
    let test = "find_ls_tar_and_python_read_a_prefix_as_a_tree_of_files";
    if !can_fuse(test) || !needs(Need::Tool("python3"), test) {
        return;
    }
    let Some(weed) = weed(test) else { return };
    let files =
        [("empty", 0), ("one", 1), ("a/b/small", 5000), ("a/b/c/large", 3_000_001), ("a/d", 4096)];
    for (name, len) in files {
        weed.put(&format!("tree/{name}"), &pattern(len));
    }
    let args = ["mount", "s3://tests/tree/", "--no-remember"];
    let mount = PrefixMount::start(&mut weed.foreread(&args));
    assert!(mount.ready.contains("(3 names)"), "{}", mount.ready);
    let dir = mount.dir();
    let found = output(Command::new("find").arg(".").current_dir(&dir)).unwrap();
    let mut found: Vec<_> = found.lines().collect();
    found.sort_unstable();
    let all = [".", "./a", "./a/b", "./a/b/c", "./a/b/c/large", "./a/b/small", "./a/d", "./empty"];
    assert_eq!(found, [&all[..], &["./one"]].concat());
    let listed = output(Command::new("ls").arg("-l").arg(dir.join("a/b"))).unwrap();
    assert!(listed.contains("-r--r--r-- 1 ") && listed.contains(" 5000 "), "{listed}");
    for (name, len) in files {
        assert!(fs::read(dir.join(name)).unwrap() == pattern(len), "{name}");
        let meta = fs::metadata(dir.join(name)).unwrap();
        assert_eq!((meta.len(), meta.permissions().mode()), (len as u64, 0o100_444), "{name}");
        assert!(meta.mtime() > 1_700_000_000, "{name}: {}", meta.mtime());
    }
    let copy = mount.folder.path().join("copy");
    fs::create_dir(&copy).unwrap();
    let tar = "tar -cf - . | tar -xf - -C ../copy && diff -r . ../copy";
    output(Command::new("sh").args(["-c", tar]).current_dir(&dir)).unwrap();
    let code = "import sys; f = open('a/b/c/large', 'rb'); f.seek(2999990); \
                sys.stdout.write(f.read().hex())";
    let read = output(Command::new("python3").args(["-c", code]).current_dir(&dir)).unwrap();
    let hex: String =
        pattern(3_000_001)[2_999_990..].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(read, hex);
    for error in [fs::write(dir.join("new"), "x"), fs::remove_file(dir.join("one"))] {
        assert_eq!(error.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    }
    assert_eq!(fs::read(dir.join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(mount.end(), "");
}

#[test]
fn directories_are_listed_once_and_small_files_cost_one_request() {
    let test = "directories_are_listed_once_and_small_files_cost_one_request";
    if !can_fuse(test) {
        return;
    }
    let server = BucketServer::start();
    for directory in 0..3 {
        for file in 0..25 {
            server.put(&format!("data/d{directory}/f{file}"), format!("{file}").as_bytes());
        }
    }
    server.pages_of(10);
    let mount = PrefixMount::of(&server, "data/", &[]);
    assert_eq!(server.requests(), (1, 0, 0));
    assert_eq!(fs::read(mount.dir().join("d1/f24")).unwrap(), b"24");
    assert_eq!(server.requests(), (4, 1, 0), "three pages of d1, and the object");
    for _ in 0..2 {
        let found = output(Command::new("find").arg(mount.dir()).args(["-type", "f"])).unwrap();
        assert_eq!(found.lines().count(), 75);
        output(Command::new("ls").arg("-lR").arg(mount.dir())).unwrap();
    }
    assert_eq!(fs::read(mount.dir().join("d1/f24")).unwrap(), b"24");
    assert_eq!(server.requests(), (10, 1, 0), "three pages each, and no byte again");
    assert_eq!(mount.end(), "");
}

#[test]
fn what_no_file_system_can_name_is_left_out_and_said() {
    let test = "what_no_file_system_can_name_is_left_out_and_said";
    if !can_fuse(test) {
        return;
    }
    let server = BucketServer::start();
    let long = "x".repeat(256);
    for key in ["a//b", "/a", "a/../b", "a/./b", "both", "both/in", "line\nfeed", "mark/", &long] {
        server.put(key, if key.ends_with('/') { b"" } else { b"wrong" });
    }
    for key in ["good", "both/in", "a/good", "\u{e4} +&<%41>\"'*?#{}", "mark/in"] {
        server.put(key, b"right");
    }
    let mount = PrefixMount::of(&server, "", &["--list-lifetime", "0ms"]);
    let dir = mount.dir();
    let odd = "\u{e4} +&<%41>\"'*?#{}";
    assert_eq!(names(dir.clone()), ["a", "both", "good", "mark", odd]);
    assert_eq!(
        (names(dir.join("a")), names(dir.join("mark"))),
        (vec!["good".into()], vec!["in".to_owned()])
    );
    for name in ["good", "both/in", "a/good", odd, "mark/in"] {
        assert_eq!(fs::read(dir.join(name)).unwrap(), b"right", "{name}");
    }
    assert!(fs::metadata(dir.join("both")).unwrap().is_dir());
    for name in ["line\nfeed", "a/b", "b"] {
        assert_eq!(fs::read(dir.join(name)).unwrap_err().kind(), ErrorKind::NotFound, "{name:?}");
    }
    let said = mount.ready.clone() + &mount.end();
    for part in ["/: no request", "line\\nfeed: no request", "both: is also a directory"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for part in ["xxxx..: is longer than 255 bytes", "a//: no request", "a/../: no request"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// `cat s3://b/a%20b` printed the object `a b`, and names with spaces at their ends were left out of
/// mounts though `cat` read them.
#[test]
fn odd_names_are_read_by_each_command_as_they_are_listed() {
    let server = BucketServer::start();
    let odd = [" a ", "100%", "a b", "a%20b", "a+b", "v1#2", "what?", "\u{3000}"];
    for name in odd {
        server.put(&format!("odd ?/{name}"), name.as_bytes());
    }
    let ran = |args: &[&str]| {
        let output = bucket_command(&server, args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    let listed = said::data(&ran(&["ls", &url("odd ?/"), "--json"]));
    let listed: Vec<_> = listed.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(listed, odd);
    for name in odd {
        let url = url(&format!("odd ?/{name}"));
        assert!(ran(&["cat", &url]) == name.as_bytes(), "{url}");
        let stat = said::data(&ran(&["stat", &url, "--json"]));
        assert_eq!(stat[0]["size"], name.len(), "{stat:?}");
    }
    if !can_fuse("odd_names_are_read_by_each_command_as_they_are_listed") {
        return;
    }
    let mount = PrefixMount::of(&server, "odd ?/", &[]);
    assert_eq!(names(mount.dir()), odd);
    for name in odd {
        assert!(fs::read(mount.dir().join(name)).unwrap() == name.as_bytes(), "{name}");
    }
    mount.end();
}

/// Its open handle gets the old bytes or ESTALE; who opens it again gets the new ones.
#[test]
fn a_file_that_is_replaced_while_it_is_open_is_stale_and_never_a_mixture() {
    let test = "a_file_that_is_replaced_while_it_is_open_is_stale_and_never_a_mixture";
    if !can_fuse(test) {
        return;
    }
    let len = 8 << 20;
    let (old, new) = (pattern(len), vec![7; len]);
    let server = BucketServer::start();
    server.put("dir/file", &old);
    let mut mount = PrefixMount::of(&server, "", &["--max-window", "128K"]);
    let path = mount.dir().join("dir/file");
    let file = File::open(&path).unwrap();
    let mut bytes = vec![0; 4096];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == old[..4096]);
    server.put("dir/file", &new);
    let error = file.read_exact_at(&mut bytes, 7 << 20).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error()), "{error}");
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == old[..4096], "what was read stays what it was");
    let line = mount.line();
    assert!(line.contains("s3://bucket/dir/file: ") && line.contains("it has changed"), "{line}");
    // The kernel is told by another thread.
    assert!(looks_until(|| fs::read(&path).is_ok_and(|bytes| bytes == new)), "the new one");
    server.remove("dir/file");
    drop(file);
    mount.end();
}

#[test]
fn a_name_is_believed_for_its_lifetime() {
    let test = "a_name_is_believed_for_its_lifetime";
    if !can_fuse(test) {
        return;
    }
    let server = BucketServer::start();
    server.put("one", b"1");
    let (long, short) = (
        PrefixMount::of(&server, "", &[]),
        PrefixMount::of(&server, "", &["--list-lifetime", "0ms"]),
    );
    let read = |mount: &PrefixMount, name: &str| fs::read(mount.dir().join(name)).ok();
    for mount in [&long, &short] {
        assert_eq!((read(mount, "one"), read(mount, "two")), (Some(b"1".to_vec()), None));
    }
    server.put("two", b"2");
    server.put("one", b"11");
    assert_eq!(
        (names(long.dir()), names(short.dir())),
        (vec!["one".to_owned()], vec!["one".to_owned(), "two".to_owned()])
    );
    assert_eq!((read(&short, "one"), read(&short, "two")), (Some(b"11".into()), Some(b"2".into())));
    assert_eq!((read(&long, "one"), read(&long, "two")), (Some(b"1".into()), None));
    for mount in [long, short] {
        assert_eq!(mount.end(), "");
    }
}

#[test]
fn a_directory_with_too_many_names_fails_and_others_are_read() {
    let test = "a_directory_with_too_many_names_fails_and_others_are_read";
    if !can_fuse(test) {
        return;
    }
    let server = BucketServer::start();
    for number in 0..20_000 {
        server.put(&format!("large/{number:030}"), b"");
    }
    server.put("small/file", b"read");
    let mount = PrefixMount::of(&server, "", &["--memory", "2M"]);
    let error = fs::read_dir(mount.dir().join("large")).unwrap().next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!(fs::read(mount.dir().join("small/file")).unwrap(), b"read");
    let said = mount.end();
    assert!(said.contains("large: its listing") && said.contains("--memory"), "{said}");
    let mount = PrefixMount::of(&server, "", &[]);
    assert_eq!(names(mount.dir().join("large")).len(), 20_000);
    assert_eq!(mount.end(), "");
}

#[test]
fn flags_of_images_are_refused_for_a_prefix() {
    let server = BucketServer::start();
    for flag in [&["--control", "/x"][..], &["--ignore-journal"], &["--inode-readahead-blks", "8"]]
    {
        let mut command = bucket_command(&server, &["mount", &url(""), "/"]);
        let output = command.args(flag).output().unwrap();
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(line.contains(flag[0]) && line.contains("is valid for images only"), "{line}");
    }
    assert_eq!(server.requests(), (0, 0, 0));
}
