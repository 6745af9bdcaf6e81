//! Each format, read from a few records of it; compressed ones too; and what is wrong with others.

use crate::support;
mod words;

use foreread_trace::{Position, TraceFormat, TraceLevel, TraceOp, TraceReader, TraceSummary};
use support::{Plain, read, records};

fn plain(at_ns: u64, file: &str, op: TraceOp, offset: u64, length: u64) -> Plain {
    let file = file.to_owned();
    Plain { at_ns, thread: 0, file, op, offset, length, is_mapped: false }
}

use TraceOp::{Read, Write};

#[test]
fn blkparse_text_is_read_by_its_queued_requests() {
    let text = "\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.500000000   698  Q  RA 1024 + 16 [dd]
  8,0    3        4     0.500000100   698  D  RA 1024 + 16 [dd]
  8,0    3        5     0.600000000   698  Q   D 0 + 16 [fstrim]
  8,0    3        6     0.600000000     0  C   N [0]
CPU3 (8,0):
 Reads Queued:           1,        8KiB  Writes Queued:           1,        4KiB
";
    let (format, found) = records(text.as_bytes());
    assert_eq!(format, TraceFormat::Blkparse);
    let mut expected = vec![
        plain(0, "8,0", Write, 223_490 * 512, 4096),
        plain(500_000_000, "8,0", Read, 1024 * 512, 8192),
    ];
    (expected[0].thread, expected[1].thread) = (697, 698);
    assert_eq!(found, expected);

    let issued = text.replace("  Q  ", "  I  ");
    assert_eq!(records(issued.as_bytes()).1.len(), 1, "without Q, those that were issued count");
    let joined = text.repeat(2);
    let error = read(joined.as_bytes()).expect_err("two outputs").to_string();
    assert!(error.contains("line 9: an event after the summary: two outputs"), "{error}");
}

#[test]
fn fio_logs_of_both_versions_are_read() {
    let two =
        "fio version 2 iolog\n/a add\n/a open\n/a read 0 4096\n/a wait 1500 0\n/a write 8 16\n";
    let (format, found) = records(two.as_bytes());
    assert_eq!(format, TraceFormat::FioV2);
    assert_eq!(found, [plain(0, "/a", Read, 0, 4096), plain(1_500_000, "/a", Write, 8, 16)]);

    // A name is as it is: fio has no escapes, and no comments.
    let three = "fio version 3 iolog\n0 /b%20c add\n211 /b%20c read 0 512\n311 /b%20c trim 0 512\n\
                 411 /b%20c read 512 512\n";
    let (format, found) = records(three.as_bytes());
    assert_eq!(format, TraceFormat::FioV3);
    assert_eq!(found, [plain(0, "/b%20c", Read, 0, 512), plain(200_000, "/b%20c", Read, 512, 512)]);
}

#[test]
fn traces_in_columns_are_read() {
    let of = |text: &str| {
        let (format, mut found) = records(text.as_bytes());
        (format, found.len(), found.remove(0))
    };
    assert_eq!(
        of("128166372003061629,hm,1,Read,383496192,32768,413\n"),
        (TraceFormat::Msr, 1, plain(0, "hm.1", Read, 383_496_192, 32768))
    );
    assert_eq!(
        of("1538323200,12910952,128,1,1063\n"),
        (TraceFormat::Tencent, 1, plain(0, "volume-1063", Write, 12_910_952 * 512, 65536))
    );
    assert_eq!(
        of("419,W,8792731648,16384,1577808144360767\n"),
        (TraceFormat::Alibaba, 1, plain(0, "device-419", Write, 8_792_731_648, 16384))
    );
    assert_eq!(
        of("1455592511.000512,0.001155,R,1,86700032,16384\n"),
        (TraceFormat::Systor, 1, plain(0, "lun-1", Read, 86_700_032, 16384))
    );
    assert_eq!(
        of("Timestamp,Response,IOType,LUN,Offset,Size\n1.5,,R,1,86700032,16384\n"),
        (TraceFormat::Csv, 1, plain(0, "lun-1", Read, 86_700_032, 16384))
    );
    assert_eq!(
        of("938513000 4 264719034 16 0\n"),
        (TraceFormat::Mqsim, 1, plain(0, "device-4", Write, 264_719_034 * 512, 8192))
    );
    assert_eq!(
        of("version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633898,35,0,0\n"),
        (TraceFormat::Csv, 1, plain(0, "disk", Write, 42_932_745 * 512, 512))
    );
    assert_eq!(
        of("time,rw,sector,size\n0.5,Write,8,512\n0.5,flush,0,0\n"),
        (TraceFormat::Csv, 1, plain(0, "disk", Write, 8 * 512, 512))
    );
}

#[test]
fn times_are_counted_from_the_first_record_and_do_not_go_back() {
    let text = "10,0,8,0,1\n12,8,8,0,1\n11,16,8,0,1\n";
    let mut reader = TraceReader::new(text.as_bytes(), "t").expect("tencent's");
    let mut times = Vec::new();
    while let Some(record) = reader.next_record().expect("well formed") {
        times.push(record.at.0 / 1_000_000_000);
    }
    assert_eq!((times, reader.out_of_order()), (vec![0, 2, 2], 1));
}

const VSCSI: (TraceFormat, TraceFormat) = (TraceFormat::VscsiV1, TraceFormat::VscsiV2);

#[test]
fn packed_records_are_read() {
    let mut one = Vec::new();
    let mut two = Vec::new();
    let mut oracle = Vec::new();
    for n in 0..3_u32 {
        let (sector, us) = (u64::from(n) * 8, 1_000_000 + u64::from(n) * 10);
        let command: u16 = if n == 1 { 0x2a } else { 0x28 };
        one.extend([n.to_le_bytes(), 4096_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat());
        one.extend([command.to_le_bytes(), 0x0100_u16.to_le_bytes()].concat());
        one.extend([sector.to_le_bytes(), us.to_le_bytes()].concat());
        two.extend([command.to_le_bytes(), 0x0200_u16.to_le_bytes()].concat());
        two.extend([n.to_le_bytes(), 4096_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat());
        two.extend([sector.to_le_bytes(), us.to_le_bytes(), 77_u64.to_le_bytes()].concat());
        oracle.extend((100 + n).to_le_bytes());
        oracle.extend(sector.to_le_bytes());
        oracle.extend(4096_u32.to_le_bytes());
        oracle.extend((-1_i64).to_le_bytes());
    }
    let found = |step_ns: u64, second: TraceOp| {
        [
            plain(0, "disk", Read, 0, 4096),
            plain(step_ns, "disk", second, 4096, 4096),
            plain(2 * step_ns, "disk", Read, 8192, 4096),
        ]
        .to_vec()
    };
    assert_eq!(records(&one), (TraceFormat::VscsiV1, found(10_000, Write)));
    assert_eq!(records(&two), (TraceFormat::VscsiV2, found(10_000, Write)));
    assert_eq!(records(&oracle), (TraceFormat::OracleGeneral, found(1_000_000_000, Read)));

    // A single record has no mark of its format; a second one has to confirm it.
    let error = read(&oracle[..24]).expect_err("one record").to_string();
    assert!(error.starts_with("t: has 24 bytes") && error.contains("oracle-general"), "{error}");
    assert!(read(&oracle[..47]).is_err(), "the second is cut off");
    assert_eq!(records(&oracle[..48]).0, TraceFormat::OracleGeneral);
    let named = Some(TraceFormat::OracleGeneral);
    let mut single = TraceReader::with_format(&oracle[..24], "t", named).expect("it is named");
    assert!(single.next_record().expect("well formed").is_some());
    assert_eq!((records(&one[..32]).0, records(&two[..40]).0), VSCSI);

    one.truncate(70);
    let error = read(&one).expect_err("cut off").to_string();
    assert_eq!(error, "t: record 3: ends after 6 of 32 bytes");
}

#[test]
fn compressed_traces_are_read_as_if_they_were_not() {
    // Made with xz 5.4.1, zstd 1.5.4 and gzip 1.12.
    let bytes = |hex: &str| -> Vec<u8> {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        (0..hex.len()).step_by(2).map(byte).collect()
    };
    let expected = [
        plain(0, "volume-7", Read, 4096, 4096),
        plain(1_000_000_000, "volume-7", Read, 8192, 4096),
    ];
    for hex in [XZ, ZSTD, GZIP] {
        let (format, found) = records(&bytes(hex));
        assert_eq!((format, &found[..]), (TraceFormat::Tencent, &expected[..]));
        // Several files in one.
        let twice = [bytes(hex), bytes(hex)].concat();
        assert_eq!(records(&twice).1.len(), 4, "{hex}");
        let mut cut = bytes(hex);
        cut.truncate(cut.len() / 2);
        let error = read(&cut).expect_err("half a file").to_string();
        assert!(error.contains("cannot be read"), "{error}");
    }
}

const XZ: &str = "fd377a585a000004e6d6b4460200210116000000742fe5a3e0001400125d00180b03838acc87a1bd105bb99541e2d20000000000ff52e54534d9fa7400012e15ec585c461fb6f37d010000000004595a";
const ZSTD: &str = "28b52ffd2415a90000302c382c382c302c370a312c31362c382c302c370aa55105a9";
const GZIP: &str = "1f8b080000000000000333d0b10042031d732e431d4333281300abea086e15000000";

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let error = |text: &str| read(text.as_bytes()).expect_err(text).to_string();
    assert_eq!(error("0,8,8,0,7\n0,8,x,0,7\n"), "t: line 2: length: \"x\" is not a whole number");
    assert_eq!(error("0,8,8,0,7\n0,8\n"), "t: line 2: op: no column 4, only 2");
    assert_eq!(
        error("0,8,8,0,7\n# more\n0,8,8,9,7\n"),
        "t: line 3: op: \"9\" is neither a read nor a write"
    );
    assert_eq!(error(""), "t: is empty");
    assert!(error("hello\n").starts_with("t: is not in a known format: blkparse, "));
    let long = format!("0,8,8,0,7\n{}\n", "1".repeat(70_000));
    assert_eq!(error(&long), "t: line 2: is longer than 65536 bytes");
    let far = "0,36028797018963968,8,0,7\n";
    assert_eq!(error(far), "t: line 1: offset: 36028797018963968 is too large");
    assert_eq!(
        error("1,W,0,2147483648,1\n"),
        "t: line 1: length: 2147483648 bytes are more than 1G"
    );
    let at = read(b"0,8,8,0,7\nx\n").expect_err("no number").at;
    assert_eq!(at, Position::Line(2));
}

#[test]
fn a_format_can_be_named_where_its_content_does_not_tell() {
    let text = "1,0,8,1,5\n";
    let named = |format| TraceReader::with_format(text.as_bytes(), "t", Some(format));
    let mut reader = named(TraceFormat::Tencent).expect("tencent's");
    assert_eq!(reader.next_record().expect("well formed").expect("one").op, Write);
    assert!(named(TraceFormat::Csv).is_err(), "its first line is no heading");
    assert!(named(TraceFormat::Foreread).is_err());
}

#[test]
fn a_summary_says_how_far_files_were_accessed_and_where_the_trace_was_taken() {
    let text = "fio version 3 iolog\n0 /dev/vdb read 8192 4096\n5 /dev/vdb write 0 16384\n";
    let summary = TraceSummary::of(TraceReader::new(text.as_bytes(), "t").expect("fio's"));
    let summary = summary.expect("well formed");
    assert_eq!((summary.reads, summary.writes, summary.duration.0), (1, 1, 5000));
    assert_eq!((summary.files[0].first, summary.files[0].len), (0, 16384));
    assert_eq!((summary.files[0].read_end, summary.longest_read), (12288, 4096));
    assert_eq!(summary.level(), TraceLevel::Block, "a device's log is one of blocks");
    let level = |text: &str| TraceReader::new(text.as_bytes(), "t").expect("csv").level();
    assert_eq!(level("time,offset,length\n"), TraceLevel::File);
    assert_eq!(level("time,lbn,size\n"), TraceLevel::Block);
}
