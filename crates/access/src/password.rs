//! Passwords, stored as Argon2id hashes.

use crate::hex;
use controller::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The shortest accepted password.
const SHORTEST: usize = 8;

/// The longest accepted password; it bounds the hashing time.
const LONGEST: usize = 128;

/// A password. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// The shortest and longest length, in characters.
    pub const LENGTHS: (usize, usize) = (SHORTEST, LONGEST);

    /// Any text; [`Password::check`] validates it.
    pub fn new(text: impl Into<String>) -> Password {
        Password(text.into())
    }

    /// A random password, without characters that look alike.
    pub fn from_random(bytes: &[u8]) -> Password {
        const LETTERS: &[u8] = b"abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
        Password(
            bytes
                .iter()
                .map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]))
                .collect(),
        )
    }

    /// The text, for hashing or to print it once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it is an acceptable password for an account.
    ///
    /// # Errors
    /// When it is too short or too long, or equals the account's name.
    pub fn check(&self, account: &str) -> Result<()> {
        let wrong = |why: String| Err(Error::new(ErrorKind::Invalid, why));
        let length = self.0.chars().count();
        if length < SHORTEST || self.0.len() > LONGEST {
            return wrong(format!(
                "a password has {SHORTEST} to {LONGEST} characters; choose another one"
            ));
        }
        if self.0.eq_ignore_ascii_case(account) {
            return wrong("the password equals the account name; choose another one".to_owned());
        }
        Ok(())
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// The cost of a hash: for sign-in, and for guessing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Memory per hash.
    pub memory_kib: u32,
    /// The number of passes over it.
    pub passes: u32,
}

impl Default for Cost {
    /// The recommendation of OWASP's Password Storage Cheat Sheet.
    fn default() -> Cost {
        Cost { memory_kib: 19 * 1024, passes: 2 }
    }
}

/// A password hash.
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
    /// When there is not enough memory.
    pub fn of(password: &Password, salt: [u8; 16], cost: Cost) -> Result<Hash> {
        let bytes = digest(password, &salt, cost)?;
        let Cost { memory_kib, passes } = cost;
        Ok(Hash { memory_kib, passes, salt: hex::of(&salt), argon2id: hex::of(&bytes) })
    }

    /// Whether the password matches. It takes as long as hashing.
    ///
    /// # Errors
    /// When there is not enough memory, or the stored hash is invalid.
    pub fn is_of(&self, password: &Password) -> Result<bool> {
        let unreadable =
            || Error::new(ErrorKind::Failed, "the stored password of the account is unreadable");
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
