//! The value of `--max-window`.

use std::path::Path;

use foreread::EngineBuilder;
use foreread_core::geometry::DEFAULT_WINDOW;
use foreread_core::prefetch::Policy;
use foreread_core::sizes;
use foreread_core::units::{ByteCount, PAGE_SIZE};
use foreread_sim::scenario::MaxWindowSpec;

use crate::block_device::kernel_window;
use crate::store::url_of;

/// Value of `--max-window`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MaxWindow {
    /// Learnt for each device.
    Auto,
    /// Fixed limit.
    Size(ByteCount),
}

impl MaxWindow {
    /// Returns the kernel's window for the device of a path, but at least the default: the kernel
    /// or an administrator chose it for that device. The window of a store is learnt, as the kernel
    /// has none.
    pub fn of_kernel(target: &Path) -> Self {
        if url_of(target).is_some() {
            return Self::Auto;
        }
        let known = kernel_window(target);
        Self::Size(known.map_or(DEFAULT_WINDOW, |known| known.max(DEFAULT_WINDOW)))
    }

    /// Sets the window in a builder.
    pub fn give(self, builder: EngineBuilder) -> EngineBuilder {
        match self {
            Self::Auto => builder.learn_max_window(),
            Self::Size(window) => builder.max_window(window.0),
        }
    }
}

/// Returns each policy with each of the given windows, or else with its default; None is learnt. A
/// policy without read-ahead is only combined with the first window.
pub fn windows_of(
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
pub fn max_window(text: &str) -> Result<MaxWindow, String> {
    if text == "auto" {
        return Ok(MaxWindow::Auto);
    }
    sizes::parse(text).map(MaxWindow::Size).map_err(|why| format!("{why}; or auto"))
}

/// Parses the value for commands in which the policy `none` disables read-ahead: sizes below a page
/// are refused.
pub fn window_of_pages(text: &str) -> Result<MaxWindow, String> {
    let window = max_window(text)?;
    match window {
        MaxWindow::Auto => {}
        MaxWindow::Size(size) if size.0 < PAGE_SIZE => {
            let why = "must be at least 4K, a page; use --policy none to switch read-ahead off";
            return Err(why.to_owned());
        }
        MaxWindow::Size(size) => _ = MaxWindowSpec::of_pages(size)?,
    }
    Ok(window)
}
