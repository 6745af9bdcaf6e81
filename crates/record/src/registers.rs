//! Registers of a stopped thread that hold the arguments and the result of a system call. 32-bit
//! programs are not supported.

use std::io;

/// A call that has returned EINTR.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct InterruptedCall {
    pub(crate) number: i64,
    pub(crate) args: [u64; 6],
}

/// A register that can be set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Register {
    /// The result of a call.
    Result,
    /// The fourth argument.
    Argument3,
    /// Number of the call that a thread is about to make; -1 skips it.
    Number,
}

/// Returns the call that a stopped thread is leaving, if its result is EINTR.
#[cfg(target_arch = "x86_64")]
pub(crate) fn interrupted_call(thread: u32) -> Option<InterruptedCall> {
    use std::mem::zeroed;
    use std::ptr::null_mut;

    /// The code segment of 64-bit programs.
    const LONG_MODE: u64 = 0x33;

    let id = libc::pid_t::try_from(thread).ok()?;
    // SAFETY: the structure consists of integers, for which zero is valid.
    let mut of_thread: libc::user_regs_struct = unsafe { zeroed() };
    // SAFETY: the kernel writes the registers into this structure of its own type.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_GETREGS,
            id,
            null_mut::<libc::c_void>(),
            (&raw mut of_thread).cast::<libc::c_void>(),
        )
    };
    let is_interrupted = of_thread.rax.cast_signed() == -i64::from(libc::EINTR);
    let number = of_thread.orig_rax.cast_signed();
    // Outside a call the number is negative.
    if result < 0 || of_thread.cs != LONG_MODE || !is_interrupted || number < 0 {
        return None;
    }
    let libc::user_regs_struct { rdi, rsi, rdx, r10, r8, r9, .. } = of_thread;
    Some(InterruptedCall { number, args: [rdi, rsi, rdx, r10, r8, r9] })
}

/// Sets a register of a stopped thread.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set_register(thread: u32, register: Register, value: u64) -> io::Result<()> {
    use std::ptr::without_provenance_mut;

    let at = match register {
        Register::Result => std::mem::offset_of!(libc::user_regs_struct, rax),
        Register::Argument3 => std::mem::offset_of!(libc::user_regs_struct, r10),
        Register::Number => std::mem::offset_of!(libc::user_regs_struct, orig_rax),
    };
    let id = libc::pid_t::try_from(thread).map_err(|_| io::ErrorKind::InvalidInput)?;
    let value = usize::try_from(value).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the address is an offset, and the data a number: nothing of this process is read or
    // written.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_POKEUSER,
            id,
            without_provenance_mut::<libc::c_void>(at),
            without_provenance_mut::<libc::c_void>(value),
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the call that a thread is about to make fail with ENOSYS.
pub(crate) fn refuse_call(thread: u32) -> io::Result<()> {
    set_register(thread, Register::Result, (-i64::from(libc::ENOSYS)).cast_unsigned())?;
    set_register(thread, Register::Number, u64::MAX)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn interrupted_call(_thread: u32) -> Option<InterruptedCall> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn set_register(_thread: u32, _register: Register, _value: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
