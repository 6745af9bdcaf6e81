//! Binary formats with records of a fixed size: VSCSI and oracleGeneral.
//!
//! Records are parsed field by field, never cast to a struct.
//!
//! ```text
//!   vscsi-1   sn u32, bytes u32, segments u32, cmd u16, version u16, sector u64, us u64
//!   vscsi-2   cmd u16, version u16, sn u32, bytes u32, segments u32, sector u64, us u64, rt u64
//!   oracle    s u32, id u64, bytes u32, next access i64                            little endian
//! ```
//!
//! Formats: libCacheSim's readers of them. The id of an oracleGeneral record is interpreted as a
//! sector, as in traces converted from block traces. An id that is the hash of a name exceeds the
//! sectors of any disk, and is folded.

use super::PackedParser;
use crate::file_table::FileTable;
use crate::record::{RawRecord, TraceOp};

/// A format with records of a fixed size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PackedFormat {
    VscsiV1,
    VscsiV2,
    OracleGeneral,
}

impl PackedParser for PackedFormat {
    fn size(&self) -> usize {
        match self {
            Self::VscsiV1 => 32,
            Self::VscsiV2 => 40,
            Self::OracleGeneral => 24,
        }
    }

    fn parse(&self, record: &[u8], files: &mut FileTable) -> Result<Option<RawRecord>, String> {
        assert!(record.len() == self.size(), "the reader cuts records to their size");
        let fields = match self {
            Self::VscsiV1 => PackedFields::vscsi(record, [12, 14, 4, 16, 24], 1)?,
            Self::VscsiV2 => PackedFields::vscsi(record, [0, 2, 8, 16, 24], 2)?,
            Self::OracleGeneral => PackedFields {
                op: Some(TraceOp::Read),
                at_ns: number(record, 0, 4).saturating_mul(1_000_000_000),
                sector: number(record, 4, 8) % MAX_SECTORS,
                length: number(record, 12, 4),
            },
        };
        let Some(op) = fields.op else { return Ok(None) };
        let sector = fields.sector;
        let offset = sector.checked_mul(512).ok_or_else(|| format!("{sector} is not a sector"))?;
        let file = files.number("disk")?;
        let (at_ns, length) = (fields.at_ns, fields.length);
        Ok(Some(RawRecord { at_ns, thread: 0, file, op, offset, length, is_mapped: false }))
    }
}

struct PackedFields {
    op: Option<TraceOp>,
    at_ns: u64,
    sector: u64,
    length: u64,
}

impl PackedFields {
    /// Parses a VSCSI record. `at` has the offsets of command, version, bytes, sector and time.
    fn vscsi(record: &[u8], at: [usize; 5], version: u64) -> Result<Self, String> {
        let found = number(record, at[1], 2) >> 8;
        if found != version {
            return Err(format!("version {found} of vscsi in a trace of version {version}"));
        }
        let command = u16::from_le_bytes([record[at[0]], record[at[0] + 1]]);
        Ok(Self {
            op: scsi_op(command),
            at_ns: number(record, at[4], 8).saturating_mul(1000),
            sector: number(record, at[3], 8),
            length: number(record, at[2], 4),
        })
    }
}

/// Returns true if the id of an oracleGeneral record exceeds the sectors of any disk.
pub(crate) fn is_folded(format: PackedFormat, record: &[u8]) -> bool {
    format == PackedFormat::OracleGeneral && number(record, 4, 8) >= MAX_SECTORS
}

/// Sectors at which a record of any length ends before the end of the largest file: a prime, so
/// that ids in steps of a power of two stay apart.
const MAX_SECTORS: u64 = (1 << 53) - 111;

/// Returns a little-endian number of `size` bytes.
fn number(record: &[u8], at: usize, size: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(&record[at..at + size]);
    u64::from_le_bytes(bytes)
}

/// Returns the operation of a SCSI READ or WRITE command of 6, 10, 12 or 16 bytes; None for others.
pub(crate) fn scsi_op(command: u16) -> Option<TraceOp> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(TraceOp::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Some(TraceOp::Write),
        _ => None,
    }
}

/// Returns the packed format of these first bytes, if they have enough records and each of them is
/// plausible.
pub(crate) fn detect(head: &[u8]) -> Option<PackedFormat> {
    [PackedFormat::VscsiV1, PackedFormat::VscsiV2, PackedFormat::OracleGeneral].into_iter().find(
        |format| {
            let mut records = head.chunks_exact(format.size()).take(PROBED);
            let mut last_s = 0;
            records.len() >= format.min_records()
                && records.all(|record| format.is_plausible(record, &mut last_s))
        },
    )
}

/// Returns the advice for bytes that may be a trace of a single record, too short to be detected.
pub(crate) fn single_record(head: &[u8]) -> Option<String> {
    let format = PackedFormat::OracleGeneral;
    let is_one = head.len() == format.size() && format.is_plausible(head, &mut 0);
    is_one.then(|| {
        "has 24 bytes, too few to detect a format; if it is one record of oracleGeneral, add \
         --format oracle-general"
            .to_owned()
    })
}

impl PackedFormat {
    /// Returns the fewest records that the detection accepts. VSCSI records carry a version. Those
    /// of oracleGeneral have no mark, and a quarter of all files of 24 bytes pass for one.
    fn min_records(self) -> usize {
        match self {
            Self::VscsiV1 | Self::VscsiV2 => 1,
            Self::OracleGeneral => 2,
        }
    }

    fn is_plausible(self, record: &[u8], last_s: &mut u64) -> bool {
        let parsed = self.parse(record, &mut FileTable::default());
        let is_valid = parsed.is_ok_and(|raw| raw.is_none_or(|raw| raw.checked().is_ok()));
        match self {
            Self::VscsiV1 => is_valid && number(record, 12, 2) <= 0xff,
            Self::VscsiV2 => is_valid && number(record, 0, 2) <= 0xff,
            // Times never decrease, and a next access is in the future, -1 or -2.
            Self::OracleGeneral => {
                let at_s = number(record, 0, 4);
                let next = i64::from_le_bytes(number(record, 16, 8).to_le_bytes());
                let is_later = at_s >= std::mem::replace(last_s, at_s);
                is_valid && is_later && next >= -2 && number(record, 12, 4) > 0
            }
        }
    }
}

/// Records checked by the detection.
const PROBED: usize = 64;
