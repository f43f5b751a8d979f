//! Accounts: names, roles and password hashes.
//!
//! Sign-in has three steps, since hashing takes long. [`Throttle::begin`](crate::Throttle::begin)
//! counts the attempt, [`Accounts::attempt`] returns the hash to compare with, and
//! [`Accounts::settle`] returns the verdict. Invariant: the response takes equally long for an
//! unknown name, a locked account and a wrong password.

use crate::{Admission, Hash, Password, Role};
use controller::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The limit of accounts.
const MOST: usize = 64;

/// The longest name.
pub(crate) const LONGEST_NAME: usize = 32;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Account {
    role: Role,
    enabled: bool,
    must_change: bool,
    password: Hash,
}

/// The public data of an account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccountInfo {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Whether the password must be changed first.
    pub must_change: bool,
    /// The remaining seconds of its longest lock after wrong passwords.
    pub locked_s: Option<u64>,
    /// The sources it is locked for, longest lock first. Other sources can sign in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locked_from: Vec<String>,
}

/// Changes of an account.
#[derive(Clone, Default, Debug)]
pub struct AccountChange {
    /// The new name.
    pub name: Option<String>,
    /// The new role.
    pub role: Option<Role>,
    /// Whether it is enabled.
    pub enabled: Option<bool>,
    /// The hash of the new password.
    pub password: Option<Hash>,
    /// Whether that password must be changed.
    pub must_change: Option<bool>,
    /// Whether its locks are removed, by [`Throttle::unlock`](crate::Throttle::unlock).
    pub unlock: bool,
}

/// The start of an attempt to sign in.
#[derive(Debug)]
pub struct Attempt {
    /// The hash to compare with. For an unknown name, a hash that no password matches.
    against: Hash,
    admission: Admission,
}

/// The result of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The password is correct.
    Is(AccountInfo),
    /// The name or the password is wrong, or the account is disabled.
    Wrong,
    /// As `Wrong`, and the account is now locked for the source.
    NowLocked,
}

/// The accounts.
#[derive(Clone, Debug)]
pub struct Accounts {
    by_name: BTreeMap<String, Account>,
    /// The hash for attempts with an unknown name.
    decoy: Hash,
}

/// The stored form of the accounts.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptAccounts {
    version: u32,
    accounts: BTreeMap<String, Account>,
}

const VERSION: u32 = 1;

impl Accounts {
    /// No accounts. `decoy`: a hash of random data.
    pub fn none(decoy: Hash) -> Accounts {
        Accounts { by_name: BTreeMap::new(), decoy }
    }

    /// Loads stored accounts.
    ///
    /// # Errors
    /// When another version stored them. The error is a clause that completes a message.
    pub fn with(&self, kept: KeptAccounts) -> std::result::Result<Accounts, String> {
        if kept.version != VERSION {
            return Err(format!("they are of version {}, not {VERSION}", kept.version));
        }
        Ok(Accounts { by_name: kept.accounts, ..self.clone() })
    }

    /// The accounts in their stored form.
    pub fn to_keep(&self) -> KeptAccounts {
        KeptAccounts { version: VERSION, accounts: self.by_name.clone() }
    }

    /// Whether there is no account.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// All accounts, by name.
    pub fn list(&self) -> Vec<AccountInfo> {
        self.by_name.iter().map(|(name, account)| info(name, account)).collect()
    }

    /// Returns an account.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn show(&self, name: &str) -> Result<AccountInfo> {
        self.by_name.get(name).map(|account| info(name, account)).ok_or_else(|| missing(name))
    }

    /// Adds an account.
    ///
    /// # Errors
    /// For a used or invalid name, or too many accounts.
    pub fn add(&mut self, name: &str, role: Role, password: Hash, must_change: bool) -> Result<()> {
        self.check_name(name)?;
        if self.by_name.len() >= MOST {
            let sentence = format!(
                "there are {MOST} accounts already; remove one with 'softroc account remove NAME'"
            );
            return Err(Error::new(ErrorKind::OutOfSpace, sentence));
        }
        let account = Account { role, enabled: true, must_change, password };
        self.by_name.insert(name.to_owned(), account);
        Ok(())
    }

    /// Changes an account.
    ///
    /// # Errors
    /// For an unknown account, an invalid new name, or a change that leaves no administrator.
    pub fn set(&mut self, name: &str, change: AccountChange) -> Result<()> {
        let account = self.by_name.get(name).ok_or_else(|| missing(name))?;
        let mut account = account.clone();
        account.role = change.role.unwrap_or(account.role);
        account.enabled = change.enabled.unwrap_or(account.enabled);
        account.must_change = change.must_change.unwrap_or(account.must_change);
        if let Some(password) = change.password {
            account.password = password;
        }
        if !(account.enabled && account.role == Role::Administrator) {
            self.keep_an_administrator(name)?;
        }
        let new_name = change.name.unwrap_or_else(|| name.to_owned());
        if new_name != name {
            self.check_name(&new_name)?;
            self.by_name.remove(name);
        }
        self.by_name.insert(new_name, account);
        Ok(())
    }

    /// Removes an account.
    ///
    /// # Errors
    /// For an unknown account, or the last administrator.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.show(name)?;
        self.keep_an_administrator(name)?;
        self.by_name.remove(name);
        Ok(())
    }

    /// The password hash of an account.
    pub fn password(&self, name: &str) -> Option<Hash> {
        self.by_name.get(name).map(|account| account.password.clone())
    }

    /// Starts an admitted attempt to sign in as `name`.
    pub fn attempt(&self, name: &str, admission: Admission) -> Attempt {
        let account = self.by_name.get(name);
        let against = account.map_or(&self.decoy, |account| &account.password).clone();
        Attempt { against, admission }
    }

    /// The verdict of an attempt, given whether the password fits.
    pub fn settle(&self, name: &str, attempt: &Attempt, fits: bool) -> Verdict {
        let Some(account) = self.by_name.get(name) else { return Verdict::Wrong };
        if fits {
            return if account.enabled { Verdict::Is(info(name, account)) } else { Verdict::Wrong };
        }
        let locks = attempt.admission == Admission::Counts { is_last: true };
        if locks { Verdict::NowLocked } else { Verdict::Wrong }
    }

    fn check_name(&self, name: &str) -> Result<()> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !begins || !name.chars().all(is_letter) || name.len() > LONGEST_NAME {
            let sentence = format!(
                "'{name}' is not a valid account name; use at most {LONGEST_NAME} letters, digits, \
                    '-', '_' and '.'"
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        match self.by_name.contains_key(name) {
            true => {
                let sentence =
                    format!("account '{name}' exists already; see 'softroc account list'");
                Err(Error::new(ErrorKind::NameTaken, sentence))
            }
            false => Ok(()),
        }
    }

    /// Fails if `but` is the only administrator.
    fn keep_an_administrator(&self, but: &str) -> Result<()> {
        let is = |account: &Account| account.enabled && account.role == Role::Administrator;
        let is_one = self.by_name.get(but).is_some_and(is);
        if is_one && !self.by_name.iter().any(|(name, account)| name != but && is(account)) {
            let sentence = format!(
                "'{but}' is the last administrator; add another one first with 'softroc account \
                    add NAME --role administrator'"
            );
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        Ok(())
    }
}

fn info(name: &str, account: &Account) -> AccountInfo {
    AccountInfo {
        name: name.to_owned(),
        role: account.role,
        enabled: account.enabled,
        must_change: account.must_change,
        locked_s: None,
        locked_from: Vec::new(),
    }
}

fn missing(name: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("there is no account '{name}'; see 'softroc account list'"),
    )
}

impl Attempt {
    /// Whether the password is correct. It is always hashed, so that the response time reveals
    /// neither which names exist nor which are locked.
    ///
    /// # Errors
    /// When hashing fails.
    pub fn fits(&self, password: &Password) -> Result<bool> {
        let fits = self.against.is_of(password)?;
        Ok(fits && self.admission != Admission::Locked)
    }
}
