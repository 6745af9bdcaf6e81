//! Fields of `/proc` files of a process or a thread.

use std::fs;
use std::path::Path;

use crate::error::RecordError;

/// Refuses to record without `/proc`: each descriptor would count as closed, and its reads would
/// be left out.
pub(crate) fn check_mounted() -> Result<(), RecordError> {
    if Path::new("/proc/self/fd").exists() { Ok(()) } else { Err(RecordError::NoProc) }
}

/// Returns `/proc/ID/status`; None if the process is gone.
pub(crate) fn status(process: &str) -> Option<String> {
    text_of(&format!("/proc/{process}/status"))
}

/// Returns `/proc/ID/stat`; None if the process is gone.
pub(crate) fn stat(process: u32) -> Option<String> {
    text_of(&format!("/proc/{process}/stat"))
}

/// Returns a file whose names may have any bytes: the kernel cuts them within a letter.
fn text_of(path: &str) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns one field of a status.
pub(crate) fn field<'t>(status: &'t str, name: &str) -> Option<&'t str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Returns the process of a thread; the thread itself if it is gone.
pub(crate) fn process_of(thread: u32) -> u32 {
    let status = status(&thread.to_string());
    let process = status.and_then(|text| field(&text, "Tgid:")?.parse().ok());
    process.unwrap_or(thread)
}

/// Returns true for a zombie, which only its parent can reap.
pub(crate) fn is_ended(status: &str) -> bool {
    field(status, "State:").is_some_and(|state| state.starts_with(['Z', 'X']))
}

/// Returns the reason why a process has no program to watch; None if it may have one.
pub(crate) fn without_program(process: u32) -> Option<&'static str> {
    if stat(process).is_some_and(|stat| is_of_kernel(&stat)) {
        return Some("is a kernel thread");
    }
    let is_zombie = stat(process).is_some() && has_ended(process);
    is_zombie.then_some("has ended (it is a zombie)")
}

/// Returns true if all threads of a process have ended, even if its parent has not reaped it.
pub(crate) fn has_ended(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    threads.into_iter().flatten().all(|thread| {
        let name = thread.ok().and_then(|it| it.file_name().into_string().ok());
        name.and_then(|thread| status(&thread)).is_none_or(|text| is_ended(&text))
    })
}

/// Checks the task flags in the 9th field of `/proc/PID/stat`.
fn is_of_kernel(stat: &str) -> bool {
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest);
    let flags = rest.and_then(|rest| rest.split_whitespace().nth(9 - 3)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// `PF_KTHREAD`.
const KERNEL_THREAD: u64 = 0x0020_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zombie_and_a_thread_of_the_kernel_are_told() {
        assert!(!is_ended("Name:\tZ\nState:\tS (sleeping)\n"));
        assert!(is_ended("Name:\ta\nState:\tZ (zombie)\n"));
        // kthreadd and a shell.
        assert!(is_of_kernel("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 9"));
        assert!(!is_of_kernel("7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 9 9"));
        assert_eq!(without_program(std::process::id()), None);
        let ours = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        assert_eq!(process_of(ours), std::process::id());
        assert_eq!(process_of(u32::MAX), u32::MAX, "there is no such thread");
    }

    /// A thread of such a name was taken for a process that has ended.
    #[test]
    fn a_name_that_is_no_text_hides_no_other_field() {
        let told = std::thread::spawn(|| {
            rustix::thread::set_name(c"na\xc3").expect("any bytes are a name");
            let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            let status = status(&thread.to_string()).expect("it runs");
            assert_eq!(field(&status, "Name:"), Some("na\u{fffd}"));
            assert!(stat(thread).expect("it runs").contains("(na\u{fffd})"));
            process_of(thread)
        });
        assert_eq!(told.join().expect("it ends"), std::process::id());
    }
}
