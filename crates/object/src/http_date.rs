//! Dates in headers such as `Date` and `Last-Modified`: reads the three forms that RFC 9110
//! requires recipients to accept, and writes the one that servers must send. HTTP dates are always
//! GMT.

/// Parses a date: `Tue, 24 Nov 2026 17:00:00 GMT` (IMF-fixdate), `Tuesday, 24-Nov-26 17:00:00 GMT`
/// (RFC 850) or `Tue Nov 24 17:00:00 2026` (asctime). Returns seconds since 1970.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        [_, day, month, year, time, "GMT" | "UTC"] if text.contains(',') => {
            of_parts(year.parse().ok()?, month, day, time)
        }
        [_, date, time, "GMT" | "UTC"] => {
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
            parts.next().is_none().then_some(())?;
            of_parts(full_year(year)?, month, day, time)
        }
        [_, month, day, time, year] => of_parts(year.parse().ok()?, month, day, time),
        _ => None,
    }
}

/// Expands the two-digit year of RFC 850 to 1970..2069. Some servers write four digits.
fn full_year(text: &str) -> Option<i64> {
    let year: i64 = text.parse().ok()?;
    match (text.len(), year) {
        (2, 70..) => Some(1900 + year),
        (2, 0..) => Some(2000 + year),
        (4, _) => Some(year),
        _ => None,
    }
}

fn of_parts(year: i64, month: &str, day: &str, time: &str) -> Option<i64> {
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?;
    let mut parts = time.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let day = day.parse::<i64>().ok()?;
    let is_time =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    if parts.next().is_some()
        || !is_time
        || !(1..=31).contains(&day)
        || !(1970..=9999).contains(&year)
    {
        return None;
    }
    let days = days_since_1970(year, i64::try_from(month).ok()?) + day - 1;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Formats a date in the form that servers must send.
pub(crate) fn text(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    let mut year = 1970 + days.div_euclid(366);
    while days_since_1970(year + 1, 0) <= days {
        year += 1;
    }
    let month = (0..12).rev().find(|month| days_since_1970(year, *month) <= days).unwrap_or(0);
    let day = days - days_since_1970(year, month) + 1;
    let name = |names: &[&'static str], at: i64| names[usize::try_from(at).unwrap_or(0)];
    let (weekday, month) = (name(&WEEKDAYS, days.rem_euclid(7)), name(&MONTHS, month));
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Returns the days from 1970 to the first of a month; January is 0.
fn days_since_1970(year: i64, month: i64) -> i64 {
    // In years that begin in March the leap day is the last day.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 - DAYS_TO_1970
}

/// Days from the first of March of the year 0 to 1970.
const DAYS_TO_1970: i64 = 719_468;

const DAY_S: i64 = 24 * 3600;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The first of January 1970 was a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        for (date, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Tue, 24 Nov 2026 17:00:00 GMT", 1_795_539_600),
            ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
        ] {
            assert_eq!(seconds(date), Some(expected), "{date}");
            assert_eq!(text(expected), date);
        }
    }

    /// The two obsolete forms were no dates, and their objects could not be read.
    #[test]
    fn obsolete_forms_are_dates_all_the_same() {
        for date in [
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 6 Nov 1994 08:49:37 UTC",
        ] {
            assert_eq!(seconds(date), Some(784_111_777), "{date}");
        }
        assert_eq!(seconds("Tuesday, 24-Nov-26 17:00:00 GMT"), Some(1_795_539_600));
    }

    #[test]
    fn invalid_dates_are_rejected() {
        for wrong in [
            "",
            "0",
            "Tue, 24 Nov 2026 17:00:00",
            "Tue, 24 Nov 2026 17:00:00 CET",
            "Tue, 24 Abc 2026 17:00:00 GMT",
            "Tue, 24 Nov 2026 25:00:00 GMT",
            "Tue, 24 Nov 2026 17:00 GMT",
            "Tue, 99999999999999999999 Nov 2026 17:00:00 GMT",
            "2023-11-14T22:13:20Z",
            "Fri Aug 03 17:41:20 GMT-700 2012",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
