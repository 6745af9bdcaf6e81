//! Replays the call log of an [`IoPath`] on a fresh path, and checks that its outputs are the same.
//!
//! ```text
//!   recorded   Did(read) Gave(evicted) Saw(marker) Gave(read 7)   Did(poll) Gave(device I/O)
//!                 |           ^            |            ^            |           ^
//!   replayed      v           | same?      v            | same?      v           | same?
//!              path.read ----------------------------------->     path.poll_dispatch ->
//! ```
//!
//! This verifies the driver of a path (an event loop, or threads that take turns) after the fact:
//! if the log replays, everything that happened follows from these calls in this order. The log
//! also records flags that readers change at any time ([`LogStep::Saw`]).
//!
//! A new call of `IoPath` enters the log with three lines: its variant of [`PathCall`]; as its
//! first line `self.log().did(|| PathCall::..)`; and its arm in `apply`. If it returns a value, add
//! a variant of [`PathOutput`] and, as the last line, `self.log().gave(|| PathOutput::..)`. If it
//! panics for unknown ids, `could` must check for them first. A new check of a flag that readers
//! change goes through `log.saw`.

use alloc::boxed::Box;

pub use crate::cache::FlagSeen;
pub use crate::call_log::steps::{LogStep, Mismatch, PathCall, PathOutput};
use crate::driver_io::{Config, WriteRange};
use crate::path::IoPath;

/// Replays a log on a new path and compares all outputs.
///
/// The log must begin at the path's creation: call [`IoPath::record`] before anything else.
///
/// # Errors
///
/// The first step at which the two differ. The path is then dropped.
pub fn replay(config: Config, log: &[LogStep]) -> Result<(), Box<Mismatch>> {
    let mut path = IoPath::new(config);
    path.follow(log.to_vec());
    while let Some(input) = path.next_call()? {
        if !could(&path, &input) {
            let at = path.steps_followed() - 1;
            return Err(Box::new(Mismatch { at, wanted: Some(LogStep::Did(input)), got: None }));
        }
        apply(&mut path, input);
    }
    Ok(())
}

fn apply(path: &mut IoPath, input: PathCall) {
    // Return values are compared as outputs in the log.
    match input {
        PathCall::AddDevice { disk, geometry, scheduler } => {
            _ = path.add_device_on(disk, geometry, &scheduler);
        }
        PathCall::SetScheduler { device, name, value } => {
            _ = path.set_scheduler(device, &name, &value);
        }
        PathCall::RestoreDevice { device, learnt } => path.restore_device(device, learnt),
        PathCall::RemoveDevice { now, device } => path.remove_device(now, device),
        PathCall::Open { device, start, len } => _ = path.open_at(device, start, len),
        PathCall::OpenExtents { device, len, map } => _ = path.open_extents(device, len, map),
        PathCall::Close { now, file } => path.close(now, file),
        PathCall::SetLen { now, file, len } => path.set_len(now, file, len),
        PathCall::ChangeLen { now, file, change } => _ = path.change_len(now, file, change),
        PathCall::Invalidate { now, file, pages } => path.invalidate(now, file, pages),
        PathCall::Stream { file } => _ = path.stream(file),
        PathCall::CloseStream { stream } => path.close_stream(stream),
        PathCall::Read { now, stream, pos, len, prev_pos } => {
            _ = path.read(now, stream, pos, len, prev_pos);
        }
        PathCall::ReadPlanned { now, file, pages } => _ = path.read_planned(now, file, pages),
        PathCall::CancelRead { now, id } => path.cancel_read(now, id),
        PathCall::Marker { now, stream, page, count, prev_pos } => {
            path.marker(now, stream, page, count, prev_pos);
        }
        PathCall::Arrived { now, tag, bytes } => path.arrived(now, tag, bytes),
        PathCall::Complete { now, tag, result } => path.complete(now, tag, result),
        PathCall::Release { now, id } => path.release(now, id),
        PathCall::Unpinned { now, frame } => path.unpinned(now, frame),
        PathCall::Advise { stream, advice } => path.advise(stream, advice),
        PathCall::SetNoReuse { stream, no_reuse } => path.set_no_reuse(stream, no_reuse),
        PathCall::SetSubmitter { stream, submitter } => path.set_submitter(stream, submitter),
        // A call that failed then fails now.
        PathCall::SetWeight { submitter, weight } => _ = path.set_weight(submitter, weight),
        PathCall::Seeked { stream } => path.seeked(stream),
        PathCall::WillNeed { now, file, start, pages } => {
            _ = path.will_need(now, file, start, pages);
        }
        PathCall::PollDispatch { now } => _ = path.poll_dispatch(now),
        PathCall::FillHoles { now } => path.fill_holes(now, |_, _| {}),
        PathCall::Direct { now, device, start, sectors, origin } => {
            _ = path.direct(now, device, start, sectors, origin);
        }
        PathCall::Timeout { now } => path.timeout(now),
        PathCall::Write { now, file, pos, len, mode, submitter } => {
            _ = path.write(now, file, pos, len, mode, submitter);
        }
        PathCall::BeginAppend { now, file, change } => _ = path.begin_append(now, file, change),
        PathCall::WriteAppended { now, append, range, mode, submitter } => {
            _ = path.write_appended(now, append, range, mode, submitter);
        }
        PathCall::EndAppend { now, file, append } => _ = path.end_append(now, file, append),
        PathCall::Filled { now, id } => path.filled(now, id),
        PathCall::WriteZeroes { now, file, pages } => _ = path.write_zeroes(now, file, pages),
        PathCall::Discard { now, file, pages } => _ = path.discard(now, file, pages),
        PathCall::AcceptLost { file } => path.accept_lost(file),
        PathCall::NotActed { now, id, errno } => path.not_acted(now, id, errno),
        PathCall::Flush { now, file } => _ = path.flush(now, file),
        PathCall::WriteBack { now, file } => _ = path.write_back(now, file),
        PathCall::Acted { now, id, result } => path.acted(now, id, result),
        PathCall::CancelWrite { now, id } => path.cancel_write(now, id),
        PathCall::Set { name, value } => _ = path.set(&name, &value),
        PathCall::PollWrite => _ = path.poll_write(),
        PathCall::PollReady => _ = path.poll_ready(),
        PathCall::PollDone => _ = path.poll_done(),
        PathCall::TakeLog => _ = path.take_log(),
    }
}

/// Returns true if the call is valid for the path in its current state. A log with a missing step,
/// or a path with other behaviour, must show up as a mismatch instead of a panic.
fn could(path: &IoPath, input: &PathCall) -> bool {
    match input {
        PathCall::RemoveDevice { device, .. } => !path.has_files_on(*device),
        PathCall::RestoreDevice { device, .. }
        | PathCall::Open { device, .. }
        | PathCall::OpenExtents { device, .. }
        | PathCall::Direct { device, .. } => path.has_device(*device),
        PathCall::SetLen { file, .. }
        | PathCall::Stream { file }
        | PathCall::ReadPlanned { file, .. } => path.is_open(*file),
        PathCall::Write { file, .. }
        | PathCall::WriteAppended { range: WriteRange { file, .. }, .. }
        | PathCall::ChangeLen { file, .. }
        | PathCall::BeginAppend { file, .. }
        | PathCall::WriteZeroes { file, .. }
        | PathCall::Discard { file, .. }
        | PathCall::Flush { file, .. }
        | PathCall::WriteBack { file, .. } => path.is_open(*file) && path.is_contiguous(*file),
        PathCall::Filled { id, .. } => path.awaits_driver(*id, false),
        PathCall::Acted { id, .. } | PathCall::NotActed { id, .. } => path.awaits_driver(*id, true),
        PathCall::CancelWrite { id, .. } => !path.awaits_driver(*id, false),
        PathCall::Read { stream, .. } => path.has_stream(*stream),
        PathCall::Arrived { tag, bytes, .. } => path.can_arrive(*tag, *bytes),
        PathCall::Complete { tag, result, .. } => path.can_complete(*tag, *result),
        PathCall::FillHoles { .. } => path.has_holes(),
        PathCall::Release { id, .. } => path.is_ready(*id),
        PathCall::Unpinned { frame, .. } => path.is_pinned_orphan(*frame),
        PathCall::AddDevice { .. }
        | PathCall::EndAppend { .. }
        | PathCall::AcceptLost { .. }
        | PathCall::CancelRead { .. }
        | PathCall::SetScheduler { .. }
        | PathCall::SetSubmitter { .. }
        | PathCall::SetWeight { .. }
        | PathCall::Timeout { .. }
        | PathCall::PollDone
        | PathCall::PollWrite
        | PathCall::Set { .. }
        | PathCall::Close { .. }
        | PathCall::Invalidate { .. }
        | PathCall::CloseStream { .. }
        | PathCall::Marker { .. }
        | PathCall::Advise { .. }
        | PathCall::SetNoReuse { .. }
        | PathCall::Seeked { .. }
        | PathCall::WillNeed { .. }
        | PathCall::PollDispatch { .. }
        | PathCall::PollReady
        | PathCall::TakeLog => true,
    }
}
