//! Traces of every format with random damage, and what has to hold of whatever comes of them.
//!
//! In:    a format, or a way of compressing; a seed.
//! Out:   a panic with the case, if reading panics or a promise of the reader is broken.
//! Never: a file, a clock: the same seed is the same case.

use std::ops::Range;

use foreread_trace::{
    FileNo, MAX_LENGTH, OutputFormat, TraceError, TraceFormat, TraceReader, TraceRecord,
    TraceSummary, TraceWriter,
};

/// Random numbers: xorshift64*, which a test needs no crate for.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        let part = ((self.next() >> 32) * limit as u64) >> 32;
        usize::try_from(part).expect("below the limit")
    }

    fn pick<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        &values[self.below(values.len())]
    }
}

/// A parser that is tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Subject {
    Format(TraceFormat),
    Gzip,
    Xz,
    Zstd,
}

impl Subject {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let formats = TraceFormat::ALL.into_iter().map(Self::Format);
        formats.chain([Self::Gzip, Self::Xz, Self::Zstd]).collect()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Format(format) => format.name(),
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }

    /// Well-formed traces, from which the damaged ones are made.
    fn samples(self) -> Vec<Vec<u8>> {
        let line = |n: u64| format!("{},{},8,0,{}\n", 10 + n / 3, n * 8 % 65536, n % 7);
        let text = || (0..60).map(line).collect::<String>().into_bytes();
        match self {
            Self::Format(format) => [vec![sample(format)], headings(format)].concat(),
            Self::Gzip => vec![gzip(&text())],
            // Made with xz 5.4.1: as it is, and behind the filters x86 and delta.
            Self::Xz => {
                vec![include_bytes!("plain.xz").to_vec(), include_bytes!("filtered.xz").to_vec()]
            }
            Self::Zstd => {
                let fastest = ruzstd::encoding::CompressionLevel::Fastest;
                vec![ruzstd::encoding::compress_to_vec(&text()[..], fastest)]
            }
        }
    }
}

/// Reads damaged traces of a format, and returns how many bytes they had. No two seeds have a case
/// in common, up to 2^32 cases each.
pub(crate) fn read_damaged(subject: Subject, seed: u64, cases: Range<u64>) -> u64 {
    let samples = subject.samples();
    let mut total = 0;
    for case in cases {
        let mut dice = Dice(((seed << 32) ^ case).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let sample: &Vec<u8> = dice.pick(&samples);
        let bytes = damaged(sample, &mut dice);
        total += bytes.len() as u64;
        let told = match subject {
            Subject::Format(format) => (dice.below(2) == 0).then_some(format),
            Subject::Gzip | Subject::Xz | Subject::Zstd => None,
        };
        let result = std::panic::catch_unwind(|| check(&bytes, told));
        if result.is_err() {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            panic!("{}: seed {seed}, case {case}, format {told:?}: {text:?}", subject.name());
        }
    }
    total
}

/// The other forms of a format: headings, names with any bytes, statistics.
fn headings(format: TraceFormat) -> Vec<Vec<u8>> {
    let texts: &[&[u8]] = match format {
        TraceFormat::Msr => {
            &[b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,hm,0,\
                Read,383496192,32768,413\n128166372016382155,hm,1,Write,310983680,8192,250\n"]
        }
        TraceFormat::Alibaba => {
            &[b"device_id,opcode,offset,length,timestamp\n0,R,126703661056,4096,1577808000000046\n1,W,\
                19496058880,77824,1577808000000426\n"]
        }
        TraceFormat::Csv => &[
            b"\xef\xbb\xbftime;opcode;filename;offset;size;note\n1577808000000046;0;\xff\"a;0;4096;\"x\n\
              1577808000000047;1;b%20c;4096;4096;\"y;z\n",
            b"ts(ms)\tis_write\tlba\tsectors\tpid\n1\t0\t8\t8\t99999999999\n2\ttrue\t16\t8\tabc\n",
        ],
        TraceFormat::Blkparse => {
            &[b"  8,0 3 1 0.000000000 697 Q R 8 + 8 [l\xc3]\n  8,0 3 2 0.1 697 Q R 16 + 8 [a\x1b[1m\nb]\n\n\
                x (697)\n Reads Queued: 1, 4KiB\n\nCPU0 (sda):\n Reads Queued: 3, 12KiB\n\nTotal (sda):\n"]
        }
        TraceFormat::FioV2
        | TraceFormat::FioV3
        | TraceFormat::Tencent
        | TraceFormat::Systor
        | TraceFormat::Spc
        | TraceFormat::Mqsim
        | TraceFormat::VscsiV1
        | TraceFormat::VscsiV2
        | TraceFormat::OracleGeneral
        | TraceFormat::Foreread => &[],
    };
    texts.iter().map(|text| text.to_vec()).collect()
}

/// A well-formed trace, of three records or more.
fn sample(format: TraceFormat) -> Vec<u8> {
    let text = match format {
        TraceFormat::Blkparse => {
            "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n  8,0    3       \
             4     0.500000000   698  Q  RA 1024 + 16 [dd]\n  8,0    3        5     0.600000000   \
             698  Q   D 0 + 16 [fstrim]\n  8,0    3        6     0.700000000   698  C   R 2048 + \
             16 [0]\nCPU3 (8,0):\n Reads Queued:           1,        8KiB\n"
        }
        TraceFormat::FioV2 => {
            "fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/a wait 1500 0\n/a write 8 16\n\
             /a read 65536 16384\n"
        }
        TraceFormat::FioV3 => {
            "fio version 3 iolog\n0 /b%20c add\n211 /b%20c read 0 512\n311 /b%20c trim 0 512\n411 \
             /b%20c read 512 512\n500 /b%20c write 0 9\n"
        }
        TraceFormat::Msr => {
            "128166372003061629,hm,1,Read,383496192,32768,413\n128166372013061629,hm,1,Write,0,512,\
             9\n128166372023061629,hm,0,Read,4096,4096,1\n"
        }
        TraceFormat::Tencent => "10,0,8,0,1\n12,8,8,0,1\n11,16,8,1,1\n13,16,8,0,2\n",
        TraceFormat::Alibaba => {
            "419,W,8792731648,16384,1577808144360767\n419,R,0,4096,1577808144360769\n420,R,4096,1,\
             1577808144360770\n"
        }
        TraceFormat::Systor => {
            "1455592511.000512,0.001155,R,1,86700032,16384\n1455592512.5,,W,1,0,512\n1455592513,0.1,\
             R,2,4096,4096\n"
        }
        TraceFormat::Spc => {
            "0,20941264,8192,W,0.551706\n0,20939840,8192,w,0.554041\n1,3436288,15872,r,1.011732\n"
        }
        TraceFormat::Mqsim => {
            "938513000 4 264719034 16 0\n938513900 4 264719050 16 1\n938514000 0 8 8 1\n"
        }
        TraceFormat::Csv => {
            "time_ns,thread,op,file,offset,length,mapped\n0,1,r,\"/a,\"\"b\"\"\",0,4096,0\n7,2,w,/c%0ad,\
             4096,1,0\n9,1,r,/c,1099511627776,65536,true\n"
        }
        TraceFormat::VscsiV1
        | TraceFormat::VscsiV2
        | TraceFormat::OracleGeneral
        | TraceFormat::Foreread => return packed(format),
    };
    text.as_bytes().to_vec()
}

fn packed(format: TraceFormat) -> Vec<u8> {
    if format == TraceFormat::Foreread {
        let csv = sample(TraceFormat::Csv);
        let own = converted(&csv, None, OutputFormat::Foreread).expect("well formed");
        return own.expect("it holds each name");
    }
    let mut bytes = Vec::new();
    for n in 0..4_u32 {
        let (sector, us) = (u64::from(n) * 8, 1_000_000 + u64::from(n) * 10);
        let command: u16 = if n == 1 { 0x2a } else { 0x28 };
        let sizes = [4096_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat();
        if format == TraceFormat::VscsiV1 {
            bytes.extend(n.to_le_bytes());
            bytes.extend(sizes);
            bytes.extend([command.to_le_bytes(), 0x0100_u16.to_le_bytes()].concat());
            bytes.extend([sector.to_le_bytes(), us.to_le_bytes()].concat());
        } else if format == TraceFormat::VscsiV2 {
            bytes.extend([command.to_le_bytes(), 0x0200_u16.to_le_bytes()].concat());
            bytes.extend(n.to_le_bytes());
            bytes.extend(sizes);
            bytes.extend([sector.to_le_bytes(), us.to_le_bytes(), 7_u64.to_le_bytes()].concat());
        } else {
            bytes.extend((100 + n).to_le_bytes());
            bytes.extend(sector.to_le_bytes());
            bytes.extend(4096_u32.to_le_bytes());
            bytes.extend((-1_i64).to_le_bytes());
        }
    }
    bytes
}

/// A few of: other bits, other bytes, digits and separators, parts that are gone, doubled or moved.
fn damaged(sample: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    if dice.below(512) == 0 {
        // Longer than what a format is told by: records lie across its end.
        bytes = sample.repeat((66 << 10) / sample.len());
    }
    for _ in 0..1 + dice.below(6) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = dice.below(bytes.len());
        let len = 1 + dice.below((bytes.len() - at).min(40));
        match dice.below(9) {
            0 => bytes[at] ^= 1 << dice.below(8),
            1 => bytes[at] = *dice.pick(b"0129-+.,:;%\"/ \t\n\r#xRW\0\x7f\x80\xff"),
            2 => bytes[at..at + len].fill(*dice.pick(b"0 9\0\xff,\n")),
            3 => drop(bytes.drain(at..at + len)),
            4 => bytes.truncate(at),
            5 => {
                let part = bytes[at..at + len].to_vec();
                let to = dice.below(bytes.len());
                bytes.splice(to..to, part);
            }
            6 => bytes.splice(at..at, dice.pick(&NUMBERS).bytes()).for_each(drop),
            7 => {
                let to = dice.below(bytes.len());
                bytes.swap(at, to);
            }
            _ => bytes.extend_from_within(at..at + len),
        }
    }
    if dice.below(16) == 0 {
        bytes = gzip(&bytes);
        if dice.below(2) == 0 {
            let at = dice.below(bytes.len());
            bytes[at] ^= 1 << dice.below(8);
        }
    }
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, bytes).expect("a vector takes it");
    gzip.finish().expect("a vector takes it")
}

/// Numbers at which sums and products overflow.
const NUMBERS: [&str; 8] = [
    "18446744073709551615",
    "9223372036854775807",
    "4294967295",
    "-1",
    "1e308",
    "0.0000000001",
    "99999999999999999999999",
    "1073741825",
];

/// A record, and the name of its file.
type NamedRecord = (TraceRecord, String);

/// Reads a trace to its end or its error, and checks what a caller relies on.
fn check(bytes: &[u8], format: Option<TraceFormat>) {
    let Ok(first) = all(bytes, format) else { return };
    let mut at = 0;
    for (record, _) in &first {
        assert!(record.at.0 >= at, "time goes back");
        assert!((1..=MAX_LENGTH).contains(&record.length), "{record:?}");
        assert!(record.offset.checked_add(record.length).is_some_and(|end| end <= 1 << 63));
        at = record.at.0;
    }
    let reader = TraceReader::with_format(bytes, "t", format).expect("it was read");
    let summary = TraceSummary::of(reader).expect("it was read");
    assert_eq!(summary.reads + summary.writes, first.len() as u64);
    if first.is_empty() {
        return;
    }
    // What was understood survives in each format that is written, as far as that can hold it.
    for to in OutputFormat::ALL {
        let Some(again) = converted(bytes, format, to).expect("it was read") else {
            let is_blank = |name: &str| name.contains(|c: char| c.is_ascii_whitespace() || c < ' ');
            let is_unheld = |name: &str| is_blank(name) || name.len() > 255;
            assert!(to == OutputFormat::FioV3, "only fio's logs do not hold all names");
            assert!(first.iter().any(|(_, name)| is_unheld(name)), "a name that it holds");
            continue;
        };
        let again = all(&again, None).expect("the writer's own");
        let kept = first.iter().map(|record| kept_in(to, record));
        assert!(kept.eq(again.iter().map(|record| kept_in(to, record))), "other in {to:?}");
    }
}

/// What a format holds of a record. The numbers of files may change: two may have one name.
fn kept_in(format: OutputFormat, (record, name): &NamedRecord) -> (TraceRecord, String) {
    let mut kept = TraceRecord { file: FileNo(0), ..*record };
    if format == OutputFormat::FioV3 {
        (kept.thread, kept.is_mapped) = (0, false);
        kept.at.0 = kept.at.0 / 1000 * 1000;
    }
    (kept, name.clone())
}

fn all(bytes: &[u8], format: Option<TraceFormat>) -> Result<Vec<NamedRecord>, TraceError> {
    let mut reader = TraceReader::with_format(bytes, "t", format)?;
    let mut found = Vec::new();
    while let Some(record) = reader.next_record()? {
        let file = reader.files().get(record.file).expect("each record has a file");
        found.push((record, file.name.clone()));
    }
    Ok(found)
}

/// None if the format cannot hold a name.
fn converted(
    bytes: &[u8],
    format: Option<TraceFormat>,
    to: OutputFormat,
) -> Result<Option<Vec<u8>>, TraceError> {
    let mut reader = TraceReader::with_format(bytes, "t", format)?;
    let mut writer = TraceWriter::new(Vec::new(), to, false);
    while let Some(record) = reader.next_record()? {
        if let Err(error) = writer.write(&record, reader.files()) {
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
            return Ok(None);
        }
    }
    Ok(Some(writer.finish().expect("a vector takes it")))
}
