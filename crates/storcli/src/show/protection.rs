//! `/cN/bbu show`, `/cN/cv show`: battery and cache vault, which software does not have.

use crate::answer::{Answer, OTHER};
use crate::codes::NO_HARDWARE;
use crate::words::Word;

fn is_known(words: &[Word]) -> bool {
    let known = ["all", "status", "properties", "learn", "modes", "gasgauge"];
    words.len() <= 1 && words.iter().all(|word| known.contains(&word.bare()))
}

/// `/cN/bbu show`.
pub(super) fn bbu(words: &[Word]) -> Answer {
    if is_known(words) { Answer::refused("-", "use /cx/cv", OTHER) } else { Answer::unsupported() }
}

/// `/cN/cv show`.
pub(super) fn cache_vault(words: &[Word]) -> Answer {
    match is_known(words) {
        true => Answer::refused("-", "Cachevault is absent!", NO_HARDWARE),
        false => Answer::unsupported(),
    }
}
