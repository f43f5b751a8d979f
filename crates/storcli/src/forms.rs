//! Formats of sizes and times.

/// Units of sizes: binary ones, with the names of decimal ones.
const UNITS: [(&str, u32); 4] = [("PB", 50), ("TB", 40), ("GB", 30), ("MB", 20)];

/// A size, such as `446.625 GB`: rounded down to thousandths.
pub(crate) fn size(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(_, shift)| bytes >> shift > 0);
    let Some((name, shift)) = unit else { return format!("{} KB", bytes >> 10) };
    let (whole, rest) = (bytes >> shift, bytes & ((1 << shift) - 1));
    let thousandths = (u128::from(rest) * 1000) >> shift;
    format!("{whole}.{thousandths:03} {name}")
}

/// A sector or strip size: `512B`, `4 KB`.
pub(crate) fn unit(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes}B") } else { format!("{} KB", bytes >> 10) }
}

/// A calendar time in UTC.
pub(crate) struct Moment {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    weekday: usize,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

impl Moment {
    /// From seconds since 1970. (Days to civil dates: Hinnant, "chrono-Compatible Low-Level Date
    /// Algorithms".)
    pub(crate) fn of(unix_s: u64) -> Moment {
        // The last second of 9999: years have four digits.
        let unix_s = unix_s.min(253_402_300_799);
        let (days, rest) = (unix_s / 86_400, unix_s % 86_400);
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let index = (5 * day_of_year + 2) / 153;
        let month = if index < 10 { index + 3 } else { index - 9 };
        Moment {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * index + 2) / 5 + 1,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: usize::try_from(days % 7).unwrap_or(0),
        }
    }

    /// `11/22/2026 23:01:02`.
    pub(crate) fn short(&self) -> String {
        let Moment { year, month, day, .. } = self;
        format!("{month:02}/{day:02}/{year:04} {}", self.clock())
    }

    /// `11/22/2026, 23:01:02`.
    pub(crate) fn long(&self) -> String {
        let Moment { year, month, day, .. } = self;
        format!("{month:02}/{day:02}/{year:04}, {}", self.clock())
    }

    /// `2026/11/22 23:01:02`.
    pub(crate) fn sorted(&self) -> String {
        let Moment { year, month, day, .. } = self;
        format!("{year:04}/{month:02}/{day:02} {}", self.clock())
    }

    /// `22-11-2026`.
    pub(crate) fn date(&self) -> String {
        let Moment { year, month, day, .. } = self;
        format!("{day:02}-{month:02}-{year:04}")
    }

    /// `11:01:02 PM`.
    pub(crate) fn half_day(&self) -> String {
        let Moment { hour, minute, second, .. } = self;
        let half = if *hour < 12 { "AM" } else { "PM" };
        let hour = if hour % 12 == 0 { 12 } else { hour % 12 };
        format!("{hour:02}:{minute:02}:{second:02} {half}")
    }

    /// `Sun Nov 22 23:01:02 2026`.
    pub(crate) fn ctime(&self) -> String {
        let month =
            MONTHS.get(usize::try_from(self.month - 1).unwrap_or(0)).copied().unwrap_or_default();
        format!("{} {month} {:2} {} {:04}", DAYS[self.weekday], self.day, self.clock(), self.year)
    }

    fn clock(&self) -> String {
        format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second)
    }
}

/// Remaining time, such as `1 Hours 5 Minutes`.
pub(crate) fn time_left(seconds: Option<u64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
    if hours > 0 {
        format!("{hours} Hours {minutes} Minutes")
    } else {
        format!("{minutes} Minutes")
    }
}

/// Parses a size such as `10gb`; without a unit, megabytes.
pub(crate) fn read_size(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.trim() {
        "kb" | "k" => 10,
        "mb" | "m" | "" => 20,
        "gb" | "g" => 30,
        "tb" | "t" => 40,
        "pb" | "p" => 50,
        _ => return None,
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: u64 = whole.parse().ok()?;
    let mut bytes = whole.checked_mul(1 << shift)?;
    if !part.is_empty() {
        let part = part.get(..part.len().min(9))?;
        let scale = 10_u128.pow(u32::try_from(part.len()).ok()?);
        let rest = (u128::from(part.parse::<u64>().ok()?) << shift) / scale;
        bytes = bytes.checked_add(u64::try_from(rest).ok()?)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_with_decimal_names() {
        for (bytes, text) in [
            (0, "0 KB"),
            (512, "0 KB"),
            (48 << 20, "48.000 MB"),
            (479_559_942_144, "446.625 GB"),
            (2_398_039_318_528, "2.181 TB"),
            (u64::MAX, "16383.999 PB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        for (text, bytes) in
            [("10gb", 10 << 30), ("100", 100 << 20), ("1.5 TB", 3 << 39), ("0.5mb", 1 << 19)]
        {
            assert_eq!(read_size(text), Some(bytes), "{text}");
        }
        for wrong in ["", "gb", "1.2.3gb", "1xb", "99999999999999pb", ".5gb", "-1gb"] {
            assert_eq!(read_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let moment = Moment::of(1_795_388_462);
        assert_eq!(moment.short(), "11/22/2026 23:01:02");
        assert_eq!(moment.long(), "11/22/2026, 23:01:02");
        assert_eq!(moment.sorted(), "2026/11/22 23:01:02");
        assert_eq!(moment.ctime(), "Sun Nov 22 23:01:02 2026");
        assert_eq!((moment.date(), moment.half_day()), ("22-11-2026".into(), "11:01:02 PM".into()));
        assert_eq!(Moment::of(0).ctime(), "Thu Jan  1 00:00:00 1970");
        assert_eq!(Moment::of(951_782_400).half_day(), "12:00:00 AM");
        assert_eq!(Moment::of(u64::MAX).short(), "12/31/9999 23:59:59");
        assert_eq!(time_left(Some(3900)), "1 Hours 5 Minutes");
    }
}
