//! The value of `--max-window`.
//!
//! In:    a size, or `auto`.
//! Out:   the largest window that an engine is built with.
//! Never: a window smaller than the default because the kernel's is.

use std::path::Path;

use foreread::EngineBuilder;
use foreread_core::geometry::DEFAULT_WINDOW;
use foreread_core::prefetch::Policy;
use foreread_core::sizes;
use foreread_core::units::{ByteCount, PAGE_SIZE};
use foreread_sim::scenario::MaxWindowSpec;

use crate::block_device::kernel_window;
use crate::store::url_of;

/// What `--max-window` is given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MaxWindow {
    /// As each device was seen to want it.
    Auto,
    /// No larger than this.
    Size(ByteCount),
}

impl MaxWindow {
    /// The kernel's window for the device of a path, and no less than the default: the kernel or an
    /// administrator chose it for that device. Of a store, which no kernel knows, it is learnt.
    pub(crate) fn of_kernel(target: &Path) -> Self {
        if url_of(target).is_some() {
            return Self::Auto;
        }
        let known = kernel_window(target);
        Self::Size(known.map_or(DEFAULT_WINDOW, |known| known.max(DEFAULT_WINDOW)))
    }

    /// An engine that has it.
    pub(crate) fn give(self, builder: EngineBuilder) -> EngineBuilder {
        match self {
            Self::Auto => builder.learn_max_window(),
            Self::Size(window) => builder.max_window(window.0),
        }
    }
}

/// Each policy with each of its largest windows, None where it is learnt: those that are given, or
/// the one that it has by default. A policy that reads nothing ahead has the first alone.
pub(crate) fn windows_of(
    policies: &[Policy],
    given: &[MaxWindow],
    default: impl Fn(Policy) -> MaxWindowSpec,
) -> Vec<(Policy, Option<ByteCount>)> {
    let of = |policy: &Policy| -> Vec<(Policy, Option<ByteCount>)> {
        let size = |window: &MaxWindow| match window {
            MaxWindow::Auto => None,
            MaxWindow::Size(size) => Some(*size),
        };
        let mut windows: Vec<_> = given.iter().map(size).collect();
        if windows.is_empty() {
            windows.push(default(*policy).bytes());
        }
        if *policy == Policy::None {
            windows.truncate(1);
        }
        windows.into_iter().map(|window| (*policy, window)).collect()
    };
    policies.iter().flat_map(of).collect()
}

/// Reads a size, or `auto`.
pub(crate) fn max_window(text: &str) -> Result<MaxWindow, String> {
    if text == "auto" {
        return Ok(MaxWindow::Auto);
    }
    sizes::parse(text).map(MaxWindow::Size).map_err(|why| format!("{why}; or auto"))
}

/// The same where a policy without windows is asked for by its own name, and the window that was
/// given is shown beside what came of it.
pub(crate) fn window_of_pages(text: &str) -> Result<MaxWindow, String> {
    let window = max_window(text)?;
    match window {
        MaxWindow::Auto => {}
        MaxWindow::Size(size) if size.0 < PAGE_SIZE => {
            return Err("wants 4K, a page, at least; --policy none reads nothing ahead".to_owned());
        }
        MaxWindow::Size(size) => _ = MaxWindowSpec::of_pages(size)?,
    }
    Ok(window)
}
