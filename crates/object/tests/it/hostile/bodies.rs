//! Bodies that are shorter or longer than their heads say, break, or do not end.

use super::{Answer, Answering, Case, End, Outcome};

pub(super) const MORE: Answering = |it| {
    let head = it.head() + "Connection: close\r\n\r\n";
    Answer([head.into_bytes(), it.body()].concat(), End::Flood(b"more"))
};
pub(super) const MORE_CHUNKS: Answering =
    |it| it.chunked(&it.chunk(), End::Flood(b"5\r\nhello\r\n"));

/// A reader has its pages as soon as they arrive, which may be before a byte too many.
const IN_FULL_OR_TOO_LONG: Outcome = Outcome::BytesOrError("more bytes than announced");

pub(super) const BODIES: &[Case] = &[
    ("half, closed", |it| it.half(End::Closed), Outcome::Error("reading a body")),
    ("half, reset", |it| it.half(End::Reset), Outcome::Error("reading a body")),
    (
        "more behind the end",
        |it| {
            let Answer(bytes, end) = it.with(&it.head());
            Answer([bytes, vec![7; 5000]].concat(), end)
        },
        Outcome::Bytes,
    ),
    (
        "an answer that was not asked for, of other bytes",
        |it| {
            let Answer(bytes, end) = it.with(&it.head());
            let len = it.body().len();
            let head = format!("{}Content-Length: {len}\r\n\r\n", it.head());
            Answer([bytes, head.into_bytes(), vec![7; len]].concat(), end)
        },
        Outcome::Bytes,
    ),
    ("too many bytes without a length", MORE, IN_FULL_OR_TOO_LONG),
    (
        "half without a length",
        |it| {
            let body = it.body();
            let head = it.head() + "Connection: close\r\n\r\n";
            Answer([head.as_bytes(), &body[..body.len() / 2]].concat(), End::Closed)
        },
        Outcome::Error("bytes early"),
    ),
    (
        "all without a length, by HTTP/1.0",
        |it| {
            let head = it.head().replace("HTTP/1.1", "HTTP/1.0") + "\r\n";
            Answer([head.into_bytes(), it.body()].concat(), End::Closed)
        },
        Outcome::Bytes,
    ),
    ("chunks without end", MORE_CHUNKS, IN_FULL_OR_TOO_LONG),
    (
        "a chunk beyond 64 bits",
        |it| it.chunked(b"fffffffffffffffff\r\nabc", End::Silent),
        Outcome::Error("invalid chunk size"),
    ),
    (
        "the extension of a chunk without end",
        |it| it.chunked(b"5", End::Flood(b";a=b")),
        Outcome::Error("chunk extensions over limit"),
    ),
];

pub(super) const ENDLESS: &[Case] = &[
    ("half, and silence", |it| it.half(End::Silent), Outcome::Silence),
    (
        "byte by byte",
        |it| {
            let Answer(bytes, _) = it.with(&it.head());
            let head_len = bytes.len() - it.body().len();
            Answer(bytes[..head_len].to_vec(), End::Dribble(it.body()))
        },
        Outcome::Silence,
    ),
    (
        "no last chunk",
        |it| it.chunked(&it.chunk()[..100.min(it.chunk().len())], End::Silent),
        Outcome::Silence,
    ),
    (
        "a chunk of all numbers",
        |it| it.chunked(b"ffffffffffffffff\r\nabc", End::Silent),
        Outcome::Silence,
    ),
];
