//! Fields of text formats: whole numbers, decimals, names.
//!
//! Times are never floating point: in nanoseconds, those of 2026 have more digits than a double.

/// Parses a whole number.
pub(crate) fn whole(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{name}: {:?} is not a whole number", short(text)))
}

/// Parses a number with or without decimals, in units of `unit_ns` nanoseconds.
pub(crate) fn time_ns(name: &str, text: &str, unit_ns: u64) -> Result<u64, String> {
    let wrong = || format!("{name}: {:?} is not a time", short(text));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && part.is_empty() {
        return Err(wrong());
    }
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) {
        return Err(wrong());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
    let mut ns = whole.checked_mul(unit_ns).ok_or_else(wrong)?;
    let mut digit_ns = unit_ns;
    for byte in part.bytes() {
        digit_ns /= 10;
        ns = ns.checked_add(u64::from(byte - b'0') * digit_ns).ok_or_else(wrong)?;
    }
    Ok(ns)
}

/// Truncates a wrong field for an error message.
pub(crate) fn short(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(end, _)| &text[..end])
}

/// Escapes a name into one word: white space, control characters and `%` become `%` and two
/// hexadecimal digits for each byte.
pub(crate) fn escaped(name: &str) -> String {
    let mut word = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_whitespace() || c.is_control() || c == '%' {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                word += &format!("%{byte:02x}");
            }
        } else {
            word.push(c);
        }
    }
    word
}

/// Reverses [`escaped`]. Other text is kept.
pub(crate) fn unescaped(word: &str) -> String {
    if !word.contains('%') {
        return word.to_owned();
    }
    let bytes = word.as_bytes();
    let mut name = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        // `from_str_radix` would take a sign.
        let digits = bytes.get(at + 1..at + 3).filter(|all| all.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[at], byte) {
            (b'%', Some(byte)) => {
                name.push(byte);
                at += 3;
            }
            (byte, _) => {
                name.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(name).unwrap_or_else(|_| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(time_ns("t", "1455592511.000512", 1_000_000_000), Ok(1_455_592_511_000_512_000));
        assert_eq!(time_ns("t", "0.1234567899", 1_000_000_000), Ok(123_456_789));
        assert_eq!(time_ns("t", "7", 100), Ok(700));
        for wrong in ["", ".", "-1", "1e3", "1.2.3", "99999999999999999999"] {
            assert!(time_ns("t", wrong, 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_escaped_name_is_one_word_and_comes_back() {
        for name in ["/a b/c\td", "100%", "%20", "\u{a0}x", "plain"] {
            let word = escaped(name);
            assert!(!word.contains(char::is_whitespace), "{word}");
            assert_eq!(unescaped(&word), name);
        }
        assert_eq!(unescaped("50% of %zz"), "50% of %zz");
        assert_eq!(unescaped("100%+5"), "100%+5");
    }
}
