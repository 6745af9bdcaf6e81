//! A recorded command has the results that it has alone, and what is not recorded is said.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::common::{Command, Need, needs};
use crate::record::recorded::{
    UNPRIVILEGED, file, folder_of_all_users, is_unseen, of, recorded, run,
};

/// Reads and mappings, while a timer sends signals whose handler has no SA_RESTART; the number of
/// calls that failed, and whether signals came. `sendfile` and `copy_file_range` are left out: a
/// signal interrupts them also in a program that is not recorded (72 and 65 of 40,000 calls of 512
/// bytes at 200 signals, Linux 6.18, 2026-11-28; of `splice` into a pipe none).
const INTERRUPTED: &str = r#"
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for name in "pread", "read", "readv", "preadv", "preadv2", "splice":
    getattr(libc, name).restype = ctypes.c_ssize_t
libc.mmap.restype = ctypes.c_void_p
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
data = os.open("data", os.O_RDONLY)
zero, size = ctypes.c_long(0), ctypes.c_size_t(512)
buffer = ctypes.create_string_buffer(512)
vector = ctypes.byref(Vector(ctypes.addressof(buffer), 512))
def mapped():
    at = libc.mmap(None, size, 1, 2, data, zero)
    if at == ctypes.c_void_p(-1).value:
        return -1
    libc.munmap(ctypes.c_void_p(at), size)
    return 512
out, into = os.pipe()
def spliced():
    moved = libc.splice(data, ctypes.byref(zero), into, None, size, 0)
    zero.value = 0
    return len(os.read(out, 512)) if moved == 512 else moved
calls = [
    lambda: libc.pread(data, buffer, size, zero),
    lambda: os.lseek(data, 0, os.SEEK_SET) or libc.read(data, buffer, size),
    lambda: os.lseek(data, 0, os.SEEK_SET) or libc.readv(data, vector, 1),
    lambda: libc.preadv(data, vector, 1, zero),
    lambda: libc.preadv2(data, vector, 1, zero, 0),
    mapped,
    spliced,
]
came = 0
def handler(*_):
    global came
    came += 1
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
failed = 0
for _ in range(400):
    failed += sum(call() != 512 for call in calls)
# Signals have come, on any machine.
while came == 0:
    failed += sum(call() != 512 for call in calls)
signal.setitimer(signal.ITIMER_REAL, 0)
print(failed, came > 0)
"#;

/// Reads and mappings failed with EINTR, if a signal came before the recorder had received them.
#[test]
fn no_call_of_a_recorded_command_is_interrupted_by_a_signal() {
    let test = "no_call_of_a_recorded_command_is_interrupted_by_a_signal";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    file(folder.path(), "data", 4096);
    let command = ["python3", "-I", "-S", "-c", INTERRUPTED];
    let Some((output, reads)) = recorded(test, folder.path(), &command) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("could not be traced") {
        return crate::common::skip(test, &said);
    }
    assert_eq!(output.stdout, b"0 True\n", "{said}");
    let of_data = of(&reads, "/data");
    assert!(of_data.len() >= 400 * 6 && of_data.iter().all(|read| *read == (0, 512)));
}

/// `open`, `read` of 100 bytes and `exit` of i386, in an ELF file without sections.
#[cfg(target_arch = "x86_64")]
fn program_of_32_bits() -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    let mut code: Vec<u8> = Vec::new();
    let path = BASE + 52 + 32;
    let load = |register: u8, value: u32| [&[0xb8 + register][..], &value.to_le_bytes()].concat();
    let call = [0xcd, 0x80];
    let (eax, ecx, edx, ebx) = (0, 1, 2, 3);
    for (number, first) in [(5, Some(path)), (3, None), (1, Some(0))] {
        // The descriptor is what `open` returned.
        let first = first.map_or(vec![0x89, 0xc3], |value| load(ebx, value));
        code.extend(first);
        code.extend(
            [load(eax, number), load(ecx, if number == 3 { path + 64 } else { 0 })].concat(),
        );
        code.extend([&load(edx, 100)[..], &call].concat());
    }
    let mut data = b"data\0".to_vec();
    data.resize(256, 0);
    let entry = path + 256;
    let size = u32::try_from(52 + 32 + data.len() + code.len()).unwrap();
    let mut elf = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0".to_vec();
    for word in [1, entry, 52, 0, 0] {
        elf.extend(u32::to_le_bytes(word));
    }
    for half in [52, 32, 1, 0, 0, 0] {
        elf.extend(u16::to_le_bytes(half));
    }
    for word in [1, 0, BASE, BASE, size, size, 7, 4096] {
        elf.extend(u32::to_le_bytes(word));
    }
    [elf, data, code].concat()
}

/// Its trace was empty, and nothing was said.
#[test]
#[cfg(target_arch = "x86_64")]
fn reads_of_a_32_bit_program_are_counted_and_said() {
    let test = "reads_of_a_32_bit_program_are_counted_and_said";
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    file(path, "data", 4096);
    let (written, program) = (path.join("written"), path.join("program"));
    fs::write(&written, program_of_32_bits()).unwrap();
    fs::set_permissions(&written, fs::Permissions::from_mode(0o755)).unwrap();
    crate::common::copy_program(&written, &program);
    let alone = Command::new(&program).current_dir(path).status();
    if !alone.is_ok_and(|status| status.success()) {
        return crate::common::skip(test, "the kernel does not run 32-bit programs");
    }
    let Some((output, reads)) = recorded(test, path, &["./program"]) else { return };
    assert!(output.status.success() && reads.is_empty(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("1 reads and mappings by 32-bit programs are missing"), "{said}");
}

/// The reads of the inner command would be missing in the outer trace without a word.
#[test]
fn a_recorder_that_is_recorded_works_and_the_outer_one_says_what_it_misses() {
    let test = "a_recorder_that_is_recorded_works_and_the_outer_one_says_what_it_misses";
    let folder = TempDir::new().unwrap();
    file(folder.path(), "data", 4096);
    let inner = env!("CARGO_BIN_EXE_foreread");
    let command = [inner, "record", "-o", "inner.csv", "--", "cat", "data"];
    let Some((output, reads)) = recorded(test, folder.path(), &command) else { return };
    assert!(output.status.success() && output.stdout.len() == 4096, "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("so its reads stopped at a listener: a signal may"), "{said}");
    assert!(said.contains("a listener of system calls of its own"), "{said}");
    assert_eq!(of(&reads, "/data"), []);
    let inner = fs::read_to_string(folder.path().join("inner.csv")).unwrap();
    assert!(inner.contains("/data,0,4096,0\n"), "{inner}");
}

/// Installs a filter that asks a tracer at `getppid` and `pread64`; without one, they fail.
#[cfg(target_arch = "x86_64")]
const FILTERED: &str = r#"
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
step = lambda *parts: struct.pack("HBBI", *parts)
ask, pass_by = 0x7ff00005, 0x7fff0000
code = step(0x20, 0, 0, 0) + step(0x15, 1, 0, 110) + step(0x15, 0, 1, 17)
code = ctypes.create_string_buffer(code + step(6, 0, 0, ask) + step(6, 0, 0, pass_by))
program = struct.pack("HxxxxxxQ", 5, ctypes.addressof(code))
data = os.open("data", os.O_RDONLY)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0
assert libc.syscall(110) == -1 and ctypes.get_errno() == 38
ctypes.set_errno(0)
assert libc.pread(data, ctypes.create_string_buffer(9), 9, 0) == -1 and ctypes.get_errno() == 38
print("refused")
"#;

/// The calls were made: the recorder was taken for the tracer that the filter asks.
#[test]
#[cfg(target_arch = "x86_64")]
fn calls_that_a_filter_of_the_program_refuses_are_refused() {
    let test = "calls_that_a_filter_of_the_program_refuses_are_refused";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    file(folder.path(), "data", 4096);
    let command = ["python3", "-I", "-S", "-c", FILTERED];
    let alone = Command::new(command[0]).args(&command[1..]).current_dir(folder.path()).output();
    assert_eq!(alone.unwrap().stdout, b"refused\n");
    let Some((output, reads)) = recorded(test, folder.path(), &command) else { return };
    assert_eq!(output.stdout, b"refused\n", "{output:?}");
    assert_eq!(of(&reads, "/data"), []);
}

/// A setuid program ran without its privileges, and nothing was said.
#[test]
fn a_setuid_program_keeps_its_privileges_for_root_and_is_named_for_others() {
    let test = "a_setuid_program_keeps_its_privileges_for_root_and_is_named_for_others";
    for need in [Need::Root, Need::Tool("setpriv")] {
        if !needs(need, test) {
            return;
        }
    }
    let folder = folder_of_all_users();
    let path = folder.path();
    crate::common::copy_program("/usr/bin/id", path.join("effective"));
    fs::set_permissions(path.join("effective"), fs::Permissions::from_mode(0o4755)).unwrap();
    let user = UNPRIVILEGED;
    let said = |front: &[&str], command: &[&str]| {
        let words = [front, &["./foreread", "record", "-o", "trace", "--"], command].concat();
        let output = run(test, Command::new(words[0]).args(&words[1..]).current_dir(path));
        let _ = fs::remove_file(path.join("trace"));
        output.map(|(output, said)| (String::from_utf8(output.stdout).unwrap(), said))
    };
    let program = ["./effective", "-u"];
    let alone = Command::new(user[0]).args(&user[1..]).args(program).current_dir(path).output();
    if alone.unwrap().stdout != b"0\n" {
        return crate::common::skip(test, "setuid programs have no effect here");
    }
    let Some((stdout, line)) = said(&[], &[&user[..], &program].concat()) else { return };
    assert_eq!(stdout, "0\n", "root records it as it is: {line}");
    assert!(!line.contains("without the privileges"), "{line}");
    let (stdout, line) = said(&user, &program).expect("reads were seen before");
    assert_eq!(stdout, "65534\n");
    assert!(line.contains("/effective ran without the privileges that its file gives"), "{line}");
}

/// Only the first process was; the reads of the others failed.
#[test]
fn a_killed_recorder_takes_all_processes_of_its_command_with_it() {
    let test = "a_killed_recorder_takes_all_processes_of_its_command_with_it";
    let folder = TempDir::new().unwrap();
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_foreread"));
    recorder.args([
        "record",
        "-o",
        "trace",
        "--",
        "sh",
        "-c",
        "exec 3<&0; (echo ready; cat <&3; echo lives) & wait",
    ]);
    recorder.current_dir(folder.path());
    recorder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recorder = recorder.spawn().unwrap();
    let mut stdout = BufReader::new(recorder.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&recorder), Signal::KILL).unwrap();
    recorder.wait().unwrap();
    let mut said = String::new();
    recorder.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    if is_unseen(test, &said) {
        return;
    }
    // The end of stdout is that of the last process that has it.
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!((line.as_str(), rest.as_str()), ("ready\n", ""), "{said}");
}
