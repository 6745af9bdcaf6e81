//! Modules that the programs `foreread` and `foreread-lab` share. No API for other crates.
//!
//! Answers go to stdout, errors to stderr in one line. Wrong usage never panics, bad input prints
//! nothing on stdout, and a closed pipe is no error.
//!
//! Each program is a folder below `bin`: its `cli` defines the arguments, each verb has a file in
//! its `cmd`. Verbs use the modules below and never each other.
//!
//! ```text
//!   bin/foreread    bin/foreread-lab
//!       measure    image    generated_docs
//!         store    program    write_claim
//!         args    table    html_file    progress    settings_holder    signals
//!           output    output_file    terminal    clock    block_device
//! ```

#![doc(hidden)]
#![expect(clippy::must_use_candidate, reason = "only our programs call these functions")]

pub mod args;
pub mod block_device;
pub mod clock;
pub mod device_memory;
pub mod generated_docs;
pub mod html_file;
pub mod image;
pub mod measure;
pub mod output;
pub mod output_file;
pub mod program;
pub mod progress;
pub mod settings_holder;
pub mod signals;
pub mod store;
pub mod table;
pub mod terminal;
pub mod write_claim;
