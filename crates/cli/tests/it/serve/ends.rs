//! How a server begins and ends: files, signals, commands.

use std::fs;
use std::io::Read as _;
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::process::Signal;

use crate::serve::server::{Place, Server, bytes, foreread, printed};

#[test]
fn it_says_what_it_serves_and_where() {
    let place = Place::new();
    let file = place.file("disk", (4 << 20) + 100);
    let flags = ["--read-only", "--memory", "8M", "--max-window", "256K", "--port", "0"];
    let server = place.serve(&file, &flags);
    let ready = server.ready.trim_end().to_owned();
    let port = ready.split_once("nbd://127.0.0.1:").expect(&ready).1;
    let port: u16 = port[..port.find('/').unwrap()].parse().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    for part in [
        &format!("serving {} (4194404), read-only at {}", file.display(), server.uri()),
        "memory 8M, window 256K, deadline, ",
    ] {
        assert!(ready.contains(part), "{part}: {ready}");
    }
    server.stop();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn the_socket_is_its_owners_and_the_pid_file_is_there_while_the_server_is() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let pid_file = place.path("pid");
    let server = place.serve(&file, &["--pid-file", pid_file.to_str().unwrap()]);
    // It was written before the line that says that the server is ready.
    let pid = fs::read_to_string(&pid_file).unwrap();
    assert_eq!(pid, format!("{}\n", server.pid().as_raw_nonzero()));
    let metadata = fs::metadata(&server.socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    server.stop();
    assert!(!pid_file.exists());
}

/// All clean ends are alike.
#[test]
fn what_was_written_is_in_the_file_after_a_clean_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let place = Place::new();
        let file = place.file("disk", 1 << 20);
        // Nothing goes to the device by itself.
        let server = place.serve(&file, &["--dirty-age", "3600s"]);
        let mut expected = bytes(1 << 20);
        let mut client = server.session();
        for (offset, len) in [(0, 1), (4095, 2), (8192, 4096), (70_000, 100_000), (1 << 19, 512)] {
            let new: Vec<u8> = (0..=250).cycle().take(len).collect();
            client.write(offset as u64, &new, false).unwrap();
            expected[offset..offset + len].copy_from_slice(&new);
        }
        let dirty = server.stats()["memory"]["dirty_bytes"].as_u64().unwrap();
        assert!(dirty > 100_000, "{dirty}");
        server.signal(signal);
        let (code, said) = server.ended();
        assert_eq!((code, said.as_str()), (Some(0), ""), "{signal:?}");
        assert!(fs::read(&file).unwrap() == expected, "{signal:?}");
    }
}

#[test]
fn a_terminal_that_goes_away_does_not_end_it() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &[]);
    server.signal(Signal::HUP);
    server.signal(Signal::PIPE);
    assert_eq!(server.stats()["export"]["bytes"], 1 << 20);
    server.stop();
}

fn run(target: &Path, command: &str, flags: &[&str]) -> std::process::Output {
    foreread(&["serve"]).arg(target).args(["--run", command]).args(flags).output().unwrap()
}

#[test]
fn a_command_finds_the_server_and_its_exit_code_is_ours() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let show = r#"test -S "$unixsocket" && echo "$uri|$port|$exportname|$(dirname "$unixsocket")""#;
    let output = run(&file, show, &["--export", "a b"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let parts: Vec<_> = said.trim_end().split('|').collect();
    let [uri, port, name, folder] = parts[..] else { panic!("{said}") };
    assert!(uri.starts_with("nbd+unix:///a%20b?socket=/"), "{uri}");
    assert_eq!((port, name), ("", "a b"));
    assert!(!Path::new(folder).exists(), "{folder} stays behind");

    for (command, code) in [("exit 7", 7), ("kill -9 $$", 137), ("nonexistent-command", 127)] {
        let output = run(&file, command, &[]);
        assert_eq!(output.status.code(), Some(code), "{command}");
    }
    let output = run(&file, "echo $port", &["--port", "0"]);
    let port = String::from_utf8(output.stdout).unwrap();
    assert!(port.trim_end().parse::<u16>().is_ok_and(|port| port > 0), "{port}");
}

/// The shell was the first `sh` in `PATH`, also for root.
#[test]
fn a_command_runs_in_the_shell_of_the_system() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let planted = place.file("sh", 0);
    fs::write(&planted, "#!/bin/sh\nexit 99\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&planted, mode).unwrap();
    let mut serve = foreread(&["serve"]);
    serve.arg(&file).args(["--run", "exit 7"]).env("PATH", planted.parent().unwrap());
    let output = serve.output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}

#[test]
fn a_command_ends_with_the_server() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    // The pipe ends when the command does.
    let command = "echo begun; exec sleep 1000";
    let socket = place.path("sock");
    let mut serve = foreread(&["serve"]);
    serve.arg(&file).arg("--unix").arg(&socket).args(["--run", command]);
    let mut server = Server::started(serve.stdout(std::process::Stdio::piped()), socket);
    let mut stdout = server.stdout();
    let mut begun = [0; 6];
    stdout.read_exact(&mut begun).unwrap();
    server.signal(Signal::TERM);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(server.ended().0, Some(128 + 15));
}

#[test]
fn the_names_of_exports_are_held_to() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &["--export", "disk/1"]);
    assert!(server.client().go_to("disk/1", true).is_ok());
    assert!(server.client().go_to("", true).is_ok(), "no name is any name");
    assert!(server.client().go_to("disk/2", true).is_err());
    assert_eq!(server.client().list().unwrap(), ["disk/1"]);
    server.stop();
}

#[test]
fn files_of_any_length_are_served_to_their_last_byte() {
    for len in [0, 1, 511, 512, 4095, 4097, 1_000_003] {
        let place = Place::new();
        let file = place.file("disk", len);
        let copied = place.path("copy");
        let server = place.serve(&file, &[]);
        let mut client = server.session();
        assert_eq!(client.agreed().size, len as u64);
        let mut read = Vec::new();
        if len > 0 {
            read = client.read(0, u32::try_from(len).unwrap()).unwrap();
            client.write(len as u64 - 1, b"!", false).unwrap();
            client.flush().unwrap();
        }
        assert!(client.read(len as u64, 1).is_err(), "nothing is behind the end");
        assert!(client.write(len as u64, b"?", false).is_err(), "nothing is behind the end");
        fs::copy(&file, &copied).unwrap();
        let mut expected = bytes(len);
        assert!(read == expected, "{len}");
        if let Some(last) = expected.last_mut() {
            *last = b'!';
        }
        assert!(fs::read(&copied).unwrap() == expected, "{len}: flushed, and in the file");
        server.stop();
        assert!(fs::read(&file).unwrap() == expected, "{len}");
    }
}

#[test]
fn a_read_only_export_refuses_writes_and_needs_no_right_to_write() {
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let server = place.serve(&file, &["--read-only"]);
    let mut client = server.session();
    assert!(client.agreed().read_only);
    assert!(client.write(0, b"x", false).is_err());
    assert_eq!(client.read(0, 8).unwrap(), bytes(8));
    server.stop();
    assert!(fs::read(&file).unwrap() == bytes(1 << 20));
}

#[test]
fn help_has_every_flag_and_the_exit_codes() {
    for (verb, flags) in [
        (
            "serve",
            "--unix --port --read-only --export --memory --max-window --policy \
             --dirty-age --set --delay --connections --requests --run \
             --pid-file --metrics --remember --no-remember --exit-timeout 10809 0600 $uri SIGTERM",
        ),
        ("stats", "--json SOCKET up_s"),
        ("set", "--json SOCKET NAME=VALUE"),
    ] {
        let help = printed(&mut foreread(&[verb, "--help"]));
        for part in flags.split_whitespace().chain(["Usage:", "Examples:", "Exit codes:"]) {
            assert!(help.contains(part), "{verb}: {part} is not in its help");
        }
    }
}
