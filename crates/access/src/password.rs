//! Passwords, and what is kept of them: an Argon2id hash, from which nobody gets the password back.

use crate::hex;
use controller::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The shortest password that is accepted.
const SHORTEST: usize = 8;

/// The longest: hashing takes time.
const LONGEST: usize = 128;

/// A password. It cannot be printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// How many characters one has, at least and at most.
    pub const LENGTHS: (usize, usize) = (SHORTEST, LONGEST);

    /// Any text: it is looked at when it becomes somebody's password.
    pub fn new(text: impl Into<String>) -> Password {
        Password(text.into())
    }

    /// One that nobody can guess, made of random bytes. Letters and digits that look like others are left out.
    pub fn from_random(bytes: &[u8]) -> Password {
        const LETTERS: &[u8] = b"abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
        Password(bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect())
    }

    /// The text itself, to print it once, or to hash it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it may become somebody's password.
    ///
    /// # Errors
    /// When it is too short or too long, or is the account's name.
    pub fn check(&self, account: &str) -> Result<()> {
        let wrong = |why: String| Err(Error::new(ErrorKind::Invalid, why));
        let length = self.0.chars().count();
        if length < SHORTEST || self.0.len() > LONGEST {
            return wrong(format!("a password has {SHORTEST} to {LONGEST} characters; give another one"));
        }
        if self.0.eq_ignore_ascii_case(account) {
            return wrong("the password is the name of the account; give another one".to_owned());
        }
        Ok(())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// What a hash costs whoever makes one, and whoever guesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Memory that one takes.
    pub memory_kib: u32,
    /// How often it is gone through.
    pub passes: u32,
}

impl Default for Cost {
    /// What OWASP's cheat sheet on storing passwords asks for.
    fn default() -> Cost {
        Cost { memory_kib: 19 * 1024, passes: 2 }
    }
}

/// What is kept of a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hash {
    memory_kib: u32,
    passes: u32,
    salt: String,
    argon2id: String,
}

impl Hash {
    /// Hashes a password; `salt` is random.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn of(password: &Password, salt: [u8; 16], cost: Cost) -> Result<Hash> {
        let bytes = digest(password, &salt, cost)?;
        let Cost { memory_kib, passes } = cost;
        Ok(Hash { memory_kib, passes, salt: hex::of(&salt), argon2id: hex::of(&bytes) })
    }

    /// Whether it is that password's. This takes as long as making it did.
    ///
    /// # Errors
    /// When there is no memory for it, or what was kept cannot be read.
    pub fn is_of(&self, password: &Password) -> Result<bool> {
        let unreadable = || Error::new(ErrorKind::Failed, "the stored password of the account is unreadable");
        let salt = hex::read(&self.salt).ok_or_else(unreadable)?;
        let kept = hex::read(&self.argon2id).ok_or_else(unreadable)?;
        let cost = Cost { memory_kib: self.memory_kib, passes: self.passes };
        Ok(hex::same(&kept, &digest(password, &salt, cost)?))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(…)")
    }
}

fn digest(password: &Password, salt: &[u8], cost: Cost) -> Result<[u8; 32]> {
    let failed = |error: argon2::Error| {
        Error::new(ErrorKind::Failed, format!("a password cannot be hashed: {error}; try again"))
    };
    let params = argon2::Params::new(cost.memory_kib, cost.passes, 1, Some(32)).map_err(failed)?;
    let argon2 = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    let mut bytes = [0; 32];
    argon2.hash_password_into(password.0.as_bytes(), salt, &mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Cost = Cost { memory_kib: 8, passes: 1 };

    #[test]
    fn a_hash_knows_its_password_and_does_not_tell_it() {
        let password = Password::new("correct horse");
        let hash = Hash::of(&password, [7; 16], CHEAP).unwrap();
        assert!(hash.is_of(&password).unwrap());
        assert!(!hash.is_of(&Password::new("correct horsf")).unwrap());
        assert_ne!(hash, Hash::of(&password, [8; 16], CHEAP).unwrap(), "the salt counts");
        let told = format!("{password:?} {hash:?} {}", serde_json::to_string(&hash).unwrap());
        assert!(!told.contains("correct"), "{told}");
    }

    #[test]
    fn a_password_has_a_length_and_is_not_the_name() {
        for wrong in ["", "1234567", "ada-love", "ADA-LOVE", &"x".repeat(129)] {
            assert!(Password::new(wrong).check("ada-love").is_err(), "{wrong}");
        }
        Password::from_random(&[255; 16]).check("ada").unwrap();
        Password::new("ünïcödé!").check("ada").unwrap();
    }
}
