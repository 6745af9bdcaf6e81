//! Video capture: pictures arrive at a fixed rate, and are dropped while the buffer is full.
//!
//! ```text
//!   camera --pictures--> [ buffer: limited capacity ] --> writer --> device
//!                         full: a picture is lost           '-- a bitmap block is read
//!                                                               before each stretch
//! ```
//!
//! The writer periodically needs a block bitmap: without it the file system cannot allocate the
//! next stretch. That read is small, but all writes wait for it.

use std::cell::Cell;
use std::rc::Rc;

use foreread_core::path::DeviceId;
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos, Sector, Sectors};
use serde::Deserialize;

use crate::channel::Channel;
use crate::machine::Machine;
use crate::prepared_run::PreparedRun;
use crate::process::Process;
use crate::size::Size;
use crate::slots::SlotsId;
use crate::time::{ns_of_ms, seconds};
use crate::validate::check;

/// Writes pictures until the run stops.
///
/// Its meter reports `pictures`, `lost`, `max_buffer` in pictures, `bitmaps`, `bitmap_max_ms`, and,
/// while it waits for a bitmap, `bitmap_since_s`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capture {
    /// Device.
    pub device: String,
    /// Start of the region on the device.
    #[serde(default)]
    pub at: Size,
    /// Size of the region; the writer wraps around at its end.
    pub size: Size,
    /// Size of a picture.
    pub picture: Size,
    /// Pictures per second.
    pub per_s: f64,
    /// Capacity of the buffer, in pictures.
    pub buffer: u32,
    /// Size of a request.
    #[serde(default = "request")]
    pub request: Size,
    /// Number of requests in flight.
    #[serde(default = "in_flight")]
    pub in_flight: u32,
    /// Bytes written between two bitmaps.
    pub bitmap_every: Size,
}

impl Capture {
    pub(super) fn check(&self, machine: &Machine<'_>) -> Result<(), String> {
        machine.check_range(&self.device, self.at.0, self.size.0)?;
        let is_whole = |size: Size| size.0 > ByteCount::ZERO && size.0.0.is_multiple_of(512);
        check(is_whole(self.picture), "picture", "a positive multiple of 512 bytes")?;
        check(is_whole(self.request), "request", "a positive multiple of 512 bytes")?;
        machine.check_request(&self.device, self.request.0, "request")?;
        check(
            self.per_s.is_finite() && (1e-3..=1e5).contains(&self.per_s),
            "per_s",
            "0.001 to 100000",
        )?;
        check((1..=1 << 20).contains(&self.buffer), "buffer", "1 to 1048576")?;
        check((1..=1 << 16).contains(&self.in_flight), "in_flight", "1 to 65536")?;
        check(is_whole(self.bitmap_every), "bitmap_every", "a positive multiple of 512 bytes")?;
        let has_room = self.bitmap_every.0 <= self.size.0.saturating_sub(BITMAP);
        check(has_room, "bitmap_every", "less than size")?;
        check(machine.stops, "until_s", "set for a scenario with capture")
    }

    pub(super) fn begin(
        &self,
        building: &mut PreparedRun,
        name: &str,
        start: Nanos,
    ) -> Result<(), String> {
        let device = building.device(&self.device)?;
        let params = self.clone();
        building.begin(name, start, async move |process: Process| {
            params.record(&process, device).await;
        });
        Ok(())
    }

    /// Buffers pictures as they arrive; another process writes them.
    async fn record(&self, process: &Process, device: DeviceId) {
        let buffered = Rc::new(Cell::new(0_u32));
        let line = Channel::new();
        let (params, count, pictures) = (self.clone(), Rc::clone(&buffered), Rc::clone(&line));
        let camera = process.clone();
        process.spawn("writer", async move |writer: Process| {
            params.write(&writer, &camera, device, &pictures, &count).await;
        });
        let began = process.now();
        for number in 0_u32.. {
            process.until(due(began, number, self.per_s)).await;
            process.meter(|meter, _| *meter.other.entry("pictures").or_default() += 1.0);
            if buffered.get() == self.buffer {
                process.meter(|meter, _| *meter.other.entry("lost").or_default() += 1.0);
                continue;
            }
            buffered.set(buffered.get() + 1);
            line.send(process, ());
            let most = f64::from(buffered.get());
            process.meter(|meter, _| {
                let before = meter.other.entry("max_buffer").or_default();
                *before = before.max(most);
            });
        }
    }

    /// Writes pictures; a picture leaves the buffer once its last byte is queued.
    async fn write(
        &self,
        process: &Process,
        camera: &Process,
        device: DeviceId,
        pictures: &Channel<()>,
        buffered: &Cell<u32>,
    ) {
        let slots = process.slots(self.in_flight);
        let mut place = WriterPosition { stretch: ByteCount::ZERO, done: self.bitmap_every.0 };
        loop {
            pictures.receive(process).await;
            let mut rest = self.picture.0;
            while rest > ByteCount::ZERO {
                if place.done >= self.bitmap_every.0 {
                    place = WriterPosition {
                        stretch: self.next_stretch(place.stretch),
                        done: ByteCount::ZERO,
                    };
                    self.read_bitmap(process, camera, device, place.stretch).await;
                }
                rest -= self.post_part(process, device, slots, &mut place, rest).await;
            }
            buffered.set(buffered.get() - 1);
        }
    }

    async fn post_part(
        &self,
        process: &Process,
        device: DeviceId,
        slots: SlotsId,
        place: &mut WriterPosition,
        rest: ByteCount,
    ) -> ByteCount {
        let part = self.request.0.min(rest).min(self.bitmap_every.0 - place.done);
        let start = self.at.0 + place.stretch + BITMAP + place.done;
        let (start, sectors) = (Sector(start.0 / 512), Sectors(part.0 / 512));
        process.post(slots, device, Op::Write, start, sectors).await;
        place.done += part;
        part
    }

    async fn read_bitmap(
        &self,
        process: &Process,
        camera: &Process,
        device: DeviceId,
        stretch: ByteCount,
    ) {
        let began = process.now();
        camera.meter(|meter, now| meter.other.insert("bitmap_since_s", seconds(now.0)));
        let start = Sector((self.at.0 + stretch).0 / 512);
        let read = process.direct(device, Op::Read, start, Sectors(BITMAP.0 / 512)).await;
        read.expect("no device model fails a request");
        camera.meter(|meter, now| {
            meter.other.remove("bitmap_since_s");
            *meter.other.entry("bitmaps").or_default() += 1.0;
            let most = meter.other.entry("bitmap_max_ms").or_default();
            *most = most.max(seconds(now.0 - began.0) * 1e3);
        });
    }

    /// Returns the start of the next stretch.
    fn next_stretch(&self, stretch: ByteCount) -> ByteCount {
        let whole = self.bitmap_every.0 + BITMAP;
        let next = stretch + whole;
        if next + whole <= self.size.0 { next } else { ByteCount::ZERO }
    }
}

/// Position of the writer.
#[derive(Clone, Copy, Debug)]
struct WriterPosition {
    /// Start of the stretch, with its bitmap.
    stretch: ByteCount,
    /// Bytes of it written so far.
    done: ByteCount,
}

fn due(began: Nanos, number: u32, per_s: f64) -> Nanos {
    Nanos(began.0.saturating_add(ns_of_ms(f64::from(number) / per_s * 1e3)))
}

/// Size of a file-system block.
const BITMAP: ByteCount = ByteCount(4096);

fn request() -> Size {
    Size(ByteCount(128 << 10))
}

fn in_flight() -> u32 {
    16
}
