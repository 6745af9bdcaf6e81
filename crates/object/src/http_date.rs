//! The time in a header `Date`.
//!
//! In:    `Tue, 24 Nov 2026 17:00:00 GMT`.
//! Out:   seconds since 1970.
//! Never: the two obsolete forms, which no server of today sends.

/// Reads the form that RFC 9110 wants servers to send (IMF-fixdate).
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let (_, text) = text.split_once(", ")?;
    let mut words = text.split(' ');
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let (time, zone) = (words.next()?, words.next()?);
    let month = MONTHS.iter().position(|name| *name == month)?;
    let mut parts = time.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_whole = zone == "GMT" && words.next().is_none() && parts.next().is_none();
    let (day, year) = (day.parse::<i64>().ok()?, year.parse::<i64>().ok()?);
    let is_time =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    if !is_whole || !is_time || !(1..=31).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    let days = days_since_1970(year, i64::try_from(month).ok()?) + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days from 1970 to the first of a month; January is 0.
fn days_since_1970(year: i64, month: i64) -> i64 {
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 - DAYS_TO_1970
}

/// From the first of March of the year 0.
const DAYS_TO_1970: i64 = 719_468;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Tue, 24 Nov 2026 17:00:00 GMT", 1_795_539_600),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for wrong in [
            "",
            "Tue, 24 Nov 2026 17:00:00",
            "Tue, 24 Nov 2026 17:00:00 CET",
            "Tue, 24 Abc 2026 17:00:00 GMT",
            "Tue, 24 Nov 2026 25:00:00 GMT",
            "Tue, 24 Nov 2026 17:00 GMT",
            "Tue, 99999999999999999999 Nov 2026 17:00:00 GMT",
            "Tuesday, 24-Nov-26 17:00:00 GMT",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
