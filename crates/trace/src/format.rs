//! Trace formats by name, and their parsers.

pub(crate) mod blkparse;
pub(crate) mod columns;
pub(crate) mod fio;
pub(crate) mod heading;
mod operation;
pub(crate) mod own;
pub(crate) mod packed;
mod split;

use crate::file_table::FileTable;
use crate::record::{RawRecord, TraceLevel};

/// A trace format.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TraceFormat {
    /// Text output of blkparse.
    Blkparse,
    /// fio's `iolog`, version 2: waits instead of times.
    FioV2,
    /// fio's `iolog`, version 3: a time on each line.
    FioV3,
    /// The CSV of the MSR Cambridge traces at SNIA.
    Msr,
    /// VMware's vscsiStats, version 1: the CloudPhysics traces.
    VscsiV1,
    /// VMware's vscsiStats, version 2.
    VscsiV2,
    /// libCacheSim's `oracleGeneral`.
    OracleGeneral,
    /// Tencent's block traces.
    Tencent,
    /// Alibaba's block traces.
    Alibaba,
    /// The traces of SYSTOR '17.
    Systor,
    /// The Storage Performance Council's text, as the UMass traces.
    Spc,
    /// MQSim's text.
    Mqsim,
    /// CSV with a heading that names its columns.
    Csv,
    /// foreread's own.
    Foreread,
}

impl TraceFormat {
    /// All formats.
    pub const ALL: [Self; 14] = [
        Self::Blkparse,
        Self::FioV2,
        Self::FioV3,
        Self::Msr,
        Self::VscsiV1,
        Self::VscsiV2,
        Self::OracleGeneral,
        Self::Tencent,
        Self::Alibaba,
        Self::Systor,
        Self::Spc,
        Self::Mqsim,
        Self::Csv,
        Self::Foreread,
    ];

    /// Returns the name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blkparse => "blkparse",
            Self::FioV2 => "fio-2",
            Self::FioV3 => "fio-3",
            Self::Msr => "msr",
            Self::VscsiV1 => "vscsi-1",
            Self::VscsiV2 => "vscsi-2",
            Self::OracleGeneral => "oracle-general",
            Self::Tencent => "tencent",
            Self::Alibaba => "alibaba",
            Self::Systor => "systor",
            Self::Spc => "spc",
            Self::Mqsim => "mqsim",
            Self::Csv => "csv",
            Self::Foreread => "foreread",
        }
    }

    /// Returns the format of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the level of the format's traces, unless the trace itself shows it: fio's logs may
    /// be of a device, by the names of their files, and so may CSV, by its heading.
    #[must_use]
    pub const fn level(self) -> TraceLevel {
        match self {
            Self::FioV2 | Self::FioV3 | Self::Csv | Self::Foreread => TraceLevel::File,
            Self::Blkparse
            | Self::Msr
            | Self::VscsiV1
            | Self::VscsiV2
            | Self::OracleGeneral
            | Self::Tencent
            | Self::Alibaba
            | Self::Systor
            | Self::Spc
            | Self::Mqsim => TraceLevel::Block,
        }
    }

    /// Returns true if the format records the thread of a request.
    #[must_use]
    pub const fn has_threads(self) -> bool {
        matches!(self, Self::Blkparse | Self::Csv | Self::Foreread)
    }

    /// Returns true if the format has times finer than a second.
    #[must_use]
    pub const fn has_fine_times(self) -> bool {
        !matches!(self, Self::OracleGeneral | Self::Tencent)
    }
}

/// Parser of one line. It returns None for a line without a request.
pub(crate) trait LineParser {
    fn parse(&mut self, line: &str, files: &mut FileTable) -> Result<Option<RawRecord>, String>;

    /// Returns true if lines that begin with `#` are comments: not where a line may begin with a
    /// name.
    fn has_comments(&self) -> bool {
        true
    }

    /// Returns notes on records dropped, and on assumptions made so far.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Parser of records of a fixed size.
pub(crate) trait PackedParser {
    /// Returns the size of a record in bytes, at most 64.
    fn size(&self) -> usize;

    fn parse(&self, record: &[u8], files: &mut FileTable) -> Result<Option<RawRecord>, String>;
}
