//! Guessed passwords, in virtual time.

use access::{
    AccountChange, Accounts, Admission, Cost, Hash, Limits, MOST_NAMES, MOST_SOURCES, Password,
    Role, Source, Throttle, Verdict,
};
use std::net::Ipv4Addr;

const CHEAP: Cost = Cost { memory_kib: 8, passes: 1 };

const HERE: Source = Source::V4(Ipv4Addr::new(10, 0, 0, 1));
const THERE: Source = Source::V4(Ipv4Addr::new(10, 0, 0, 2));

fn source(number: u32) -> Source {
    Source::V4(Ipv4Addr::from_bits(number))
}

fn hash(text: &str) -> Hash {
    Hash::of(&Password::new(text), [7; 16], CHEAP).expect("it is hashed")
}

fn accounts() -> Accounts {
    let mut accounts = Accounts::none(hash("nobody"));
    accounts.add("ada", Role::Administrator, hash("right one"), false).expect("a first account");
    accounts
}

/// Accounts with limits on wrong passwords.
struct Gate {
    accounts: Accounts,
    throttle: Throttle,
}

fn gate() -> Gate {
    Gate { accounts: accounts(), throttle: Throttle::new(Limits::default()) }
}

impl Gate {
    /// An attempt: its verdict, or the seconds that its source has to wait.
    fn sign_in(
        &mut self,
        from: Source,
        name: &str,
        password: &str,
        now_s: u64,
    ) -> Result<Verdict, u64> {
        let admission = self.throttle.begin(from, name, now_s)?;
        let attempt = self.accounts.attempt(name, admission);
        let fits = attempt.fits(&Password::new(password)).expect("it is hashed");
        let verdict = self.accounts.settle(name, &attempt, fits);
        if fits {
            self.throttle.was_right(from, name, now_s);
        }
        Ok(verdict)
    }

    fn signs_in(&mut self, from: Source, now_s: u64) -> bool {
        let verdict = self.sign_in(from, "ada", "right one", now_s);
        matches!(verdict, Ok(Verdict::Is(info)) if info.name == "ada")
    }
}

#[test]
fn a_lock_holds_for_its_source_alone_and_ends() {
    let mut gate = gate();
    let Limits { failures, lock_s, .. } = gate.throttle.limits();
    for number in 1..failures {
        assert_eq!(gate.sign_in(HERE, "ada", &format!("guess {number}"), 0), Ok(Verdict::Wrong));
    }
    assert_eq!(gate.sign_in(HERE, "ada", "the last guess", 0), Ok(Verdict::NowLocked));
    assert_eq!(
        gate.sign_in(HERE, "ada", "one more", 1),
        Ok(Verdict::Wrong),
        "locking is reported once"
    );
    assert_eq!(gate.throttle.locks("ada", 1), [(HERE, lock_s - 1)]);
    assert!(gate.throttle.is_held(HERE, "ada", 1) && !gate.throttle.is_held(HERE, "eve", 1));
    assert!(!gate.throttle.is_held(THERE, "ada", 1) && !gate.throttle.is_held(HERE, "ada", lock_s));
    assert!(!gate.signs_in(HERE, lock_s - 1), "a lock rejects the correct password");
    assert!(gate.signs_in(THERE, 1), "another source is not locked");
    assert!(gate.signs_in(HERE, lock_s));
    assert!(gate.throttle.locks("ada", lock_s).is_empty());
}

#[test]
fn guesses_for_a_whole_day_lock_nobody_else_out_and_few_of_them_are_looked_at() {
    let mut gate = gate();
    let limits = gate.throttle.limits();
    let (mut hashed, mut waits, mut locks) = (0, 0, 0);
    for now_s in 0..86_400 {
        match gate.throttle.begin(HERE, "ada", now_s) {
            Ok(Admission::Counts { is_last }) => {
                hashed += 1;
                locks += u64::from(is_last);
            }
            Ok(Admission::Locked) => hashed += 1,
            Err(wait_s) => {
                assert!((1..=limits.source_interval_s).contains(&wait_s), "{wait_s}");
                waits += 1;
            }
        }
        if now_s % 3600 == 0 {
            assert!(gate.signs_in(THERE, now_s), "at {now_s} s");
        }
    }
    let most = u64::from(limits.source_failures) + 86_400 / limits.source_interval_s;
    assert!(hashed <= most && waits >= 86_400 - most, "{hashed} of at most {most}");
    assert!(locks <= 86_400 / limits.lock_s + 1, "{locks}");
    // After the last lock, the source can sign in.
    let last = gate.throttle.locks("ada", 86_400).first().map_or(0, |(_, left)| *left);
    assert!(gate.signs_in(HERE, 86_400 + last + limits.source_interval_s));
}

#[test]
fn attempts_at_once_get_no_more_tries_than_one_after_the_other() {
    let mut gate = gate();
    let begun: Vec<_> = (0..20).map(|_| gate.throttle.begin(HERE, "ada", 10)).collect();
    let counts =
        |which: fn(&Admission) -> bool| begun.iter().flatten().filter(|one| which(one)).count();
    let failures = gate.throttle.limits().failures as usize;
    assert_eq!(counts(|one| matches!(one, Admission::Counts { .. })), failures);
    assert_eq!(
        counts(|one| matches!(one, Admission::Counts { is_last: true })),
        1,
        "locking is reported once"
    );
    assert_eq!(counts(|one| matches!(one, Admission::Locked)), 20 - failures);
    gate.throttle.unlock("ada");
    assert!(gate.throttle.locks("ada", 10).is_empty() && gate.signs_in(HERE, 11));
}

#[test]
fn a_source_that_guesses_at_many_names_waits_and_an_unlock_lets_it_try_again() {
    let mut gate = gate();
    let most = gate.throttle.limits().source_failures;
    for number in 0..most - 1 {
        assert_eq!(gate.sign_in(HERE, &format!("name-{number}"), "guess", 0), Ok(Verdict::Wrong));
    }
    assert_eq!(gate.sign_in(HERE, "ada", "guess", 0), Ok(Verdict::Wrong));
    assert_eq!(
        gate.sign_in(HERE, "ada", "right one", 1),
        Err(9),
        "the limit rejects without a check"
    );
    assert!(gate.throttle.is_held(HERE, "eve", 1) && !gate.throttle.is_held(HERE, "eve", 10));
    assert!(gate.signs_in(THERE, 1));
    assert!(gate.signs_in(HERE, 10), "one attempt per interval");
    assert!(gate.signs_in(HERE, 10), "a correct password does not count");
    gate.sign_in(HERE, "eve", "guess", 10).expect("one was left");
    gate.sign_in(HERE, "eve", "guess", 11).expect_err("none is left");
    assert!(gate.signs_in(HERE, 11), "an account that signed in from there is exempt");
    gate.sign_in(HERE, "eve", "guess", 12).expect_err("and gives the others nothing");
    gate.throttle.unlock("eve");
    gate.sign_in(HERE, "eve", "guess", 12).expect("it may try again");
}

#[test]
fn a_right_password_forgets_the_wrong_ones_before_it() {
    let mut gate = gate();
    for round in 0..6 {
        for _ in 1..gate.throttle.limits().failures {
            assert_eq!(gate.sign_in(HERE, "ada", "wrong one", round * 100), Ok(Verdict::Wrong));
        }
        assert!(gate.signs_in(HERE, round * 100));
    }
    assert!(gate.throttle.is_known(HERE, 1000) && !gate.throttle.is_known(THERE, 1000));
}

/// A hash that cannot be computed: a failing attempt proves that the password was hashed, without a
/// clock.
fn broken() -> Hash {
    let kept = serde_json::json!({"memory_kib": 1, "passes": 1, "salt": "00", "argon2id": "00"});
    serde_json::from_value(kept).expect("a hash")
}

/// Regression: the response for a locked account was immediate, which revealed that the account
/// exists.
#[test]
fn a_password_is_hashed_for_names_there_are_not_and_for_locked_accounts_too() {
    let mut unknown = Accounts::none(broken());
    unknown.add("ada", Role::Administrator, hash("right one"), false).expect("a first account");
    let mut known = Accounts::none(hash("nobody"));
    known.add("ada", Role::Administrator, broken(), false).expect("a first account");
    let password = Password::new("right one");
    for admission in [Admission::Counts { is_last: false }, Admission::Locked] {
        unknown.attempt("eve", admission).fits(&password).expect_err("a name that is no account");
        known.attempt("ada", admission).fits(&password).expect_err("an account");
        assert!(!known.attempt("eve", admission).fits(&password).expect("it is hashed"));
    }
    let locked = unknown.attempt("ada", Admission::Locked);
    assert!(!locked.fits(&password).expect("it is hashed"), "a lock rejects the correct password");
}

#[test]
fn a_name_that_there_is_not_counts_as_an_account_does() {
    let mut throttle = Throttle::new(Limits::default());
    for now_s in 0..400 {
        let [ada, eve] =
            [(HERE, "ada"), (THERE, "eve")].map(|(from, name)| throttle.begin(from, name, now_s));
        assert_eq!(ada, eve, "at {now_s} s");
    }
}

/// Sources and names are free to forge: the memory for them is bounded.
#[test]
fn what_is_remembered_is_bounded_and_sources_that_signed_in_stay_longest() {
    let mut gate = gate();
    assert!(gate.signs_in(HERE, 0));
    for number in 0..20_000 {
        let name = format!("name-{number}{}", "x".repeat(number as usize % 64));
        let _ = gate.throttle.begin(
            source(0xC000_0000 + number % 5_000),
            &name,
            u64::from(number) / 20,
        );
    }
    let (sources, names) = gate.throttle.remembered();
    assert_eq!(sources, MOST_SOURCES);
    assert!(names <= MOST_SOURCES * MOST_NAMES, "{names}");
    assert!(gate.throttle.is_known(HERE, 1000), "a known source is kept");
    for number in 0..1000_u32 {
        let _ = gate.throttle.begin(THERE, &format!("name-{number}"), u64::from(number) * 10);
    }
    assert!(gate.throttle.remembered().1 <= names + MOST_NAMES);
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
    let right = accounts.attempt("ada", Admission::Counts { is_last: false });
    assert!(right.fits(&Password::new("right one")).expect("it is hashed"));
    assert_eq!(accounts.settle("ada", &right, true), Verdict::Wrong, "the account is disabled");
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
    let none = Accounts::none(hash("nobody"));
    let mut again = none.with(serde_json::from_str(&kept).unwrap()).unwrap();
    assert_eq!(again.list(), accounts.list());
    let murray = again.attempt("murray", Admission::Counts { is_last: true });
    let fits = murray.fits(&Password::new("hopper hopper")).expect("it is hashed");
    assert!(matches!(again.settle("murray", &murray, fits), Verdict::Is(info) if info.must_change));
    let later = serde_json::from_str("{\"version\": 2, \"accounts\": {}}").unwrap();
    assert!(none.with(later).is_err());
    for name in ["", "-ada", "a b", "a/b", "é", &"a".repeat(33), "ada"] {
        assert!(again.add(name, Role::ReadOnly, hash("anything at all"), false).is_err(), "{name}");
    }
}
