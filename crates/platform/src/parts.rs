//! Fair shares of a bounded resource: no user blocks another.
//!
//! A user with stuck requests (a volume with a drive that does not respond) returns nothing. So
//! every [member](Parts::join) has a reserved share: half of an equal share. The rest is first
//! come, first served.

/// A bounded resource and its users, which have small numbers.
#[derive(Default, Debug)]
pub struct Parts {
    total: u64,
    free: u64,
    users: Vec<Part>,
    members: u64,
    /// The total of the reserved shares that is not in use.
    kept: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Part {
    is_member: bool,
    held: u64,
}

impl Parts {
    /// A resource of `total`, all free.
    pub fn new(total: u64) -> Parts {
        Parts { total, free: total, ..Parts::default() }
    }

    /// The total.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The free amount.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Adds to the total.
    pub fn grow(&mut self, more: u64) {
        self.total += more;
        self.free += more;
        self.count_kept();
    }

    /// Removes an amount, which `user` holds, from the total.
    pub fn shrink(&mut self, user: u32, less: u64) {
        self.give(user, less);
        self.total -= less;
        self.free -= less;
        self.count_kept();
    }

    /// Reserves a share for a user.
    pub fn join(&mut self, user: u32) {
        self.part_mut(user).is_member = true;
        self.count_kept();
    }

    /// Ends a user's reservation. The user still returns its holding.
    pub fn leave(&mut self, user: u32) {
        self.part_mut(user).is_member = false;
        self.count_kept();
    }

    /// The amount that a user holds.
    pub fn held(&self, user: u32) -> u64 {
        self.part(user).held
    }

    /// The maximum that a user may hold now: its holding, and the free amount that is not reserved
    /// for others.
    pub fn within_reach(&self, user: u32) -> u64 {
        self.held(user) + self.free.saturating_sub(self.kept_for_others(user))
    }

    /// Whether a user may take `count`: within its reserved share, or without touching those of
    /// others. A user that holds nothing may take an amount that the reserved shares of others
    /// always exclude.
    pub fn may_take(&self, user: u32, count: u64) -> bool {
        let held = self.held(user);
        let is_own = self.is_own(user, count);
        let others = self.members - u64::from(self.is_member(user));
        let is_too_large = held == 0 && count > self.total - others * self.least();
        let left = self.free.checked_sub(count);
        left.is_some_and(|left| is_own || is_too_large || left >= self.kept_for_others(user))
    }

    /// Whether `count` more is within the user's reserved share.
    pub fn is_own(&self, user: u32, count: u64) -> bool {
        self.is_member(user) && self.held(user) + count <= self.least()
    }

    /// Whether a user with `count` more stays within an equal share.
    pub fn is_modest(&self, user: u32, count: u64) -> bool {
        let held = self.held(user);
        held == 0 || held + count <= self.total / self.members.max(1)
    }

    /// Takes `count` for a user.
    ///
    /// # Panics
    /// If less is free.
    pub fn take(&mut self, user: u32, count: u64) {
        assert!(count <= self.free, "{count} of {} that are free", self.free);
        self.free -= count;
        self.change(user, |held| held + count);
    }

    /// Returns `count` of a user.
    ///
    /// # Panics
    /// If the user holds less.
    pub fn give(&mut self, user: u32, count: u64) {
        self.free += count;
        self.change(user, |held| held.checked_sub(count).expect("more than the user holds"));
    }

    fn change(&mut self, user: u32, change: impl FnOnce(u64) -> u64) {
        let least = self.least();
        let part = self.part_mut(user);
        let before = part.left(least);
        part.held = change(part.held);
        let after = part.left(least);
        self.kept = self.kept - before + after;
    }

    fn is_member(&self, user: u32) -> bool {
        self.part(user).is_member
    }

    fn part(&self, user: u32) -> Part {
        self.users.get(user as usize).copied().unwrap_or_default()
    }

    fn part_mut(&mut self, user: u32) -> &mut Part {
        let place = user as usize;
        if place >= self.users.len() {
            self.users.resize(place + 1, Part::default());
        }
        &mut self.users[place]
    }

    /// A member's reserved share.
    fn least(&self) -> u64 {
        self.total / (2 * self.members.max(1))
    }

    fn kept_for_others(&self, user: u32) -> u64 {
        self.kept - self.part(user).left(self.least())
    }

    fn count_kept(&mut self) {
        self.members = self.users.iter().filter(|part| part.is_member).count() as u64;
        let least = self.least();
        self.kept = self.users.iter().map(|part| part.left(least)).sum();
    }
}

impl Part {
    /// The unused part of its reserved share.
    fn left(&self, least: u64) -> u64 {
        if self.is_member { least.saturating_sub(self.held) } else { 0 }
    }
}
