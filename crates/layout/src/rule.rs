//! The arrangements of parity as numbers, so that one formula serves all of them.

use crate::ParityArrangement as Arrangement;

/// No slot.
pub(crate) const NOWHERE: u16 = u16::MAX;

/// Where P, what goes with it (Q or the spare), and the data strips of a row are among the `width` slots of a
/// span. P is in slot `first ± row`, modulo `modulus`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Rule {
    /// P's slot in row 0.
    first: u16,
    /// Over how many slots P moves; 1 where it stays.
    modulus: u16,
    /// Whether P moves down.
    down: bool,
    /// Where the second strip that is not data is.
    second: Second,
    /// Whether data strips start after those slots and wrap; otherwise they fill the slots from 0 up.
    pub(crate) continues: bool,
    /// Whether Q weighs a data strip by its slot; otherwise by its place in the order after Q.
    pub(crate) weighs_by_slot: bool,
}

/// Where the second strip of a stripe that is not data is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Second {
    /// There is none.
    None,
    /// In the slot after P, wrapping.
    After,
    /// In the slot before P, wrapping.
    Before,
    /// In the last slot.
    Last,
}

/// Where the strips of one row are that are not data, and where data begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// P's slot.
    pub(crate) p: u16,
    /// The slot of Q or of the spare, or [`NOWHERE`].
    pub(crate) second: u16,
    /// Where data begins that continues after parity.
    pub(crate) start: u16,
    /// Where data that continues wraps to slot 0.
    pub(crate) wrap: u16,
}

impl Rule {
    /// The rule for a level without parity; it is not asked for anything.
    pub(crate) const NONE: Rule = Rule {
        first: 0,
        modulus: 1,
        down: false,
        second: Second::None,
        continues: true,
        weighs_by_slot: false,
    };

    /// The rule of an arrangement on `width` drives, of which each row has P and, where `has_second`, one more
    /// that is not data.
    pub(crate) fn of(arrangement: Arrangement, width: u16, has_second: bool, is_spare: bool) -> Rule {
        let moving = |first, down, continues| Rule {
            first,
            modulus: width,
            down,
            second: if has_second { Second::After } else { Second::None },
            continues,
            weighs_by_slot: false,
        };
        let ddf = |first, down, continues, second| Rule {
            second,
            weighs_by_slot: true,
            ..moving(first, down, continues)
        };
        let old_raid5 = |rule: Rule| Rule { modulus: width - 1, second: Second::Last, ..rule };
        let fixed = |first, rule: Rule| Rule { first, modulus: 1, down: false, continues: false, ..rule };
        let last = width - 1;
        // The two that move in RAID 5EE end on the last drive, not P alone.
        let last_p = if is_spare { width - 2 } else { last };
        match arrangement {
            Arrangement::LeftSymmetric => moving(last_p, true, true),
            Arrangement::LeftAsymmetric => moving(last_p, true, false),
            Arrangement::RightSymmetric => moving(0, false, true),
            Arrangement::RightAsymmetric => moving(0, false, false),
            Arrangement::ParityFirst => fixed(0, moving(0, false, false)),
            Arrangement::ParityLast => fixed(last - u16::from(has_second), moving(0, false, false)),
            Arrangement::DdfZeroRestart => ddf(0, false, false, Second::After),
            Arrangement::DdfNRestart => ddf(width - 2, true, false, Second::After),
            Arrangement::DdfNContinue => ddf(last, true, true, Second::Before),
            Arrangement::LeftSymmetric6 => old_raid5(moving(width - 2, true, true)),
            Arrangement::LeftAsymmetric6 => old_raid5(moving(width - 2, true, false)),
            Arrangement::RightSymmetric6 => old_raid5(moving(0, false, true)),
            Arrangement::RightAsymmetric6 => old_raid5(moving(0, false, false)),
            Arrangement::ParityFirst6 => fixed(0, old_raid5(moving(0, false, false))),
        }
    }

    /// Where the strips of a row are.
    #[inline]
    pub(crate) fn row(&self, row: u64, width: u16) -> Row {
        let turn = remainder(row, self.modulus);
        let p = if !self.down {
            wrapped(self.first + turn, self.modulus.max(self.first + 1))
        } else if turn <= self.first {
            self.first - turn
        } else {
            self.first + self.modulus - turn
        };
        let after = wrapped(p + 1, width);
        let (second, start, wrap) = match self.second {
            Second::None => (NOWHERE, after, width),
            Second::After => (after, wrapped(after + 1, width), width),
            Second::Before => (if p == 0 { width - 1 } else { p - 1 }, after, width),
            Second::Last => (width - 1, wrapped(p + 1, width - 1), width - 1),
        };
        Row { p, second, start, wrap }
    }
}

/// `slot` modulo `slots`, where it is less than twice as much.
#[inline]
pub(crate) fn wrapped(slot: u16, slots: u16) -> u16 {
    if slot >= slots { slot - slots } else { slot }
}

#[inline]
pub(crate) fn remainder(number: u64, by: u16) -> u16 {
    // Stripe numbers of all but enormous arrays fit 32 bits, in which a division costs a third.
    match u32::try_from(number) {
        Ok(small) => (small % u32::from(by)) as u16,
        Err(_) => (number % u64::from(by)) as u16,
    }
}
