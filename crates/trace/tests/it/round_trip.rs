//! What is written comes back; and bytes that no writer made end with an error, not a panic.

use crate::support;

use foreread_core::units::Nanos;
use foreread_trace::{
    FileTable, OutputFormat, TraceOp, TraceReader, TraceRecord, TraceWriter, UnheldNames,
};
use proptest::prelude::*;
use support::{Plain, read, records};

/// Converts a trace.
fn converted(bytes: &[u8], format: OutputFormat, hashes_names: bool) -> Vec<u8> {
    let mut reader = TraceReader::new(bytes, "t").expect("well formed");
    let mut writer = TraceWriter::new(Vec::new(), format, hashes_names);
    while let Some(record) = reader.next_record().expect("well formed") {
        writer.write(&record, reader.files()).expect("a vector takes it");
    }
    writer.finish().expect("a vector takes it")
}

/// Whether fio reads a name as one word.
fn is_word(name: &str) -> bool {
    let is_blank = |c: char| c.is_ascii_whitespace() || c == '\x0b' || c == '\0';
    name.len() <= 255 && !name.contains(is_blank)
}

/// A trace of these records, as CSV.
fn csv(records: &[Plain]) -> Vec<u8> {
    let mut text = String::from("time_ns,thread,op,file,offset,length,mapped\n");
    for record in records {
        let Plain { at_ns, thread, file, op, offset, length, is_mapped } = record;
        let (op, mapped) = (op.name(), u8::from(*is_mapped));
        let file = file.replace('%', "%25").replace('\n', "%0a").replace('"', "\"\"");
        text += &format!("{at_ns},{thread},{op},\"{file}\",{offset},{length},{mapped}\n");
    }
    text.into_bytes()
}

fn some_records() -> impl Strategy<Value = Vec<Plain>> {
    let names = prop::sample::select(vec![
        "/a", "/b,c", "/d \"e\"", "/f%20g", "h\u{e9}", "/i\nj", "#k", " l ", "m%",
    ]);
    let record = (
        0..3_000_000_000_u64,
        prop::sample::select(vec![0, 1, 7, u32::MAX]),
        names,
        any::<bool>(),
        prop_oneof![0..1_u64 << 20, 0..1_u64 << 62],
        prop_oneof![Just(4096_u64), 1..1_u64 << 30],
        any::<bool>(),
    );
    prop::collection::vec(record, 1..40).prop_map(|all| {
        let mut at_ns = 0;
        let mut first = true;
        let of = |(step, thread, file, is_write, offset, length, is_mapped)| {
            at_ns += if std::mem::take(&mut first) { 0 } else { step };
            let op = if is_write { TraceOp::Write } else { TraceOp::Read };
            let file: &str = file;
            Plain { at_ns, thread, file: file.to_owned(), op, offset, length, is_mapped }
        };
        all.into_iter().map(of).collect()
    })
}

proptest! {
    #[test]
    fn every_field_survives_csv_and_the_own_format(expected in some_records()) {
        let text = csv(&expected);
        prop_assert_eq!(&records(&text).1, &expected);
        let own = converted(&text, OutputFormat::Foreread, false);
        prop_assert_eq!(&records(&own).1, &expected);
        let back = converted(&own, OutputFormat::Csv, false);
        prop_assert_eq!(&records(&back).1, &expected);
    }

    #[test]
    fn fio_keeps_all_but_threads_mappings_and_nanoseconds(expected in some_records()) {
        let expected: Vec<_> = expected.into_iter().filter(|plain| is_word(&plain.file)).collect();
        prop_assume!(!expected.is_empty());
        let first_ns = expected[0].at_ns;
        let text = converted(&csv(&expected), OutputFormat::FioV3, false);
        let expected: Vec<_> = expected
            .into_iter()
            .map(|plain| Plain {
                at_ns: (plain.at_ns - first_ns) / 1000 * 1000, thread: 0, is_mapped: false, ..plain
            })
            .collect();
        prop_assert_eq!(&records(&text).1, &expected);
    }

    /// A name with `%` was another one in fio's logs, and one with a blank a file that fio could
    /// not open.
    #[test]
    fn a_name_is_the_same_in_each_format_or_is_refused(
        name in prop_oneof![
            "[ -~]{1,12}", "\\PC{1,8}", "[%\"#,;\\\\ \t0-9a-f]{1,9}", any::<String>(),
            "[a%]{250,260}",
        ],
    ) {
        prop_assume!(!name.is_empty() && name.len() <= 4096);
        let mut files = FileTable::default();
        let file = files.add(&name, None).expect("not too long");
        let (at, op, is_mapped) = (Nanos(0), TraceOp::Read, false);
        let record = TraceRecord { at, thread: 0, file, op, offset: 0, length: 1, is_mapped };
        for format in OutputFormat::ALL {
            let mut writer = TraceWriter::new(Vec::new(), format, false);
            match writer.write(&record, &files) {
                Ok(()) => {
                    let bytes = writer.finish().expect("a vector takes it");
                    prop_assert_eq!(&records(&bytes).1[0].file, &name);
                }
                Err(error) => {
                    prop_assert!(format == OutputFormat::FioV3 && !is_word(&name), "{}", error);
                    prop_assert!(error.to_string().contains("cannot express the name"));
                    let writer = TraceWriter::new(Vec::new(), format, false);
                    let mut writer = writer.unheld_names(UnheldNames::Hashed);
                    writer.write(&record, &files).expect("a hash is a word");
                    prop_assert_eq!(writer.hashed_names(), 1);
                }
            }
        }
    }

    #[test]
    fn bytes_that_no_writer_made_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }

    #[test]
    fn damaged_traces_do_not_panic(
        records in some_records(),
        kind in 0..7_usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = csv(&records);
        let mut bytes = match kind {
            0 => text,
            1 => b"fio version 3 iolog\n0 /a add\n1 /a read 0 4096\n".repeat(records.len()),
            2 => converted(&text, OutputFormat::Foreread, false),
            3 => b"  8,0 3 1 0.000000000 697 Q W 223490 + 8 [a]\n".repeat(records.len()),
            4 => b"128166372003061629,hm,1,Read,383496192,32768,413\n".repeat(records.len()),
            5 => {
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                std::io::Write::write_all(&mut gzip, &text).expect("a vector takes it");
                gzip.finish().expect("a vector takes it")
            }
            _ => ruzstd::encoding::compress_to_vec(
                &text[..],
                ruzstd::encoding::CompressionLevel::Fastest,
            ),
        };
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let _ = read(&bytes);
    }
}

#[test]
fn a_trace_whose_writer_was_killed_ends_early_and_says_so() {
    let text = b"time_ns,file,offset,length\n0,/a,0,4096\n9,/a,4096,4096\n";
    let own = converted(text, OutputFormat::Foreread, false);
    let whole = TraceReader::new(&own[..], "t").expect("well formed");
    assert!(whole.is_cut_off(), "until its end was read");
    for len in 16..own.len() {
        let mut reader = TraceReader::new(&own[..len], "t").expect("its first bytes are there");
        while reader.next_record().expect("what is there is well formed").is_some() {}
        assert!(reader.is_cut_off(), "{len} of {} bytes", own.len());
    }
    let mut reader = TraceReader::new(&own[..], "t").expect("well formed");
    while reader.next_record().expect("well formed").is_some() {}
    assert!(!reader.is_cut_off());
}

/// The rest would be lost without a word.
#[test]
fn what_stands_behind_the_end_of_a_trace_is_an_error() {
    let text = b"time_ns,file,offset,length\n0,/a,0,4096\n9,/a,4096,4096\n";
    let own = converted(text, OutputFormat::Foreread, false);
    for (rest, wanted) in [(&own[..], "give them as two traces"), (b"x", "more bytes follow")] {
        let joined = [&own[..], rest].concat();
        let mut reader = TraceReader::new(&joined[..], "t").expect("well formed at first");
        reader.next_record().expect("the first").expect("one");
        reader.next_record().expect("the second").expect("another");
        let error = reader.next_record().expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn a_compressed_trace_that_is_cut_off_or_goes_on_says_so() {
    let mut text = String::from("time_ns,file,offset,length\n");
    for n in 0..5000_u64 {
        text += &format!("{},/a/{},{},65536\n", n * 100_003, n * n % 61, n * 65536);
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, text.as_bytes()).expect("a vector takes it");
    let gzip = gzip.finish().expect("a vector takes it");
    let fastest = ruzstd::encoding::CompressionLevel::Fastest;
    let zstd = ruzstd::encoding::compress_to_vec(text.as_bytes(), fastest);
    let error_of = |bytes: &[u8]| {
        let mut reader = TraceReader::new(bytes, "t").map_err(|error| error.to_string())?;
        while reader.next_record().map_err(|error| error.to_string())?.is_some() {}
        Ok::<(), String>(())
    };
    for (name, whole) in [("gzip", gzip), ("zstd", zstd)] {
        assert_eq!(error_of(&whole), Ok(()), "{name}");
        for len in [7, whole.len() / 2, whole.len() - 1] {
            let error = error_of(&whole[..len]).expect_err("cut off");
            assert!(error.ends_with(&format!("its {name} data is cut off")), "{len}: {error}");
        }
        let longer = [&whole[..], &[b'x'; 64]].concat();
        let error = error_of(&longer).expect_err("longer");
        assert!(error.ends_with("data has other data after its end"), "{error}");
    }
}

#[test]
fn sequential_reads_cost_a_few_bytes_each() {
    let mut text = String::from("time_ns,file,offset,length\n");
    for n in 0..1000 {
        text += &format!("{},/a/long/name,{},65536\n", n * 100_000, n * 65536);
    }
    let own = converted(text.as_bytes(), OutputFormat::Foreread, false);
    assert!(own.len() < 1000 * 6, "{} bytes for 1000 records", own.len());
}

#[test]
fn hashes_stand_for_names_and_are_the_same_in_every_trace() {
    let text = b"time_ns,file,offset,length\n0,/secret,0,4096\n9,/b,0,4096\n10,/secret,0,1\n";
    for format in OutputFormat::ALL {
        let hidden = converted(text, format, true);
        assert!(!String::from_utf8_lossy(&hidden).contains("secret"), "{format:?}");
        let names: Vec<_> = records(&hidden).1.into_iter().map(|plain| plain.file).collect();
        assert_eq!(names[0], "h6434351e7679cb76", "FNV-1a of /secret");
        assert_eq!(names[0], names[2]);
        assert_ne!(names[0], names[1]);
    }
}
