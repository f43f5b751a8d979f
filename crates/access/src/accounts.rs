//! Accounts: names, roles, and what is kept of passwords.
//!
//! A password is checked in two steps, since hashing takes long: [`Accounts::attempt`] says which hash it has to fit, and
//! [`Accounts::settle`] what follows. Before it, [`Throttle::begin`](crate::Throttle::begin) counts the attempt. The answer takes
//! as long for a name that is no account, and for an account that is locked, as for a wrong password.

use crate::{Admission, Hash, Password, Role};
use controller::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Accounts there may be.
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
    /// For how many seconds it is still locked after wrong passwords: the longest of its locks.
    pub locked_s: Option<u64>,
    /// The sources for which it is locked, the longest lock first. Others can sign in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locked_from: Vec<String>,
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
    /// Its locks are lifted: [`Throttle::unlock`](crate::Throttle::unlock) does that.
    pub unlock: bool,
}

/// The start of an attempt to sign in.
#[derive(Debug)]
pub struct Attempt {
    /// What the password has to fit. Of a name that is no account, a hash that nothing fits.
    against: Hash,
    admission: Admission,
}

/// How an attempt ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is this account.
    Is(AccountInfo),
    /// The name or the password is wrong, or the account may not be used.
    Wrong,
    /// So it is, and the account is now locked for the source.
    NowLocked,
}

/// The accounts.
#[derive(Clone, Debug)]
pub struct Accounts {
    by_name: BTreeMap<String, Account>,
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
    pub fn none(nobody: Hash) -> Accounts {
        Accounts { by_name: BTreeMap::new(), nobody }
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// All of them, by name.
    pub fn list(&self) -> Vec<AccountInfo> {
        self.by_name.iter().map(|(name, account)| info(name, account)).collect()
    }

    /// One.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn show(&self, name: &str) -> Result<AccountInfo> {
        self.by_name.get(name).map(|account| info(name, account)).ok_or_else(|| missing(name))
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
        let account = Account { role, enabled: true, must_change, password };
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
        self.show(name)?;
        self.keep_an_administrator(name)?;
        self.by_name.remove(name);
        Ok(())
    }

    /// What is kept of an account's password.
    pub fn password(&self, name: &str) -> Option<Hash> {
        self.by_name.get(name).map(|account| account.password.clone())
    }

    /// An attempt to sign in as `name`, which was admitted.
    pub fn attempt(&self, name: &str, admission: Admission) -> Attempt {
        let account = self.by_name.get(name);
        let against = account.map_or(&self.nobody, |account| &account.password).clone();
        Attempt { against, admission }
    }

    /// The password of an attempt fits, or not.
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
    Error::new(ErrorKind::NotFound, format!("there is no account '{name}'; see 'softroc account list'"))
}

impl Attempt {
    /// Whether the password is right. It is hashed in any case, so that the time tells neither which names there are nor which are
    /// locked.
    ///
    /// # Errors
    /// Those of hashing.
    pub fn fits(&self, password: &Password) -> Result<bool> {
        let fits = self.against.is_of(password)?;
        Ok(fits && self.admission != Admission::Locked)
    }
}
