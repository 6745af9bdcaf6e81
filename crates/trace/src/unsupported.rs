//! Recognises files that are not supported traces, and suggests a command that makes one of them.

/// Returns the type of a file by its magic bytes, if it is known.
pub(crate) fn by_magic(head: &[u8]) -> Option<String> {
    let is = |magic: &&(&[u8], &str)| head.starts_with(magic.0);
    if let Some((_, what)) = MAGIC.iter().find(is) {
        return Some((*what).to_owned());
    }
    let is_bzip2 = head.starts_with(b"BZh") && head.get(4..10) == Some(b"1AY&SY");
    if is_bzip2 {
        return Some(piped("is compressed with bzip2", "bzip2 -dc FILE"));
    }
    (head.get(257..262) == Some(b"ustar"))
        .then(|| piped("is a tar archive", "tar -xOf FILE NAME"))
        .or_else(|| {
            utf_16(head)
                .map(|from| piped("is text in UTF-16", &format!("iconv -f {from} -t UTF-8 FILE")))
        })
}

/// Returns the type of a text by its first line, if it is known.
pub(crate) fn by_line(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if let [time, _, key, value, _, op, ttl] = fields[..]
        && [time, key, value, ttl].into_iter().all(is_number)
        && CACHE_OPS.contains(&op)
    {
        return Some(
            "looks like a cache trace of Twitter (time, key, key size, value size, client, \
             operation, TTL): it has no offsets; add them, with a heading such as \
             time_s,file,thread,op,offset,length"
                .into(),
        );
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    if line.contains("(") && line.contains(") = ") {
        return Some(
            "looks like the output of strace: record the program with foreread record -o FILE -- \
             COMMAND"
                .into(),
        );
    }
    if words.iter().any(|word| word.starts_with("block_rq_") || word.starts_with("block:block_")) {
        return Some(
            "looks like text of the kernel's block tracepoints: record with blktrace, and give the \
             output of blkparse"
                .into(),
        );
    }
    let lower = line.to_ascii_lowercase();
    if lower.starts_with("<!doctype") || lower.starts_with("<html") {
        return Some("is an HTML page: the download may have failed".into());
    }
    line.starts_with(['{', '[']).then(|| {
        "is JSON: give CSV with a heading such as time_us,op,file,offset,length".to_owned()
    })
}

fn piped(what: &str, command: &str) -> String {
    format!("{what}: {command} | foreread-lab trace -")
}

/// Returns the byte order of a text in UTF-16, with or without a byte-order mark.
fn utf_16(head: &[u8]) -> Option<&'static str> {
    // A short first line ends within the probed pairs, and tabs separate columns.
    let is_text = |byte: u8| (b' '..0x7f).contains(&byte) || b"\t\r\n".contains(&byte);
    let plain = |high: usize| {
        let pairs = head.chunks_exact(2).take(16);
        pairs.len() >= 8 && pairs.into_iter().all(|pair| pair[high] == 0 && is_text(pair[1 - high]))
    };
    match head {
        // Behind a mark there is a letter; a serial number would have two zeroes there.
        [0xff, 0xfe, letter, high, ..] if (*letter, *high) != (0, 0) => Some("UTF-16"),
        [0xfe, 0xff, high, letter, ..] if (*letter, *high) != (0, 0) => Some("UTF-16"),
        _ if plain(1) => Some("UTF-16LE"),
        _ => plain(0).then_some("UTF-16BE"),
    }
}

const BLKTRACE: &str = "is the binary output of blktrace: \
                        blkparse -i NAME | foreread-lab trace -, \
                        where NAME is that of the files without .blktrace.N";

const MAGIC: [(&[u8], &str); 11] = [
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive: 7z x -so FILE | foreread-lab trace -"),
    (b"PK\x03\x04", "is a zip archive: unzip -p FILE | foreread-lab trace -"),
    (b"\x04\x22\x4d\x18", "is compressed with lz4: lz4 -dc FILE | foreread-lab trace -"),
    (b"\x1f\x9d", "is compressed with compress: zcat FILE | foreread-lab trace -"),
    (b"LZIP", "is compressed with lzip: lzip -dc FILE | foreread-lab trace -"),
    (b"Rar!\x1a\x07", "is a rar archive: unrar p -inul FILE | foreread-lab trace -"),
    (b"PAR1", "is a Parquet table: give CSV with a heading, as duckdb writes it"),
    (b"PERFILE2", "is a file of perf: record with blktrace, and give the output of blkparse"),
    (
        b"\x17\x08Dtracing",
        "is a file of trace-cmd: record with blktrace, and give blkparse's output",
    ),
    // The version is the lowest byte of the first word, in either order of bytes.
    (b"\x07tae", BLKTRACE),
    (b"eat\x07", BLKTRACE),
];

const CACHE_OPS: [&str; 11] =
    ["get", "gets", "set", "add", "replace", "cas", "append", "prepend", "delete", "incr", "decr"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blktrace_is_named_in_either_order_of_bytes() {
        for magic in [0x6561_7407_u32.to_le_bytes(), 0x6561_7407_u32.to_be_bytes()] {
            assert!(by_magic(&magic).is_some_and(|what| what.contains("blkparse -i")));
        }
        assert_eq!(by_magic(b"1,2,3\n"), None);
    }
}
