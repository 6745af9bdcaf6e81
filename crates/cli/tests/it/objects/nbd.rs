//! `serve` of an object, as other people's clients see it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::common::{Command, Need, needs, output, scratch};
use crate::images::pattern;
use crate::objects::weed::{Weed, weed};
use crate::said;

/// A server of an object, at a socket in a folder of its own.
pub(crate) struct ObjectServer {
    child: Child,
    folder: TempDir,
    ready: String,
}

impl ObjectServer {
    fn start(weed: &Weed, url: &str, flags: &[&str]) -> Self {
        Self::of(|args| weed.foreread(args), url, flags)
    }

    /// A server that this makes the command of.
    pub(crate) fn of(foreread: impl Fn(&[&str]) -> Command, url: &str, flags: &[&str]) -> Self {
        let folder = TempDir::new_in(scratch()).unwrap();
        let socket = folder.path().join("sock");
        let mut command = foreread(&["serve", url, "--no-remember", "--unix"]);
        let mut child = command.arg(&socket).args(flags).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("foreread: serving "), "{ready}");
        Self { child, folder, ready }
    }

    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.folder.path().join("sock").display())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Ends it as users do; it must end well.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(status.success(), "{status}: {said}");
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn nbdinfo_sees_an_object_as_an_export_that_is_only_read() {
    let test = "nbdinfo_sees_an_object_as_an_export_that_is_only_read";
    if !needs(Need::Tool("nbdinfo"), test) {
        return;
    }
    let Some(weed) = weed(test) else { return };
    let server = ObjectServer::start(&weed, &weed.put("disk.img", &pattern(3 << 20)), &[]);
    assert!(server.ready.contains("read-only"), "{}", server.ready);
    assert!(server.ready.contains("by range requests"), "{}", server.ready);
    let size = output(Command::new("nbdinfo").args(["--size", &server.uri()])).unwrap();
    assert_eq!(size, format!("{}\n", 3 << 20));
    output(Command::new("nbdinfo").args(["--is", "read-only", &server.uri()])).unwrap();
    server.stop();
}

#[test]
fn nbdcopy_and_qemu_read_an_object_as_it_was_put() {
    let test = "nbdcopy_and_qemu_read_an_object_as_it_was_put";
    if !needs(Need::Tool("nbdcopy"), test) || !needs(Need::Tool("qemu-img"), test) {
        return;
    }
    let Some(weed) = weed(test) else { return };
    let bytes = pattern(9 << 20);
    let server = ObjectServer::start(&weed, &weed.put("copied.img", &bytes), &["--memory", "8M"]);
    let copy = server.path("copy");
    output(Command::new("nbdcopy").args([&server.uri(), &copy])).unwrap();
    assert!(fs::read(&copy).unwrap() == bytes, "what nbdcopy has read");
    let stats = said::json(&["stats", &server.uri(), "--json"]);
    let store = &stats[0]["store"];
    assert!(store["bytes"].as_u64().unwrap() >= 9 << 20, "{store}");
    assert!(store["requests"].as_u64().unwrap() >= 10 && store["cost"].is_null(), "{store}");
    let text = said::stdout(&["stats", &server.uri()]);
    assert!(text.contains("\nstore        requests "), "{text}");
    let converted = server.path("converted");
    let convert = ["convert", "-f", "raw", "-O", "raw", &server.uri(), &converted];
    output(Command::new("qemu-img").args(convert)).unwrap();
    assert!(fs::read(Path::new(&converted)).unwrap() == bytes, "what qemu-img has read");
    server.stop();
}

/// Clients get an error and no mixture of the two versions.
#[test]
fn an_object_that_is_replaced_while_it_is_served_fails_its_clients() {
    let test = "an_object_that_is_replaced_while_it_is_served_fails_its_clients";
    if !needs(Need::Tool("nbdcopy"), test) {
        return;
    }
    let Some(weed) = weed(test) else { return };
    let server = ObjectServer::start(&weed, &weed.put("replaced.img", &pattern(9 << 20)), &[]);
    weed.put("replaced.img", &vec![7; 9 << 20]);
    let copy = server.path("copy");
    let copied = output(Command::new("nbdcopy").args([&server.uri(), &copy]));
    assert!(copied.is_err(), "it is another object");
    server.stop();
}
