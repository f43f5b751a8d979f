//! Request sizes: `bs`, `bssplit`, `bsrange`.

use super::super::Taken;
use super::Given;
use super::job::Reader;
use super::value::{percent, sides};
use units::ByteCount;

/// Lengths and their shares, with a sum of 1.
pub(super) type Blocks = Vec<(ByteCount, f64)>;

/// A range with more lengths than this is reduced to this many.
const MOST: u64 = 64;

impl Reader<'_> {
    /// The block sizes of reads and of writes.
    pub(super) fn blocks(&mut self) -> Taken<[Blocks; 2]> {
        // `bssplit` overrides the other options.
        let given = match self.given("bssplit")? {
            Some(split) => Some(split),
            None => self.last_of(&["bs", "bsrange"])?,
        };
        let default = || vec![(ByteCount(4096), 1.0)];
        let Some(given) = given else { return Ok([default(), default()]) };
        let sides = sides(&given.value, given.key == "bs");
        let mut parse = |side: Option<&str>| match (side, &*given.key) {
            (None, _) => Ok(default()),
            (Some(text), "bs") => Ok(vec![(self.block(given, text)?, 1.0)]),
            (Some(text), "bssplit") => self.split(given, text),
            (Some(text), _) => self.range(given, text),
        };
        let reads = parse(sides[0])?;
        Ok([reads, parse(sides[1])?])
    }

    /// The length of a request, which must be whole sectors in SoftROC.
    fn block(&self, given: &Given, text: &str) -> Taken<ByteCount> {
        let bytes = self.number(given, text, "sizes such as 4k")?;
        if bytes == 0 || bytes % 512 != 0 {
            let unit = match text.to_ascii_lowercase().ends_with("ib") {
                true => " (fio reads Ki as 1000, unless kb_base=1000 is set)",
                false => "",
            };
            return self.refuse(
                given,
                format_args!(
                    "requests {bytes} bytes{unit}; give a multiple of 512 bytes such as 4k"
                ),
            );
        }
        Ok(ByteCount(bytes))
    }

    /// `4k/60:64k/40`; sizes without a share get equal parts of the rest.
    fn split(&self, given: &Given, text: &str) -> Taken<Blocks> {
        let mut blocks = Vec::new();
        for part in text.split(':') {
            let (size, share) = part.split_once('/').unwrap_or((part, ""));
            let share = match share.trim() {
                "" => None,
                share => match percent(share) {
                    Some(share) => Some(share),
                    None => {
                        return self.misunderstood(given, "sizes and shares such as 4k/60:64k/40");
                    }
                },
            };
            blocks.push((self.block(given, size)?, share));
        }
        let shares: Vec<Option<f64>> = blocks.iter().map(|(_, share)| *share).collect();
        let Some(shares) = completed(&shares) else {
            return self.misunderstood(given, "shares that add up to 100 %, such as 4k/60:64k/40");
        };
        let blocks = blocks.into_iter().zip(shares).map(|((size, _), share)| (size, share / 100.0));
        Ok(blocks.filter(|(_, share)| *share > 0.0).collect())
    }

    /// `4k-64k`: all multiples of the smaller size with equal shares, and the larger size.
    fn range(&mut self, given: &Given, text: &str) -> Taken<Blocks> {
        let Some((low, high)) = text.split_once(['-', ':']) else {
            return self.misunderstood(given, "a range such as 4k-64k");
        };
        let (low, high) = (self.block(given, low)?.0, self.block(given, high)?.0);
        if low > high {
            return self.misunderstood(
                given,
                "a range from the smaller to the larger size, such as 4k-64k",
            );
        }
        if !low.is_power_of_two() {
            self.note(
                given,
                format_args!(
                    "fio requests lengths of '{}' that are no whole sectors; here they are \
                     multiples of {}",
                    given.written,
                    ByteCount(low)
                ),
            );
        }
        let multiples = high / low;
        if multiples <= MOST {
            let share = low as f64 / high as f64;
            let mut blocks: Blocks =
                (1..=multiples).map(|times| (ByteCount(times * low), share)).collect();
            if high % low != 0 {
                blocks.push((ByteCount(high), 1.0 - share * multiples as f64));
            }
            return Ok(blocks);
        }
        self.note(
            given,
            format_args!(
                "'{}' has {multiples} lengths; {MOST} of them are used, from {} to {}, with equal \
                 shares",
                given.written,
                ByteCount(low),
                ByteCount(high)
            ),
        );
        let times = (0..MOST)
            .map(|at| 1 + u128::from(at) * u128::from(multiples - 1) / u128::from(MOST - 1));
        Ok(times.map(|times| (ByteCount(times as u64 * low), 1.0 / MOST as f64)).collect())
    }
}

/// Shares in percent; those without a value get equal parts of the rest.
pub(super) fn completed(shares: &[Option<f64>]) -> Option<Vec<f64>> {
    let said: f64 = shares.iter().flatten().sum();
    let open = shares.iter().filter(|share| share.is_none()).count();
    if said > 100.0 || (open == 0 && said < 100.0) {
        return None;
    }
    let rest = (100.0 - said) / open.max(1) as f64;
    Some(shares.iter().map(|share| share.unwrap_or(rest)).collect())
}
