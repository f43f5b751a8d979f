//! Who guesses passwords, at a clock that the test moves.

use access::{AccountChange, Accounts, Attempt, Cost, Hash, Limits, Password, Role, Verdict};

const CHEAP: Cost = Cost { memory_kib: 8, passes: 1 };

fn hash(text: &str) -> Hash {
    Hash::of(&Password::new(text), [7; 16], CHEAP).expect("it is hashed")
}

fn accounts() -> Accounts {
    let mut accounts = Accounts::none(Limits::default(), hash("nobody"));
    accounts.add("ada", Role::Administrator, hash("right one"), false).expect("a first account");
    accounts
}

/// An attempt, and whether the password was looked at.
fn sign_in(accounts: &mut Accounts, name: &str, password: &str, now_s: u64) -> (Verdict, bool) {
    match accounts.attempt(name, now_s).fits(&Password::new(password)).expect("it is hashed") {
        Some(fits) => (accounts.settle(name, fits, now_s), true),
        None => (Verdict::Wrong, false),
    }
}

#[test]
fn of_a_thousand_wrong_passwords_few_are_tried_and_the_right_one_is_kept_waiting() {
    let mut accounts = accounts();
    let Limits { failures, lock_s } = accounts.limits();
    let (mut tried, mut locks) = (0, 0);
    for number in 0..1000 {
        let (verdict, was_tried) = sign_in(&mut accounts, "ada", &format!("guess {number}"), number);
        tried += u64::from(was_tried);
        locks += u64::from(verdict == Verdict::NowLocked);
        assert!(!matches!(verdict, Verdict::Is(_)));
    }
    // One a second: so many, then a lock, over and over.
    let round = u64::from(failures) - 1 + lock_s;
    assert_eq!(locks, 1000 / round + u64::from(1000 % round >= u64::from(failures)));
    assert!(tried <= (1000 / round + 1) * u64::from(failures), "{tried}");
    let Attempt::Locked(left) = accounts.attempt("ada", 999) else { panic!("it is locked") };
    let (verdict, was_tried) = sign_in(&mut accounts, "ada", "right one", 999 + left - 1);
    assert!(verdict == Verdict::Wrong && !was_tried, "the right one waits, too");
    let (verdict, _) = sign_in(&mut accounts, "ada", "right one", 999 + left);
    assert!(matches!(verdict, Verdict::Is(info) if info.name == "ada" && info.locked_s.is_none()));
}

#[test]
fn attempts_at_once_get_no_more_tries_than_one_after_the_other() {
    let mut accounts = accounts();
    let tried = (0..100).filter(|_| matches!(accounts.attempt("ada", 10), Attempt::Against(_))).count();
    assert_eq!(tried, accounts.limits().failures as usize);
    assert!(accounts.show("ada", 10).unwrap().locked_s.is_some());
    accounts.set("ada", AccountChange { unlock: true, ..AccountChange::default() }).unwrap();
    assert!(matches!(sign_in(&mut accounts, "ada", "right one", 11).0, Verdict::Is(_)));
}

#[test]
fn a_right_password_forgets_the_wrong_ones_before_it() {
    let mut accounts = accounts();
    for round in 0..10 {
        for _ in 1..accounts.limits().failures {
            assert_eq!(sign_in(&mut accounts, "ada", "wrong one", round).0, Verdict::Wrong);
        }
        assert!(matches!(sign_in(&mut accounts, "ada", "right one", round).0, Verdict::Is(_)));
    }
}

#[test]
fn a_name_that_there_is_not_is_no_different_and_locks_nothing() {
    let mut accounts = accounts();
    for _ in 0..20 {
        assert_eq!(sign_in(&mut accounts, "eve", "nobody", 0), (Verdict::Wrong, true));
    }
    assert!(matches!(sign_in(&mut accounts, "ada", "right one", 0).0, Verdict::Is(_)));
}

#[test]
fn the_last_administrator_stays_one() {
    let mut accounts = accounts();
    accounts.add("grace", Role::Operator, hash("hopper hopper"), true).unwrap();
    let disable = || AccountChange { enabled: Some(false), ..AccountChange::default() };
    let role = |role| AccountChange { role: Some(role), ..AccountChange::default() };
    assert!(accounts.remove("ada").is_err());
    assert!(accounts.set("ada", disable()).is_err());
    assert!(accounts.set("ada", role(Role::ReadOnly)).is_err());
    accounts.set("grace", role(Role::Administrator)).unwrap();
    accounts.set("ada", disable()).unwrap();
    assert_eq!(sign_in(&mut accounts, "ada", "right one", 0).0, Verdict::Wrong, "it may not be used");
    assert!(accounts.remove("grace").is_err());
    accounts.remove("ada").unwrap();
}

#[test]
fn what_is_kept_is_read_again_and_tells_no_password() {
    let mut accounts = accounts();
    accounts.add("grace", Role::Operator, hash("hopper hopper"), true).unwrap();
    let rename = AccountChange { name: Some("murray".to_owned()), ..AccountChange::default() };
    accounts.set("grace", rename).unwrap();
    let kept = serde_json::to_string(&accounts.to_keep()).unwrap();
    assert!(!kept.contains("right one"));
    let none = Accounts::none(Limits::default(), hash("nobody"));
    let mut again = none.with(serde_json::from_str(&kept).unwrap()).unwrap();
    assert_eq!(again.list(0), accounts.list(0));
    assert!(
        matches!(sign_in(&mut again, "murray", "hopper hopper", 0).0, Verdict::Is(info) if info.must_change)
    );
    let later = serde_json::from_str("{\"version\": 2, \"accounts\": {}}").unwrap();
    assert!(none.with(later).is_err());
    for name in ["", "-ada", "a b", "a/b", "é", &"a".repeat(33), "ada"] {
        assert!(again.add(name, Role::ReadOnly, hash("anything at all"), false).is_err(), "{name}");
    }
}
