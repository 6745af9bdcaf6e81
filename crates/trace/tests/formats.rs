//! Each format, read from a few records of it; compressed ones too; and what is wrong with others.

mod support;

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
    assert!(error.contains("line 9: an event behind the summary: two outputs"), "{error}");
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
    assert!(error("hello\n").starts_with("t: has none of the known formats: blkparse, "));
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

/// The records of a trace, and what its reader says of it.
fn noted(bytes: &[u8]) -> (Vec<Plain>, Vec<String>) {
    let found = records(bytes).1;
    let summary = TraceSummary::of(TraceReader::new(bytes, "t").expect("it was read"));
    (found, summary.expect("it was read").notes)
}

/// All records were reads of one file, and nothing was said.
#[test]
fn columns_with_other_words_are_known_or_named() {
    for op in ["opcode", "operation", "request_type", "I/O Type", "rw", "cmd", "TYPE"] {
        let text = format!("time_us,{op},offset,size\n1,R,0,4096\n2,WRITE,0,4096\n");
        let (found, notes) = noted(text.as_bytes());
        assert_eq!((found[0].op, found[1].op, notes), (Read, Write, vec![]), "{op}");
    }
    for (op, first, note) in
        [("is_write", "0", false), ("is_read", "true", false), ("op", "0", true)]
    {
        let second = if first == "0" { "1" } else { "false" };
        let text = format!("time_us,{op},offset,size\n1,{first},0,4096\n2,{second},0,4096\n");
        let (found, notes) = noted(text.as_bytes());
        assert_eq!((found[0].op, found[1].op, !notes.is_empty()), (Read, Write, note), "{op}");
    }
    for file in ["filename", "device_id", "disknumber", "VolumeID", "File Name", "object_id"] {
        let text = format!("time_us,op,offset,size,{file}\n1,R,0,1,one\n2,R,0,1,two\n");
        let (found, notes) = noted(text.as_bytes());
        assert_eq!(
            (&found[0].file[..], &found[1].file[..], notes),
            ("one", "two", vec![]),
            "{file}"
        );
    }
    let (_, notes) = noted(b"time_us,verb,offset,size,where\n1,W,0,1,/a\n");
    assert_eq!(
        notes,
        [
            "no column of the heading says read or write (op): all records are reads",
            "columns that were not understood, and not used: verb, where"
        ]
    );
    let (found, notes) = noted(b"time_us,op,offset,size\n1,fetched,0,1\n2,flush,0,1\n3,R,0,1\n");
    assert_eq!(found.len(), 1);
    assert_eq!(
        notes,
        ["op: 1 records were left out, whose operation is not known, as \"fetched\""]
    );
}

/// They ended with "is not a time", or were taken for bytes.
#[test]
fn headings_of_public_traces_are_known() {
    let of = |text: &str| {
        let (format, found) = records(text.as_bytes());
        let name = found[1].file.clone();
        (format, found[0].op, found[1].op, found[1].at_ns, name, found[1].offset, found[1].length)
    };
    assert_eq!(
        of("device_id,opcode,offset,length,timestamp\n0,R,4096,4096,1577808000000046\n\
            1,W,8192,512,1577808000000426\n"),
        (TraceFormat::Alibaba, Read, Write, 380_000, "device-1".into(), 8192, 512)
    );
    assert_eq!(
        of(
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,hm,0,Read,\
            0,512,413\n128166372003061639,hm,1,Write,4096,8192,250\n"
        ),
        (TraceFormat::Msr, Read, Write, 1000, "hm.1".into(), 4096, 8192)
    );
    assert_eq!(
        of("Timestamp,Offset,Size,IOType,VolumeID\n5,8,8,0,1\n6,16,8,1,2\n"),
        (TraceFormat::Tencent, Read, Write, 1_000_000_000, "volume-2".into(), 8192, 4096)
    );
    assert_eq!(
        of("0,20941264,8192,r,0.5\n1,20939840,8192,W,0.75\n"),
        (TraceFormat::Spc, Read, Write, 250_000_000, "asu-1".into(), 20_939_840 * 512, 8192)
    );
}

/// Times were seconds, whatever their size.
#[test]
fn a_unit_that_is_not_named_is_guessed_and_said() {
    let of = |heading: &str, first: &str, second: &str| {
        let text = format!("{heading},op,lba,sectors\n{first},R,8,8\n{second},R,8,8\n");
        let (found, notes) = noted(text.as_bytes());
        assert_eq!((found[0].offset, found[0].length), (4096, 4096));
        (found[1].at_ns, notes.concat())
    };
    for (first, second, ns, word) in [
        ("1577808000", "1577808001", 1_000_000_000, "seconds"),
        ("1577808000000", "1577808000001", 1_000_000, "milliseconds"),
        ("1577808000000000", "1577808000000001", 1000, "microseconds"),
        ("128166372003061629", "128166372003061630", 100, "filetime"),
        ("1577808000000000000", "1577808000000000001", 1, "nanoseconds"),
    ] {
        let (at_ns, note) = of("timestamp", first, second);
        assert!(at_ns == ns && note.contains(word), "{first}: {at_ns}, {note}");
    }
    for (heading, ns) in
        [("time_ns", 1), ("Time (us)", 1000), ("ts_ms", 1_000_000), ("filetime", 100)]
    {
        assert_eq!(
            of(heading, "7", "8"),
            (if heading == "filetime" { 100 } else { ns }, String::new())
        );
    }
    assert_eq!(of("time", "0.5", "1.0"), (500_000_000, String::new()), "decimals are seconds");
    let error = read(b"time,offset,size\n200000000000000000,0,1\n").expect_err("any unit");
    assert!(error.to_string().contains("may have any unit: name the column time_us"), "{error}");
}

/// "none of the known formats" did not say which column to rename.
#[test]
fn a_heading_without_a_column_that_is_needed_names_it() {
    let error = |text: &str| read(text.as_bytes()).expect_err(text).to_string();
    let line = error("time,offset,blocks\n1,2,3\n");
    assert!(line.contains("no column for length (size in bytes; sectors)"), "{line}");
    assert!(line.contains("it names time, offset, blocks: rename"), "{line}");
    let line = error("key,op,size,op_count,key_size\n1668,GET,82,1,40\n");
    assert!(line.contains("for offset") && line.contains("a column offset of zeroes"), "{line}");
    let line = error("0,a,22,304,0,get,0\n");
    assert!(line.contains("Twitter") && line.contains("time_s,file,thread,op,offset"), "{line}");
}

/// One such byte made the whole trace unreadable.
#[test]
fn a_field_that_is_not_used_may_have_any_bytes() {
    let event = |n: u32, name: &[u8]| {
        let line = format!("  8,0 3 {n} 0.{n:09} 697 Q R {} + 8 [", n * 8);
        [line.as_bytes(), name, b"]\n"].concat()
    };
    for odd in [&b"l\xc3"[..], b"a\x1b[1m", b"a\nb", b"CPU0 (x):", b"a\x80\xff"] {
        let first = [event(1, odd), event(2, b"b")].concat();
        let later = [event(1, b"b"), event(2, odd)].concat();
        for text in [first, later] {
            assert_eq!(records(&text).1.len(), 2, "{odd:?}");
        }
    }
    let mut text = [event(1, b"a"), event(2, b"b")].concat();
    text.extend(b"\nkjournald (697)\n Reads Queued: 1, 4KiB\n\nCPU0 (sda):\n Reads Queued: 3\n");
    assert_eq!(records(&text).1.len(), 2, "statistics of processes");
    for text in [
        &b"\xef\xbb\xbf1455592511.0,0.1,R,1,0,512\n1455592511.1,,W,1,0,512\n"[..],
        b"\xef\xbb\xbftime_us,op,offset,size\n1,R,0,512\n2,W,0,512\n",
        b"time_us,op,offset,size,note\n1,R,0,512,\"open\n2,W,0,512,\xff\"x\"y\n",
        b"time_us,op,offset,size,pid\n1,R,0,512,18446744073709551615\n2,W,0,512,a\n",
        b"128166372003061629,h\xe9,1,Read,0,512,-\n128166372003061629,\"h,1,Write,0,512,\n",
    ] {
        let found = records(text).1;
        assert_eq!((found.len(), found[0].op, found[1].op), (2, Read, Write));
    }
    let error = read(b"time_us,file,offset,size\n1,\"open,0,512\n").expect_err("a used one");
    assert!(error.to_string().contains("column 2: quotes that do not match"), "{error}");
}

/// An id that is the hash of a name was "no sector".
#[test]
fn ids_of_64_bits_are_read_and_said() {
    let record = |n: u32, id: u64| {
        let (at, size, next) = (n.to_le_bytes(), 4096_u32.to_le_bytes(), (-1_i64).to_le_bytes());
        [&at[..], &id.to_le_bytes(), &size, &next].concat()
    };
    let ids = [u64::MAX, 1 << 63, (1 << 63) + 1, 8];
    let bytes: Vec<u8> = (0..).zip(ids).flat_map(|(n, id)| record(n, id)).collect();
    let (found, notes) = noted(&bytes);
    let mut offsets: Vec<u64> = found.iter().map(|record| record.offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    assert_eq!((offsets.len(), offsets[0]), (4, 4096));
    assert_eq!(notes, ["3 ids are no sectors of a disk: they are taken for places on one"]);
}

/// fio has no escapes: `%41` is a name, and a name may begin with `#`.
#[test]
fn names_in_formats_without_escapes_are_as_they_are() {
    for name in ["%41", "100%", "#k", "a%2Fb"] {
        let two = format!("fio version 2 iolog\n{name} add\n{name} read 0 4096\n");
        let three = format!("fio version 3 iolog\n0 {name} add\n1 {name} read 0 4096\n");
        let msr = format!("128166372003061629,{name},1,Read,0,512,1\n");
        for (text, wanted) in [(two, name.into()), (three, name.into()), (msr, format!("{name}.1"))]
        {
            assert_eq!(records(text.as_bytes()).1[0].file, wanted, "{text}");
        }
    }
    let text = b"file,time_us,offset,size\n#k,1,0,512\n%23k,2,0,512\n";
    assert_eq!(records(text).1.iter().filter(|record| record.file == "#k").count(), 2);
}

/// "none of the known formats" did not say what they are.
#[test]
fn other_formats_are_named_with_what_to_do() {
    let error = |bytes: &[u8]| read(bytes).expect_err("no trace").to_string();
    for (bytes, words) in [
        (&b"BZh91AY&SY\x01\x02"[..], "bzip2 -dc FILE | foreread trace -"),
        (b"\xff\xfe1\x00,\x00", "iconv -f UTF-16 -t UTF-8 FILE"),
        (b"1\x002\x00,\x003\x00,\x004\x00,\x005\x006\x00", "iconv -f UTF-16LE"),
        (b"\x07tae\x01\0\0\0", "blkparse -i NAME"),
        (b"PK\x03\x04..", "unzip -p FILE"),
        (b"7z\xbc\xaf\x27\x1c\0", "7z x -so FILE"),
        (b"openat(AT_FDCWD, \"a\", O_RDONLY) = 3\n", "foreread record"),
        (b"<!DOCTYPE html>\n", "HTML"),
    ] {
        let line = error(bytes);
        assert!(line.contains(words), "{line}");
    }
}
