//! Parameters of the device models, parsed from a scenario or `devices.toml`, with their ranges and
//! the geometry they imply.

use foreread_core::geometry::{Geometry, block_size};
use foreread_core::units::{ByteCount, PAGE_SIZE, Pages, SECTOR_SIZE};
use serde::Deserialize;

use crate::size::Size;
use crate::validate::check;

/// The parameters of a device, by the kind of the device.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum DeviceParams {
    /// A hard disk.
    Hdd(Hdd),
    /// Flash memory.
    Flash(Flash),
    /// An object store behind a network.
    Store(Store),
    /// A device mapped onto another one.
    Mapped(Mapped),
}

/// A known device by its name, or a device by its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelChoice {
    /// The name, if it is a known device.
    pub name: Option<&'static str>,
    /// The parameters.
    pub model: DeviceParams,
}

/// The parameters of a hard disk.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Hdd {
    /// The capacity.
    pub capacity: Size,
    /// Revolutions a minute.
    pub rpm: f64,
    /// Transfer rate of the outermost track, where sector 0 is.
    pub outer_mb_per_s: f64,
    /// Transfer rate of the innermost track.
    pub inner_mb_per_s: f64,
    /// Time of the shortest seek.
    pub seek_min_ms: f64,
    /// Time of the longest seek.
    pub seek_max_ms: f64,
    /// Share of the seek time that grows with the square root of the distance, because an arm
    /// accelerates and brakes. The rest grows linearly.
    #[serde(default = "default_root_share")]
    pub seek_root_share: f64,
    /// Fixed cost of a command.
    #[serde(default)]
    pub overhead_us: f64,
    /// Largest command; larger requests are split.
    #[serde(default = "Size::one_gib")]
    pub max_command: Size,
    /// Queue depth of the drive.
    #[serde(default = "one")]
    pub depth: u32,
    /// Number of further commands queued at its controller, in order of arrival. The driver sends
    /// them ahead; the drive sees each only when its queue has room.
    #[serde(default)]
    pub in_controller: u32,
    /// Order in which the drive serves its queue.
    #[serde(default)]
    pub pick: Pick,
    /// With `pick = "nearest"`: credit of each ms of waiting, in ms of positioning time. With 0 a
    /// command can starve.
    #[serde(default)]
    pub age_weight: f64,
    /// Size of the read-ahead buffer: a read that continues within it needs no rotation.
    #[serde(default)]
    pub read_buffer: Size,
    /// Bytes that the drive reads past each read before the arm may seek. These sectors stay in its
    /// buffer until the next read from the platter, regardless of writes.
    #[serde(default)]
    pub read_on: Size,
    /// If true, the drive reads on without end and its buffer keeps the newest sectors: a late read
    /// finds its first sectors overwritten. Otherwise it stops when the buffer is full.
    #[serde(default)]
    pub buffer_overruns: bool,
    /// If true, a write that continues the last one needs no rotation.
    #[serde(default)]
    pub write_buffer: bool,
}

/// Order in which a disk serves its queue.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// Oldest command first.
    #[default]
    Oldest,
    /// Command with the shortest positioning time first.
    Nearest,
}

/// The parameters of a flash device.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// The capacity.
    pub capacity: Size,
    /// Transfer rate of the bus.
    pub mb_per_s: f64,
    /// Fixed cost of a command, not counting its transfer.
    #[serde(default)]
    pub overhead_us: f64,
    /// Largest command; larger requests are split.
    #[serde(default = "Size::one_gib")]
    pub max_command: Size,
    /// Number of commands served in parallel.
    #[serde(default = "one")]
    pub channels: u32,
    /// Queue depth.
    #[serde(default = "one")]
    pub depth: u32,
    /// Additional cost of large commands: `stall_us` x size / (size + `stall_size`), so half of it
    /// at `stall_size`, and never all of it.
    #[serde(default)]
    pub stall_us: f64,
    /// Size at which a command pays half of `stall_us`.
    #[serde(default)]
    pub stall_size: Size,
    /// Relative variation of `overhead_us` between commands, uniformly distributed.
    #[serde(default)]
    pub jitter: f64,
}

/// The parameters of an object store.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The capacity.
    pub capacity: Size,
    /// Time from a request to its first byte: the median, if it varies.
    pub latency_ms: f64,
    /// Standard deviation of the logarithm of the latency, which is normally distributed.
    #[serde(default)]
    pub latency_sigma: f64,
    /// Share of requests that take `slow_factor` times as long.
    #[serde(default)]
    pub slow_share: f64,
    /// Slowdown of a slow request.
    #[serde(default = "default_one")]
    pub slow_factor: f64,
    /// Transfer rate of one connection.
    pub connection_mb_per_s: f64,
    /// Transfer rate of all connections together.
    pub link_mb_per_s: f64,
    /// Number of connections: each serves one request at a time.
    pub connections: u32,
    /// Largest request; larger ones are split.
    #[serde(default = "Size::one_mib")]
    pub max_request: Size,
    /// Size of the pieces in which bytes arrive.
    #[serde(default = "default_piece")]
    pub piece: Size,
    /// Rate beyond which the store throttles requests (503); 0: never.
    #[serde(default)]
    pub requests_per_s: f64,
    /// Burst of requests that the store accepts above that rate.
    #[serde(default = "default_burst")]
    pub burst: u32,
    /// If true, late requests are hedged.
    #[serde(default = "default_true")]
    pub hedge: bool,
    /// If true, throttling makes the client lower its number of requests in flight. It retries each
    /// request after a pause in either case.
    #[serde(default = "default_true")]
    pub back_off: bool,
    /// Seed of the latencies.
    #[serde(default = "one")]
    pub seed: u32,
    /// Price of 1000 requests.
    #[serde(default)]
    pub price_per_1000_requests: f64,
    /// Price of 10^9 bytes.
    #[serde(default)]
    pub price_per_gb: f64,
}

/// The parameters of a mapped device.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Mapped {
    /// Underlying device: a known one by name, or `hdd` or `flash` with parameters.
    pub on: Box<ModelChoice>,
    /// Capacity of the mapped device.
    pub capacity: Size,
    /// Offset on the underlying device.
    #[serde(default)]
    pub at: Size,
    /// Splitting of its reads into bios.
    pub reader: BioSource,
    /// Cost of each bio.
    pub bio_us: f64,
}

/// Splitting of reads of a block device into bios.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum BioSource {
    /// One bio per block, like kernels that read block devices through buffers.
    PerBlock,
    /// One bio per run of blocks, like current kernels.
    MultiBlock,
}

impl DeviceParams {
    /// Returns the geometry that the I/O path sees.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let (capacity, max_command, depth) = match self {
            Self::Hdd(disk) => {
                (disk.capacity.0, disk.max_command.0, disk.depth + disk.in_controller)
            }
            Self::Flash(chips) => (chips.capacity.0, chips.max_command.0, chips.depth),
            Self::Store(store) => (store.capacity.0, store.max_request.0, store.connections),
            Self::Mapped(mapped) => {
                return Geometry { capacity: mapped.capacity.0, ..mapped.on.model.geometry() };
            }
        };
        let max_io = Pages(max_command.0 / PAGE_SIZE);
        Geometry { max_io, depth, ..Geometry::new(capacity) }
    }
}

impl Hdd {
    pub(super) fn check(&self) -> Result<(), String> {
        check_common(self.capacity.0, self.max_command.0, self.depth)?;
        check(self.rpm.is_finite() && (60.0..=1e5).contains(&self.rpm), "rpm", "60 to 100000")?;
        check(is_rate(self.outer_mb_per_s), "outer_mb_per_s", "0.001 to 1000000")?;
        check(is_rate(self.inner_mb_per_s), "inner_mb_per_s", "0.001 to 1000000")?;
        check(is_time(self.seek_min_ms), "seek_min_ms", "0 to 10^9")?;
        let is_longer = is_time(self.seek_max_ms) && self.seek_max_ms >= self.seek_min_ms;
        check(is_longer, "seek_max_ms", "at least seek_min_ms, at most 10^9")?;
        let share = self.seek_root_share;
        check((0.0..=1.0).contains(&share), "seek_root_share", "0 to 1")?;
        check(is_time(self.overhead_us), "overhead_us", "0 to 10^9")?;
        check(is_time(self.age_weight), "age_weight", "0 to 10^9")?;
        check(self.in_controller <= 4096, "in_controller", "0 to 4096")
    }
}

impl Flash {
    pub(super) fn check(&self) -> Result<(), String> {
        check_common(self.capacity.0, self.max_command.0, self.depth)?;
        check(is_rate(self.mb_per_s), "mb_per_s", "0.001 to 1000000")?;
        check(is_time(self.overhead_us), "overhead_us", "0 to 10^9")?;
        check(is_time(self.stall_us), "stall_us", "0 to 10^9")?;
        check((0.0..=1.0).contains(&self.jitter), "jitter", "0 to 1")?;
        check((1..=1024).contains(&self.channels), "channels", "1 to 1024")
    }

    /// Returns true if a device may change to `other`: the properties that its host saw first must
    /// not change.
    pub(super) fn can_become(&self, other: &Self) -> bool {
        let told = |flash: &Self| (flash.capacity, flash.max_command, flash.depth, flash.channels);
        told(self) == told(other)
    }
}

impl Store {
    pub(super) fn check(&self) -> Result<(), String> {
        check_common(self.capacity.0, self.max_request.0, self.connections)
            .map_err(|why| why.replace("max_command", "max_request"))
            .map_err(|why| why.replace("depth", "connections"))?;
        check(is_time(self.latency_ms), "latency_ms", "0 to 10^9")?;
        let (connection, link) = (self.connection_mb_per_s, self.link_mb_per_s);
        check(is_rate(connection), "connection_mb_per_s", "0.001 to 1000000")?;
        check(
            is_rate(link) && link >= connection,
            "link_mb_per_s",
            "at least connection_mb_per_s, at most 1000000",
        )?;
        check((0.0..=3.0).contains(&self.latency_sigma), "latency_sigma", "0 to 3")?;
        check((0.0..=1.0).contains(&self.slow_share), "slow_share", "0 to 1")?;
        check((1.0..=1000.0).contains(&self.slow_factor), "slow_factor", "1 to 1000")?;
        let rate = self.requests_per_s;
        check(rate == 0.0 || is_rate(rate), "requests_per_s", "0, or 0.001 to 1000000")?;
        check((1..=10_000).contains(&self.burst), "burst", "1 to 10000")?;
        check(is_time(self.price_per_1000_requests), "price_per_1000_requests", "0 to 10^9")?;
        check(is_time(self.price_per_gb), "price_per_gb", "0 to 10^9")?;
        let piece = self.piece.0.0;
        let is_whole = piece >= PAGE_SIZE && piece.is_multiple_of(PAGE_SIZE);
        check(is_whole, "piece", "a positive multiple of 4K")
    }
}

impl Mapped {
    /// Returns the block size that the capacity implies.
    #[must_use]
    pub fn block(&self) -> ByteCount {
        block_size(self.capacity.0, ByteCount(SECTOR_SIZE), ByteCount(PAGE_SIZE))
    }

    /// Checks that the underlying device is not mapped itself.
    pub(super) fn check_on(&self) -> Result<(), String> {
        let is_plain = !matches!(self.on.model, DeviceParams::Mapped(_));
        check(is_plain, "on", "a device that is not mapped; bio_us may be the sum of two")
    }

    /// Checks all parameters except the underlying device.
    pub(super) fn check(&self) -> Result<(), String> {
        let room = self.on.model.geometry().capacity;
        let Size(at) = self.at;
        let is_sector = |bytes: ByteCount| bytes.0.is_multiple_of(SECTOR_SIZE);
        check(is_sector(at), "at", "a multiple of 512 bytes")?;
        let Size(size) = self.capacity;
        check(
            size.0 >= SECTOR_SIZE && is_sector(size),
            "capacity",
            "a positive multiple of 512 bytes",
        )?;
        let fits = at.0.checked_add(size.0).is_some_and(|end| end <= room.0);
        check(fits, "capacity", "at most the size of the device below, less at")?;
        check(is_time(self.bio_us), "bio_us", "0 to 10^9")
    }
}

/// Checks the parameters common to all devices.
fn check_common(capacity: ByteCount, max_command: ByteCount, depth: u32) -> Result<(), String> {
    check(
        capacity.0 >= 512 && capacity.0.is_multiple_of(512),
        "capacity",
        "a positive multiple of 512 bytes",
    )?;
    let is_whole = max_command.0 >= PAGE_SIZE && max_command.0.is_multiple_of(PAGE_SIZE);
    check(is_whole, "max_command", "a positive multiple of 4K")?;
    check(max_command.0 <= 1 << 30, "max_command", "at most 1G")?;
    check((1..=4096).contains(&depth), "depth", "1 to 4096")
}

fn is_time(number: f64) -> bool {
    number.is_finite() && (0.0..=1e9).contains(&number)
}

fn is_rate(number: f64) -> bool {
    number.is_finite() && (1e-3..=1e6).contains(&number)
}

fn one() -> u32 {
    1
}

fn default_piece() -> Size {
    Size(ByteCount(128 << 10))
}

fn default_burst() -> u32 {
    10
}

fn default_one() -> f64 {
    1.0
}

fn default_true() -> bool {
    true
}

fn default_root_share() -> f64 {
    0.7
}
