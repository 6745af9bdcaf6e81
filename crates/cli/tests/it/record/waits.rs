//! Waits of a recorded command, which signals without effect do not end.

use tempfile::TempDir;

use crate::common::{Need, needs, skip};
use crate::record::recorded::recorded;

/// Waits with a time-out and without, while a timer sends signals that are ignored; the errors.
const IGNORED: &str = r#"
import ctypes, errno, mmap, os, select, signal, struct
libc = ctypes.CDLL(None, use_errno=True)
lasting, events = select.epoll(), ctypes.create_string_buffer(64)
empty = ctypes.create_string_buffer(128)
def ticks(number, first, interval):
    event, timer = struct.pack("QiI48x", 0, number, 0), ctypes.c_void_p()
    assert libc.timer_create(1, event, ctypes.byref(timer)) == 0
    assert libc.timer_settime(timer, 0, struct.pack("4q", 0, interval, 0, first), None) == 0
    return timer
def usr2():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    once = ticks(signal.SIGUSR2, 10_000_000, 0)
    wanted = ctypes.create_string_buffer(128)
    libc.sigaddset(wanted, signal.SIGUSR2)
    came = libc.sigwaitinfo(wanted, None)
    libc.timer_delete(once)
    return 0 if came == signal.SIGUSR2 else -1
def endless():
    clock = libc.timerfd_create(1, 0)
    libc.timerfd_settime(clock, 0, struct.pack("4q", 0, 0, 0, 10_000_000), None)
    lasting.register(clock, select.EPOLLIN)
    came = libc.epoll_wait(lasting.fileno(), events, 1, -1)
    lasting.unregister(clock)
    os.close(clock)
    return came - 1
failed = []
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
for number in signal.SIGCHLD, signal.SIGWINCH, signal.SIGURG, signal.SIGUSR1:
    timer = ticks(number, 2_000_000, 2_000_000)
    for call in [
        lambda: libc.epoll_wait(lasting.fileno(), events, 1, 20),
        lambda: libc.epoll_pwait(lasting.fileno(), events, 1, 20, empty),
        endless,
        usr2,
    ]:
        failed += [ctypes.get_errno() for _ in range(3) if call() != 0]
    # The register of the time-out is as it was: epoll_wait of 20 ms, which returns it.
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(bytes.fromhex("b8e80000004989ca0f054c89d0c3"))
    at = ctypes.addressof(ctypes.c_char.from_buffer(code))
    wait = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 4)(at)
    assert wait(lasting.fileno(), ctypes.addressof(events), 1, 20) == 20
    # A handler ends the wait all the same, also if an ignored signal comes first.
    for both in False, True:
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGALRM])
        if both:
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGALRM)
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.003)
        for timeout in -1, 600_000:
            came = libc.epoll_pwait(lasting.fileno(), events, 1, timeout, empty)
            assert (came, ctypes.get_errno()) == (-1, errno.EINTR)
            os.kill(os.getpid(), signal.SIGALRM)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1, signal.SIGALRM])
    libc.timer_delete(timer)
print(failed)
"#;

/// `epoll_wait` of an event loop failed with EINTR whenever a child of the program had ended.
#[test]
fn an_ignored_signal_does_not_end_a_wait_and_a_handled_one_does() {
    let test = "an_ignored_signal_does_not_end_a_wait_and_a_handled_one_does";
    if !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let command = ["python3", "-I", "-S", "-c", IGNORED];
    let Some((output, _)) = recorded(test, folder.path(), &command) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("could not be traced") {
        return skip(test, &said);
    }
    assert_eq!(output.stdout, b"[]\n", "{said}");
}
