//! Accounts: names, roles, what is kept of passwords, and what locks an account.
//!
//! A password is checked in two steps, since hashing takes long: [`Accounts::attempt`] says which hash it has to fit and counts
//! the attempt as a failure already, so that many at once do not get more tries than one after the other;
//! [`Accounts::settle`] takes that back if it was right.

use crate::{Hash, Password, Role};
use controller::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Accounts there may be.
const MOST: usize = 64;

/// The longest name.
const LONGEST_NAME: usize = 32;

/// When an account is locked, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Wrong passwords in a row that lock it.
    pub failures: u32,
    /// For so long.
    pub lock_s: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { failures: 5, lock_s: 300 }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Account {
    role: Role,
    enabled: bool,
    must_change: bool,
    password: Hash,
    /// Counts what is forgotten at a restart.
    #[serde(skip)]
    failures: Failures,
}

#[derive(Clone, Copy, Default, Debug)]
struct Failures {
    in_a_row: u32,
    locked_until_s: u64,
}

/// What is told of an account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccountInfo {
    /// Its name.
    pub name: String,
    /// What it may.
    pub role: Role,
    /// Whether it can be used.
    pub enabled: bool,
    /// Its password has to be changed before anything else.
    pub must_change: bool,
    /// For how long it is locked still, after wrong passwords.
    pub locked_s: Option<u64>,
}

/// What is to be changed of an account.
#[derive(Clone, Default, Debug)]
pub struct AccountChange {
    /// Another name.
    pub name: Option<String>,
    /// Another role.
    pub role: Option<Role>,
    /// Whether it can be used.
    pub enabled: Option<bool>,
    /// What is kept of another password.
    pub password: Option<Hash>,
    /// Whether that password has to be changed.
    pub must_change: Option<bool>,
    /// A lock is lifted.
    pub unlock: bool,
}

/// The start of an attempt to sign in.
#[derive(Debug)]
pub enum Attempt {
    /// The password has to fit this. (Where there is no such account it fits nothing, and takes as long.)
    Against(Hash),
    /// Whatever the password: not for so many seconds.
    Locked(u64),
}

/// How an attempt ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is this account.
    Is(AccountInfo),
    /// The name or the password is wrong, or the account may not be used.
    Wrong,
    /// So it is, and the account is locked by that.
    NowLocked,
}

/// The accounts. Times are seconds of a clock that never goes back.
#[derive(Clone, Debug)]
pub struct Accounts {
    by_name: BTreeMap<String, Account>,
    limits: Limits,
    /// What an attempt under a name that there is not has to fit.
    nobody: Hash,
}

/// Accounts as they are kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptAccounts {
    version: u32,
    accounts: BTreeMap<String, Account>,
}

const VERSION: u32 = 1;

impl Accounts {
    /// None yet. `nobody`: a hash of something random.
    pub fn none(limits: Limits, nobody: Hash) -> Accounts {
        Accounts { by_name: BTreeMap::new(), limits, nobody }
    }

    /// The same with the accounts that were kept.
    ///
    /// # Errors
    /// When another version of SoftROC kept them: the end of a sentence.
    pub fn with(&self, kept: KeptAccounts) -> std::result::Result<Accounts, String> {
        if kept.version != VERSION {
            return Err(format!("they are of version {}, not {VERSION}", kept.version));
        }
        Ok(Accounts { by_name: kept.accounts, ..self.clone() })
    }

    /// What is to be kept.
    pub fn to_keep(&self) -> KeptAccounts {
        KeptAccounts { version: VERSION, accounts: self.by_name.clone() }
    }

    /// When accounts are locked.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// All of them, by name.
    pub fn list(&self, now_s: u64) -> Vec<AccountInfo> {
        self.by_name.iter().map(|(name, account)| info(name, account, now_s)).collect()
    }

    /// One.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn show(&self, name: &str, now_s: u64) -> Result<AccountInfo> {
        self.by_name.get(name).map(|account| info(name, account, now_s)).ok_or_else(|| missing(name))
    }

    /// Makes one.
    ///
    /// # Errors
    /// When the name is taken or cannot be one, or there are too many.
    pub fn add(&mut self, name: &str, role: Role, password: Hash, must_change: bool) -> Result<()> {
        self.check_name(name)?;
        if self.by_name.len() >= MOST {
            let sentence =
                format!("there are {MOST} accounts already; remove one with 'softroc account remove NAME'");
            return Err(Error::new(ErrorKind::OutOfSpace, sentence));
        }
        let account = Account { role, enabled: true, must_change, password, failures: Failures::default() };
        self.by_name.insert(name.to_owned(), account);
        Ok(())
    }

    /// Changes one.
    ///
    /// # Errors
    /// When there is none, the other name cannot be, or nobody would be an administrator any more.
    pub fn set(&mut self, name: &str, change: AccountChange) -> Result<()> {
        let account = self.by_name.get(name).ok_or_else(|| missing(name))?;
        let mut account = account.clone();
        account.role = change.role.unwrap_or(account.role);
        account.enabled = change.enabled.unwrap_or(account.enabled);
        account.must_change = change.must_change.unwrap_or(account.must_change);
        if let Some(password) = change.password {
            account.password = password;
        }
        if change.unlock {
            account.failures = Failures::default();
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

    /// Removes one.
    ///
    /// # Errors
    /// When there is none, or it is the last administrator.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.show(name, 0)?;
        self.keep_an_administrator(name)?;
        self.by_name.remove(name);
        Ok(())
    }

    /// What is kept of an account's password.
    pub fn password(&self, name: &str) -> Option<Hash> {
        self.by_name.get(name).map(|account| account.password.clone())
    }

    /// Somebody says that they are `name`.
    pub fn attempt(&mut self, name: &str, now_s: u64) -> Attempt {
        let Some(account) = self.by_name.get_mut(name) else {
            return Attempt::Against(self.nobody.clone());
        };
        let failures = &mut account.failures;
        if now_s < failures.locked_until_s {
            return Attempt::Locked(failures.locked_until_s - now_s);
        }
        if failures.locked_until_s > 0 {
            *failures = Failures::default();
        }
        failures.in_a_row += 1;
        if failures.in_a_row >= self.limits.failures {
            failures.locked_until_s = now_s + self.limits.lock_s;
        }
        Attempt::Against(account.password.clone())
    }

    /// The password of an attempt was right, or not.
    pub fn settle(&mut self, name: &str, fits: bool, now_s: u64) -> Verdict {
        let Some(account) = self.by_name.get_mut(name) else { return Verdict::Wrong };
        if fits {
            account.failures = Failures::default();
            return if account.enabled { Verdict::Is(info(name, account, now_s)) } else { Verdict::Wrong };
        }
        let is_last = account.failures.in_a_row == self.limits.failures;
        if is_last { Verdict::NowLocked } else { Verdict::Wrong }
    }

    fn check_name(&self, name: &str) -> Result<()> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if !begins || !name.chars().all(is_letter) || name.len() > LONGEST_NAME {
            let sentence = format!(
                "'{name}' cannot be the name of an account; it has at most {LONGEST_NAME} letters, digits, '-', '_' and '.'"
            );
            return Err(Error::new(ErrorKind::Invalid, sentence));
        }
        match self.by_name.contains_key(name) {
            true => {
                let sentence = format!("there is an account '{name}' already; see 'softroc account list'");
                Err(Error::new(ErrorKind::NameTaken, sentence))
            }
            false => Ok(()),
        }
    }

    /// Somebody else than `but` is an administrator, or `but` is none.
    fn keep_an_administrator(&self, but: &str) -> Result<()> {
        let is = |account: &Account| account.enabled && account.role == Role::Administrator;
        let is_one = self.by_name.get(but).is_some_and(is);
        if is_one && !self.by_name.iter().any(|(name, account)| name != but && is(account)) {
            let sentence = format!(
                "'{but}' is the last administrator; make another one first with 'softroc account add NAME --role administrator'"
            );
            return Err(Error::new(ErrorKind::WrongState, sentence));
        }
        Ok(())
    }
}

fn info(name: &str, account: &Account, now_s: u64) -> AccountInfo {
    let left = account.failures.locked_until_s.saturating_sub(now_s);
    AccountInfo {
        name: name.to_owned(),
        role: account.role,
        enabled: account.enabled,
        must_change: account.must_change,
        locked_s: (left > 0).then_some(left),
    }
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no account '{name}'; see 'softroc account list'"))
}

impl Attempt {
    /// Whether the password fits; `None` if that is not looked at. It takes long.
    ///
    /// # Errors
    /// Those of hashing.
    pub fn fits(&self, password: &Password) -> Result<Option<bool>> {
        match self {
            Attempt::Against(hash) => hash.is_of(password).map(Some),
            Attempt::Locked(_) => Ok(None),
        }
    }
}
