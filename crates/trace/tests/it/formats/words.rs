//! Words of headings, units, odd bytes and names; and files that are no traces.

use foreread_trace::TraceOp::{Read, Write};
use foreread_trace::{TraceFormat, TraceReader, TraceSummary};

use crate::support::{Plain, read, records};

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
            "the heading has no column for read or write (op): all records are taken as reads",
            "ignored unknown columns: verb, where"
        ]
    );
    let (found, notes) = noted(b"time_us,op,offset,size\n1,fetched,0,1\n2,flush,0,1\n3,R,0,1\n");
    assert_eq!(found.len(), 1);
    assert_eq!(
        notes,
        ["op: 1 records with unknown operations, such as \"fetched\", were left out"]
    );
}

/// A tab at the start of a line was cut off, and each field was read as the one before it.
#[test]
fn an_empty_field_at_an_end_of_a_line_between_tabs_is_a_field() {
    let (found, notes) =
        noted(b"file\ttime_us\toffset\tlength\tlatency\n\t1\t2\t3\t4\nx\t2\t3\t4\t5\n");
    let of = |record: &Plain| (record.file.clone(), record.offset, record.length);
    assert_eq!(of(&found[0]), ("disk".into(), 2, 3));
    assert_eq!((of(&found[1]), notes), (("x".into(), 3, 4), vec![]));
    let (found, _) = noted(b"time_us\toffset\tlength\tfile\n1\t2\t3\t\n\n\t \n2\t3\t4\tx\r\n");
    assert_eq!((of(&found[0]), found.len()), (("disk".into(), 2, 3), 2));
    assert_eq!(found[1].file, "x");
}

/// A heading behind a `#` was skipped, and its five whole numbers were read as Tencent's.
#[test]
fn a_heading_in_a_comment_counts_if_its_columns_fit() {
    for (text, offset, length) in [
        ("#time_us,offset,length,op,file\n100,4096,8192,0,1\n", 4096, 8192),
        ("# made by awk\n# time_us offset length op file\n100 4096 8192 0 1\n", 4096, 8192),
        ("#file,op,offset,length,time_ms\n1,R,4096,8192,1\n#,R,1,1,2\n", 4096, 8192),
        ("# time, offset and length of each request\n1,8,2,0,1\n", 8 * 512, 1024),
        ("# time_us,offset,length,op\n1,8,2,0,1\n", 8 * 512, 1024),
    ] {
        let (found, _) = noted(text.as_bytes());
        assert_eq!((found[0].offset, found[0].length), (offset, length), "{text}");
    }
    let (found, _) = noted(b"#file,op,offset,length,time_ms\n1,R,0,1,1\n#,R,0,1,2\n");
    assert_eq!((&*found[1].file, found[1].at_ns - found[0].at_ns), ("#", 1_000_000));
    let (found, notes) = noted(b"# a comment\n419,W,8792731648,16384,1577808144360767\n");
    assert_eq!((found.len(), notes), (1, vec![]));
}

/// It was a record of an operation that is not known, whatever its columns, or ended the trace.
#[test]
fn a_heading_in_the_middle_is_left_out_if_it_is_the_same() {
    for heading in ["time_us,op,offset,length", "time_us,offset,length"] {
        let record = if heading.contains("op") { "1,R,0,512" } else { "1,0,512" };
        let text = format!("{heading}\n{record}\n{heading}\r\n{record}\n");
        let (found, notes) = noted(text.as_bytes());
        assert_eq!((found.len(), notes), (2, vec![]), "{heading}");
    }
    let error = read(b"time_us,op,offset,length\n1,R,0,1\ntime_us,op,length,offset\n")
        .expect_err("two headings")
        .to_string();
    assert!(error.contains("line 3") && error.contains("another heading"), "{error}");
}

/// The time that a request takes was taken for the time at which it began.
#[test]
fn a_time_that_may_be_a_duration_is_used_only_where_there_is_no_other() {
    let (found, notes) =
        noted(b"timestamp,offset,size,op,request_time_us\n10,0,512,R,55\n11,0,512,R,3\n");
    assert_eq!(found[1].at_ns, 1_000_000_000);
    assert!(notes.iter().any(|note| note.contains("request_time_us")), "{notes:?}");
    let (found, _) = noted(b"request_time_us,offset,size,op\n10,0,512,R\n11,0,512,R\n");
    assert_eq!(found[1].at_ns, 1_000);
}

/// All requests in the output of biosnoop were reads, and discards beside sectors not known.
#[test]
fn the_types_of_biosnoop_and_a_discard_beside_sectors_are_known() {
    let text = "TIME(s)     COMM     PID   DISK  T SECTOR   BYTES   LAT(ms)\n\
                0.000000    kworker  123   sda   W 1234     4096    0.5\n\
                0.000100    fio      124   sda   R 99       8192    0.5\n";
    let (found, notes) = noted(text.as_bytes());
    let of = |record: &Plain| (record.op, record.offset, record.length);
    assert_eq!((of(&found[0]), of(&found[1])), ((Write, 1234 * 512, 4096), (Read, 99 * 512, 8192)));
    assert_eq!(notes, ["ignored unknown columns: COMM, LAT(ms)"]);
    let (found, notes) = noted(b"time_us,rwbs,sector,sectors\n1,D,8,8\n2,WS,8,8\n");
    assert_eq!((found.len(), notes), (1, vec![]));
}

#[test]
fn a_command_that_sends_no_contents_is_no_write() {
    let text = "time_us,op,offset,length\n1,WRITE_ZEROES,0,512\n2,WRITE SAME,0,512\n3,W,0,512\n";
    let (found, notes) = noted(text.as_bytes());
    assert_eq!((found.len(), notes), (1, vec![]));
}

/// One SCSI command, or one completed flush, made the whole trace unreadable.
#[test]
fn an_event_of_blkparse_without_sectors_is_left_out() {
    for event in ["D   R 36 (12 00 00 00 24 00) [hald]", "D   R 36 [hald]", "D   R (12 00) [0]"] {
        let line = |event: &str| format!("  8,0    3    1     0.000000000   697  {event}\n");
        let text = line(event) + &line("D   R 8 + 8 [hald]");
        assert_eq!(noted(text.as_bytes()).0.len(), 1, "{event}");
        let text = line("C  WS 0 [0]") + &line("C   R 8 + 8 [0]");
        assert_eq!(noted(text.as_bytes()).0.len(), 1);
        let error = read(line("D   R 8").as_bytes()).expect_err("half a line");
        assert!(error.to_string().contains("SECTORS"), "{error}");
    }
}

/// The columns behind the comma of a name were read one place too far to the left, without a note.
#[test]
fn records_with_more_columns_than_the_heading_are_counted() {
    let heading = "time_us,file,offset,size";
    let of = |record: &str| noted(format!("{heading}\n{record}\n1,b,0,4096\n").as_bytes());
    let (found, notes) = of("1,a,1,2,4096");
    assert_eq!((&found[0].file[..], found[0].offset, found[0].length), ("a", 1, 2));
    assert!(notes.iter().any(|note| note.starts_with("1 records have more columns")), "{notes:?}");
    for record in ["1,\"a,1\",2,4096", "1,a,2,4096,", "1,a,2,4096, ,"] {
        let (_, notes) = of(record);
        assert!(!notes.iter().any(|note| note.contains("more columns")), "{record}: {notes:?}");
    }
}

/// Each word with an R or a W at its beginning was one, such as `rename` and `wait`; `pread64` was
/// left out.
#[test]
fn an_operation_is_known_by_its_whole_word() {
    let of = |word: &str| {
        let text = format!("time_us,op,offset,size\n1,{word},0,4096\n");
        let (found, notes) = noted(text.as_bytes());
        (found.first().map(|it| it.op), notes)
    };
    for word in ["R", "RA", "rsm", "RAHEAD_READ", "Rd", "pread64", "READ(10)", "sys_read", "get"] {
        assert_eq!(of(word), (Some(Read), vec![]), "{word}");
    }
    for word in ["W", "WFSM", "ws", "wr", "pwritev2", "randwrite", "WRITE_16", "rewrite", "set"] {
        assert_eq!(of(word), (Some(Write), vec![]), "{word}");
    }
    for word in ["rename", "rmdir", "release", "READ CAPACITY", "readdir", "readlink", "watch"] {
        let (found, notes) = of(word);
        assert_eq!(found, None, "{word}");
        assert!(notes[0].contains(&format!("as {word:?}")), "{notes:?}");
    }
    for word in ["wait", "FLUSH", "discard"] {
        assert_eq!(of(word), (None, vec![]), "{word}");
    }
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
    let error = read(b"time,offset,size\n200000000000000000,0,1\n").expect_err("unit");
    assert!(error.to_string().contains("is unknown: name the column time_us"), "{error}");
}

/// "none of the known formats" did not say which column to rename.
#[test]
fn a_heading_without_a_column_that_is_needed_names_it() {
    let error = |text: &str| read(text.as_bytes()).expect_err(text).to_string();
    let line = error("time,offset,blocks\n1,2,3\n");
    assert!(line.contains("no column for length (size in bytes; sectors)"), "{line}");
    assert!(line.contains("it has time, offset, blocks: rename"), "{line}");
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
    assert!(error.to_string().contains("column 2: unbalanced quotes"), "{error}");
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
    assert_eq!(notes, ["3 ids are not sectors of a disk; they are mapped to sectors"]);
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
    let error = |bytes: &[u8]| read(bytes).expect_err("not a foreread trace").to_string();
    for (bytes, words) in [
        (&b"BZh91AY&SY\x01\x02"[..], "bzip2 -dc FILE | foreread-lab trace -"),
        (b"\xff\xfe1\x00,\x00", "iconv -f UTF-16 -t UTF-8 FILE"),
        (b"1\x002\x00,\x003\x00,\x004\x00,\x005\x006\x00", "iconv -f UTF-16LE"),
        // One plausible record of oracleGeneral, and a table with tabs.
        (b"a\0,\0b\0,\0c\0,\0o\0p\0,\0x\x001\0\n\0", "iconv -f UTF-16LE"),
        (b"\0t\0s\0\t\0l\0b\0a\0\t\0o\0p\0\r\0\n", "iconv -f UTF-16BE"),
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
