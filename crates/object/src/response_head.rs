//! Repairs the head of a good response for `object_store`: dates in other forms, non-ASCII texts, a
//! missing length that the range implies. It never invents a length, range or tag.

use object_store::client::HttpResponse;
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    HeaderValue, LAST_MODIFIED, TRANSFER_ENCODING,
};

use crate::http_date;

/// Length of the requested object, if known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownLength(pub(crate) u64);

/// True if a response carries a modification date. `object_store` substitutes the first second of
/// 1970 for a missing one, which is also the real date of files of reproducible builds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct StatesDate(pub(crate) bool);

/// Repairs the head of a 2xx response. `known` is the length of the object, if known.
pub(crate) fn make_readable(response: &mut HttpResponse, known: Option<KnownLength>) {
    let states_date = with_readable_date(response.headers_mut());
    let is_text = |value: &HeaderValue| value.to_str().is_ok();
    let needed = [ETAG, CONTENT_LENGTH, CONTENT_RANGE];
    let headers = response.headers();
    let odd: Vec<HeaderName> = headers
        .iter()
        .filter(|(name, value)| !needed.contains(name) && !is_text(value))
        .map(|(name, _)| name.clone())
        .collect();
    for name in odd {
        response.headers_mut().remove(name);
    }
    if response.status().as_u16() == 206 {
        with_known_length(response.headers_mut(), known);
    }
    response.extensions_mut().insert(StatesDate(states_date));
}

/// Rewrites the date in the standard form, and removes an invalid one. Returns true if a valid date
/// remains.
fn with_readable_date(headers: &mut HeaderMap) -> bool {
    let stated = headers.get(LAST_MODIFIED).and_then(|value| value.to_str().ok());
    let seconds = stated.and_then(http_date::seconds);
    // Clients of some stores require a date; `StatesDate` marks this one as made up.
    let text = http_date::text(seconds.unwrap_or(0));
    match HeaderValue::from_str(&text) {
        Ok(value) => headers.insert(LAST_MODIFIED, value),
        Err(_) => headers.remove(LAST_MODIFIED),
    };
    seconds.is_some()
}

/// Fills in the total length that a range omits, and the length of a chunked body that the range
/// implies.
fn with_known_length(headers: &mut HeaderMap, known: Option<KnownLength>) {
    let Some(range) = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok()) else {
        return;
    };
    let range = range.to_owned();
    let Some((bounds, total)) = range.split_once('/') else { return };
    if let (Some(KnownLength(known)), "*") = (known, total.trim())
        && let Ok(value) = HeaderValue::from_str(&format!("{bounds}/{known}"))
    {
        headers.insert(CONTENT_RANGE, value);
    }
    if headers.contains_key(CONTENT_LENGTH) {
        return;
    }
    if let Some(len) = range_len(&range) {
        headers.insert(CONTENT_LENGTH, len.into());
    }
}

/// Returns the header of an encoding that makes the body differ from the bytes of the object. For a
/// stored encoding, which is an attribute of the object, the body has the length of the range or of
/// the object. A server that encodes on the fly sends another length, or none.
pub(crate) fn foreign_encoding(
    response: &HttpResponse,
    known: Option<KnownLength>,
) -> Option<String> {
    let text = |name| Some(response.headers().get(name)?.to_str().ok()?.trim());
    let is_chunked = |it: &&str| it.eq_ignore_ascii_case("chunked");
    if let Some(encoding) = text(TRANSFER_ENCODING).filter(|it| !is_chunked(it)) {
        return Some(format!("Transfer-Encoding: {encoding}"));
    }
    let encoding = text(CONTENT_ENCODING).filter(|it| !it.eq_ignore_ascii_case("identity"))?;
    let len: Option<u64> = text(CONTENT_LENGTH).and_then(|len| len.parse().ok());
    let stored = match response.status().as_u16() {
        206 => text(CONTENT_RANGE).and_then(range_len),
        _ => known.map(|KnownLength(len)| len),
    };
    (len.is_none() || len != stored).then(|| format!("Content-Encoding: {encoding}"))
}

/// Returns the number of bytes in `bytes 10-29/100`.
fn range_len(range: &str) -> Option<u64> {
    let (bounds, _) = range.split_once('/')?;
    let (first, last) = bounds.trim().strip_prefix("bytes ")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

/// Rewrites `Content-Range` in the form that `object_store` reads: the name of the unit has no
/// case, and some servers write `bytes=` or more blanks.
pub(crate) fn with_standard_range(headers: &mut HeaderMap) {
    let range = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let standard = range.and_then(|range| {
        let range = range.trim();
        let unit = range.get(.."bytes".len()).filter(|it| it.eq_ignore_ascii_case("bytes"))?;
        let rest = range[unit.len()..].trim_start_matches([' ', '\t', '=']);
        let (bounds, total) = rest.split_once('/')?;
        let (first, last) = bounds.split_once('-')?;
        Some(format!("bytes {}-{}/{}", first.trim(), last.trim(), total.trim()))
    });
    if let Some(value) = standard.and_then(|text| HeaderValue::from_str(&text).ok()) {
        headers.insert(CONTENT_RANGE, value);
    }
}

/// Returns the reason why the body of a partial response cannot be the bytes of its range.
pub(crate) fn contradiction(response: &HttpResponse) -> Option<String> {
    let text = |name| Some(response.headers().get(name)?.to_str().ok()?.trim());
    let range = text(CONTENT_RANGE).filter(|_| response.status().as_u16() == 206)?;
    if text(CONTENT_TYPE).is_some_and(|kind| kind.starts_with("multipart/byteranges")) {
        return Some("the server sends several ranges, and was asked for one".to_owned());
    }
    let (len, stated) = (range_len(range)?, text(CONTENT_LENGTH)?.parse::<u64>().ok()?);
    let is_encoded = response.headers().contains_key(CONTENT_ENCODING);
    (len != stated && !is_encoded)
        .then(|| format!("the server says that {range} are {len} bytes, and sends {stated}"))
}

/// Returns true if the range of a response ends beyond any possible object: `object_store` adds one
/// to the last byte, which could overflow.
pub(crate) fn is_absurd(response: &HttpResponse) -> bool {
    let text = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let last = text.and_then(|text| text.split_once('/')?.0.rsplit_once('-'));
    last.is_some_and(|(_, last)| last.trim().parse() == Ok(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&'static str, &[u8])]) -> HttpResponse {
        let mut response = HttpResponse::new(Vec::new().into());
        *response.status_mut() = status.try_into().unwrap();
        for (name, value) in headers {
            response.headers_mut().insert(*name, HeaderValue::from_bytes(value).unwrap());
        }
        response
    }

    fn readable(
        status: u16,
        known: Option<u64>,
        headers: &[(&'static str, &[u8])],
    ) -> (HttpResponse, bool) {
        let mut response = response(status, headers);
        make_readable(&mut response, known.map(KnownLength));
        let states_date = response.extensions().get::<StatesDate>() == Some(&StatesDate(true));
        (response, states_date)
    }

    fn header(response: &HttpResponse, name: &str) -> String {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
    }

    /// An object with an `ETag` could not be read because of its date, which is not needed.
    #[test]
    fn a_date_is_read_in_each_form_and_one_that_is_none_is_not_used() {
        let fixed = "Tue, 14 Nov 2023 22:13:20 GMT";
        for date in [fixed, "Tuesday, 14-Nov-23 22:13:20 GMT", "Tue Nov 14 22:13:20 2023"] {
            let (response, states_date) =
                readable(200, None, &[("last-modified", date.as_bytes())]);
            assert_eq!((header(&response, "last-modified").as_str(), states_date), (fixed, true));
        }
        let epoch = "Thu, 01 Jan 1970 00:00:00 GMT";
        assert!(readable(200, None, &[("last-modified", epoch.as_bytes())]).1, "it is a date");
        for date in ["", "0", "2023-11-14T22:13:20Z", "\u{e4}"] {
            let (response, states_date) =
                readable(200, None, &[("last-modified", date.as_bytes())]);
            assert_eq!((header(&response, "last-modified").as_str(), states_date), (epoch, false));
        }
    }

    /// A header that nothing looks at made the object unreadable.
    #[test]
    fn a_text_that_is_no_ascii_is_left_out_if_it_is_not_needed() {
        let headers: [(&'static str, &[u8]); 3] =
            [("content-disposition", b"\xe4"), ("x-amz-meta-a", b"\xff"), ("etag", b"\"a\"")];
        let (response, _) = readable(200, None, &headers);
        assert!(!response.headers().contains_key("content-disposition"));
        assert!(!response.headers().contains_key("x-amz-meta-a"));
        assert_eq!(header(&response, "etag"), "\"a\"");
    }

    #[test]
    fn a_range_says_the_length_of_its_body_and_the_object_that_of_the_whole() {
        let range: [(&'static str, &[u8]); 1] = [("content-range", b"bytes 10-29/*")];
        let (response, _) = readable(206, Some(100), &range);
        assert_eq!(header(&response, "content-range"), "bytes 10-29/100");
        assert_eq!(header(&response, "content-length"), "20");
        let (response, _) = readable(206, None, &range);
        assert_eq!(header(&response, "content-range"), "bytes 10-29/*");
        let (response, _) = readable(200, Some(100), &[]);
        assert_eq!(header(&response, "content-length"), "", "nothing is assumed");
    }

    /// Bytes of a compressed body would have been taken for those of the object.
    #[test]
    fn an_encoding_is_an_attribute_only_where_the_length_is_that_of_the_object() {
        let encoding = |status, known: Option<u64>, headers: &[(&'static str, &[u8])]| {
            let mut all: Vec<(&'static str, &[u8])> = vec![("content-encoding", b"gzip")];
            all.extend(headers);
            foreign_encoding(&response(status, &all), known.map(KnownLength))
        };
        let range: (&'static str, &[u8]) = ("content-range", b"bytes 10-29/100");
        let len = |len: &'static [u8]| ("content-length", len);
        assert_eq!(encoding(206, Some(100), &[range, len(b"20")]), None, "stored so");
        assert_eq!(encoding(200, Some(100), &[len(b"100")]), None, "stored so");
        let gzip = Some("Content-Encoding: gzip".to_owned());
        assert_eq!(encoding(206, Some(100), &[range, len(b"17")]), gzip);
        assert_eq!(encoding(206, Some(100), &[range]), gzip, "in chunks");
        assert_eq!(encoding(200, Some(100), &[len(b"60")]), gzip);
        assert_eq!(encoding(200, None, &[len(b"60")]), gzip, "no length to compare with");
        let plain = response(206, &[("content-encoding", b"identity"), range]);
        assert_eq!(foreign_encoding(&plain, None), None);
        let chunked = response(206, &[("transfer-encoding", b"Chunked"), range]);
        assert_eq!(foreign_encoding(&chunked, None), None);
        let gzip = response(206, &[("transfer-encoding", b"gzip, chunked"), range]);
        let said = Some("Transfer-Encoding: gzip, chunked".to_owned());
        assert_eq!(foreign_encoding(&gzip, None), said);
    }

    #[test]
    fn a_range_is_read_in_the_forms_that_servers_send() {
        for range in ["bytes 0-9/100", "Bytes 0-9/100", "bytes=0-9/100", " bytes  0 - 9 / 100"] {
            let mut headers = HeaderMap::new();
            headers.insert("content-range", HeaderValue::from_static(range));
            with_standard_range(&mut headers);
            assert_eq!(headers["content-range"], "bytes 0-9/100", "{range}");
        }
        for other in ["items 0-9/100", "byte", "0-9/100", "bytes */100"] {
            let mut headers = HeaderMap::new();
            headers.insert("content-range", HeaderValue::from_static(other));
            with_standard_range(&mut headers);
            assert_eq!(headers["content-range"], other);
        }
    }

    /// The first bytes were used as those of the range, until there were too many.
    #[test]
    fn a_body_of_another_length_than_its_range_is_refused_by_its_head() {
        let range: (&'static str, &[u8]) = ("content-range", b"bytes 0-9/100");
        let of = |more: &[(&'static str, &[u8])]| {
            contradiction(&response(206, &[&[range], more].concat())).unwrap_or_default()
        };
        assert_eq!(of(&[("content-length", b"10")]) + &of(&[]), "");
        assert!(of(&[("content-length", b"11")]).contains("are 10 bytes, and sends 11"));
        assert!(of(&[("content-length", b"9")]).contains("sends 9"));
        let several = ("content-type", b"multipart/byteranges; boundary=a".as_slice());
        assert!(of(&[several]).contains("several ranges"));
    }

    #[test]
    fn a_range_to_the_end_of_all_numbers_is_absurd() {
        let of =
            |range: &'static str| is_absurd(&response(206, &[("content-range", range.as_bytes())]));
        assert!(of("bytes 0-18446744073709551615/5") && !of("bytes 0-18446744073709551614/5"));
        assert!(!of("nonsense") && !is_absurd(&response(206, &[])));
    }
}
