//! foreread in virtual time: the same I/O path, driven by an event queue instead of a ring.
//!
//! In:    a scenario: devices as models, files, processes, a seed.
//! Out:   figures of each process and device, and one hash over all events.
//! Never: a clock, a thread, a real byte. The same seed gives the same run on every machine.

pub mod cache_policy;
pub mod channel;
pub mod comparison;
pub mod device;
pub mod durability;
pub mod ext4;
pub mod grid;
pub mod json_rows;
pub mod lower_bounds;
pub mod mean_interval;
pub mod meter;
pub mod optimum;
pub mod parallel;
pub mod picture;
pub mod pinned_page;
pub mod policy;
pub mod prepared_run;
pub mod process;
pub mod read_log;
pub mod reader;
pub mod record;
pub mod replay;
pub mod rival_policy;
pub mod rivals;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod seeds;
pub mod size;
pub mod time_series;
pub mod workload;

mod clock;
mod external_cache;
mod machine;
mod requested_pages;
mod run_state;
mod slots;
mod task;
mod time;
mod validate;
mod world;
mod zipf;

pub use slots::SlotsId;
