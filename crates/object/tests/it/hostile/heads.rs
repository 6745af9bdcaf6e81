//! Heads of answers that lie, are none, redirect, or ask for pauses.

use super::{Answer, Answering, Case, End, LEN, Outcome, Request};

/// An answer whose range and tag are these.
fn stated(request: &Request, range: &str, tag: &str) -> Answer {
    request.with(&request.head_of(range, tag))
}

fn shifted(request: &Request) -> String {
    let wanted = request.wanted();
    format!("bytes {}-{}/{LEN}", wanted.start + 1, wanted.end)
}

fn longer(request: &Request) -> String {
    let wanted = request.wanted();
    format!("bytes {}-{}/{}", wanted.start, wanted.end - 1, LEN + 1)
}

fn right(request: &Request) -> String {
    let wanted = request.wanted();
    format!("bytes {}-{}/{LEN}", wanted.start, wanted.end - 1)
}

pub(super) const NOT_MODIFIED: Answering = |_| Answer::empty("304 No");
pub(super) const PRECONDITION: Answering = |_| Answer::empty("412 No");

pub(super) const NO_DIRECTORY: Answering = |_| Answer::empty("404 No");
pub(super) const OTHER: Answering = |_| {
    let properties = "<resourcetype/><getlastmodified>Tue, 24 Nov 2026 10:00:00 GMT\
                      </getlastmodified><getcontentlength>1</getcontentlength>";
    let page = format!(
        "<multistatus><response><href>/b</href><propstat><prop>{properties}</prop>\
         <status>HTTP/1.1 200 OK</status></propstat></response></multistatus>"
    );
    let head = format!("HTTP/1.1 207 OK\r\nContent-Length: {}\r\n\r\n", page.len());
    Answer::start(head + &page, End::Kept)
};
pub(super) const REFUSED: Answering = |_| Answer::empty("499 No");
pub(super) const SHIFTED: Answering = |it| stated(it, &shifted(it), "\"1\"");
pub(super) const OVERLONG: Answering = |it| {
    let (head, body) = (it.head(), it.body());
    let head = format!("{head}Content-Length: {}\r\n\r\n", body.len() + 7);
    Answer([head.as_bytes(), b"--part\n", &body].concat(), End::Closed)
};
pub(super) const FIRST_PAGE: Answering = |it| {
    let start = it.wanted().start;
    let range = format!("bytes {start}-{}/{LEN}", start + 4095);
    let head = it.head_of(&range, "\"1\"") + "Content-Length: 4096\r\n\r\n";
    let body = it.body();
    Answer([head.as_bytes(), &body[..4096]].concat(), End::Kept)
};

pub(super) const LIES: &[Case] = &[
    ("a body longer than its range", OVERLONG, Outcome::Error("bytes, and sends")),
    ("416", |_| Answer::empty("416 No"), Outcome::Error("416")),
    ("another range", |it| stated(it, &shifted(it), "\"1\""), Outcome::Error("Requested")),
    ("another length", |it| stated(it, &longer(it), "\"1\""), Outcome::Error("its length was")),
    (
        "a range to the end of all numbers",
        |it| stated(it, "bytes 0-18446744073709551615/18446744073709551615", "\"1\""),
        Outcome::Error("past the largest size of an object"),
    ),
    ("no range", |it| stated(it, "bytes */*", "\"1\""), Outcome::Error("CONTENT_RANGE")),
    (
        "another tag each time",
        |it| stated(it, &right(it), &format!("\"{}\"", it.number + 2)),
        Outcome::Error("its ETag was"),
    ),
    (
        "a tag without end",
        |it| stated(it, &right(it), &format!("\"{}\"", "a".repeat(50_000))),
        Outcome::Error("its ETag was"),
    ),
    ("not modified", NOT_MODIFIED, Outcome::Error("it has changed")),
    (
        "parts",
        |it| it.with("HTTP/1.1 206 OK\r\nETag: \"1\"\r\nContent-Type: multipart/byteranges\r\n"),
        Outcome::Error("Content-Range"),
    ),
    (
        "compressed",
        |it| {
            let body = b"\x1f\x8b\x08 and more".as_slice();
            let head = format!("{}Content-Encoding: gzip\r\nContent-Length: 12\r\n\r\n", it.head());
            Answer::start([head.as_bytes(), body].concat(), End::Closed)
        },
        Outcome::Error("Content-Encoding: gzip"),
    ),
    (
        "compressed in transfer",
        |it| {
            let head = format!("{}Transfer-Encoding: gzip, chunked\r\n\r\n", it.head());
            Answer::start([head.as_bytes(), &it.chunk(), b"0\r\n\r\n"].concat(), End::Kept)
        },
        Outcome::Error("Transfer-Encoding: gzip, chunked"),
    ),
];

pub(super) const NONSENSE: &[Case] = &[
    (
        "a length beyond 64 bits",
        |it| Answer::start(it.head() + "Content-Length: 18446744073709551616\r\n\r\n", End::Silent),
        Outcome::Error("invalid content-length"),
    ),
    (
        "the largest length of 64 bits",
        |it| Answer::start(it.head() + "Content-Length: 18446744073709551615\r\n\r\n", End::Silent),
        Outcome::Error("error sending request"),
    ),
    (
        "a length beyond an object's",
        |it| Answer::start(it.head() + "Content-Length: 9223372036854775808\r\n\r\n", End::Closed),
        Outcome::Error("and sends 9223372036854775808"),
    ),
    (
        "a negative length",
        |it| Answer::start(it.head() + "Content-Length: -1\r\n\r\n", End::Silent),
        Outcome::Error("invalid content-length"),
    ),
    (
        "two lengths",
        |it| it.with(&(it.head() + "Content-Length: 3\r\n")),
        Outcome::Error("invalid content-length"),
    ),
    (
        "headers without end",
        |it| Answer::start(it.head(), End::Flood(b"X-A: a\r\n")),
        Outcome::Error("message head is too large"),
    ),
    (
        "a header without end",
        |it| Answer::start(it.head() + "X-A: ", End::Flood(b"a")),
        Outcome::Error("message head is too large"),
    ),
    (
        "a status without end",
        |_| Answer::start("HTTP/1.1 200 ", End::Flood(b"a")),
        Outcome::Error("message head is too large"),
    ),
    (
        "a head that comes byte by byte",
        |_| Answer::start("HTTP/1.1 ", End::Dribble(vec![b'2'; 10_000])),
        Outcome::Silence,
    ),
    ("no head", |it| Answer::start(it.body(), End::Closed), Outcome::Error("error sending")),
    ("a reset", |_| Answer::start("", End::Reset), Outcome::Error("given up after 2 retries")),
    (
        "another protocol",
        |_| {
            Answer::start(
                "HTTP/1.1 101 No\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
                End::Silent,
            )
        },
        Outcome::Error("101"),
    ),
    ("no such status", |_| Answer::empty("999 No"), Outcome::Error("999")),
];

fn redirect(to: &str) -> Answer {
    Answer::empty(&format!("302 Found\r\nLocation: {to}"))
}

pub(super) const REDIRECTS: &[Case] = &[
    ("to itself", |_| redirect("/object"), Outcome::Error("too many redirects")),
    (
        "without end",
        |it| redirect(&format!("/{}", it.number)),
        Outcome::Error("too many redirects"),
    ),
    (
        "to a file",
        |_| redirect("file:///etc/passwd"),
        Outcome::Error("\"file:///etc/passwd\", but only http:// and https:// are followed"),
    ),
    ("to FTP", |_| redirect("ftp://127.0.0.1/x"), Outcome::Error("only http:// and https://")),
    ("to no URL", |_| redirect("http://["), Outcome::Error("which is not a URL")),
    ("nowhere", |_| Answer::empty("302 Found"), Outcome::Error("302")),
    ("far", |_| redirect(&"a".repeat(90_000)), Outcome::Error("redirects to")),
];

fn busy(pause: &str) -> Answer {
    Answer::empty(&format!("503 Busy\r\n{pause}"))
}

pub(super) const PAUSES: &[Case] = &[
    ("years", |_| busy("Retry-After: 99999999999999999999"), Outcome::Error("503")),
    ("all ms", |_| busy("x-ms-retry-after-ms: 18446744073709551615"), Outcome::Error("503")),
    ("a far date", |_| busy("Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"), Outcome::Error("503")),
    (
        "no date",
        |_| busy("Retry-After: Fri, 31 Dec 9999999 23:59:59 GMT\r\nDate: now"),
        Outcome::Error("503"),
    ),
    ("soon", |_| busy("Retry-After: soon"), Outcome::Error("503")),
];
