//! How users share what there is a bounded amount of, so that none keeps another from going on.
//!
//! A user whose requests do not end gives nothing back: a volume with a drive that does not answer. So every [member](Parts::join) has a part
//! that no other takes, half of an equal share. Whoever asks first has the rest.

/// A bounded amount, and who has how much of it. Users are numbers, small ones.
#[derive(Default, Debug)]
pub struct Parts {
    total: u64,
    free: u64,
    users: Vec<Part>,
    members: u64,
    /// What of the members' parts they have not taken.
    kept: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Part {
    is_member: bool,
    held: u64,
}

impl Parts {
    /// So much, of which nobody has any.
    pub fn new(total: u64) -> Parts {
        Parts { total, free: total, ..Parts::default() }
    }

    /// How much there is.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How much nobody has.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// There is so much more.
    pub fn grow(&mut self, more: u64) {
        self.total += more;
        self.free += more;
        self.count_kept();
    }

    /// There is so much less, of what a user had.
    pub fn shrink(&mut self, user: u32, less: u64) {
        self.give(user, less);
        self.total -= less;
        self.free -= less;
        self.count_kept();
    }

    /// From now on a part is kept for a user.
    pub fn join(&mut self, user: u32) {
        self.part_mut(user).is_member = true;
        self.count_kept();
    }

    /// No part is kept for a user any more. What it has it gives back as before.
    pub fn leave(&mut self, user: u32) {
        self.part_mut(user).is_member = false;
        self.count_kept();
    }

    /// What a user has.
    pub fn held(&self, user: u32) -> u64 {
        self.part(user).held
    }

    /// What a user may have: what it has, and what is free and not kept for others.
    pub fn within_reach(&self, user: u32) -> u64 {
        self.held(user) + self.free.saturating_sub(self.kept_for_others(user))
    }

    /// Whether a user may take so much: it is of its own part, or it leaves the others theirs. What it could never have beside these it
    /// may take when it has nothing else.
    pub fn may_take(&self, user: u32, count: u64) -> bool {
        let held = self.held(user);
        let is_own = self.is_own(user, count);
        let others = self.members - u64::from(self.is_member(user));
        let is_too_large = held == 0 && count > self.total - others * self.least();
        let left = self.free.checked_sub(count);
        left.is_some_and(|left| is_own || is_too_large || left >= self.kept_for_others(user))
    }

    /// Whether that is of the part that is kept for a user.
    pub fn is_own(&self, user: u32, count: u64) -> bool {
        self.is_member(user) && self.held(user) + count <= self.least()
    }

    /// Whether a user that took so much would have no more than an equal share.
    pub fn is_modest(&self, user: u32, count: u64) -> bool {
        let held = self.held(user);
        held == 0 || held + count <= self.total / self.members.max(1)
    }

    /// A user takes so much.
    ///
    /// # Panics
    /// When less is free.
    pub fn take(&mut self, user: u32, count: u64) {
        assert!(count <= self.free, "{count} of {} that are free", self.free);
        self.free -= count;
        self.change(user, |held| held + count);
    }

    /// A user gives so much back.
    ///
    /// # Panics
    /// When it has less.
    pub fn give(&mut self, user: u32, count: u64) {
        self.free += count;
        self.change(user, |held| held.checked_sub(count).expect("a user gives back what it has"));
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

    /// A member's part.
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
    /// What it has not taken of its part.
    fn left(&self, least: u64) -> u64 {
        if self.is_member { least.saturating_sub(self.held) } else { 0 }
    }
}
