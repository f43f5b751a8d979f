//! Times of day as text, in UTC.

const DAY_S: u32 = 86_400;

/// Formats as `02:00`, or as `02:00:30` when there are seconds.
pub(crate) fn written(at_s: u32) -> String {
    let (hour, minute, second) = (at_s / 3600, at_s / 60 % 60, at_s % 60);
    match second {
        0 => format!("{hour:02}:{minute:02}"),
        _ => format!("{hour:02}:{minute:02}:{second:02}"),
    }
}

/// Parses a time of day into seconds since midnight.
///
/// # Errors
/// When the text is not a time of day. The error is a clause that completes a message.
pub(crate) fn read(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is not a time of the day; expected HH:MM or HH:MM:SS, in UTC");
    let two_digits = |part: &str| {
        let is_number = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse::<u32>().ok()).flatten()
    };
    let parts: Option<Vec<u32>> = text.split(':').map(two_digits).collect();
    let (hour, minute, second) = match parts.as_deref() {
        Some([hour, minute]) => (*hour, *minute, 0),
        Some([hour, minute, second]) => (*hour, *minute, *second),
        _ => return Err(wrong()),
    };
    let at_s = hour * 3600 + minute * 60 + second;
    if minute < 60 && second < 60 && at_s < DAY_S { Ok(at_s) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_of_a_day_is_read_as_it_is_written() {
        (0..DAY_S).for_each(|at_s| assert_eq!(read(&written(at_s)), Ok(at_s)));
        assert_eq!(written(7_200), "02:00");
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in
            ["", "2:00", "24:00", "02:60", "02:00:60", "02", "+2:00", "02:00:00:00", "ab:cd"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
