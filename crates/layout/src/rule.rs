//! The parity layouts as numbers, so that one formula serves all of them.

use crate::ParityArrangement as Arrangement;

/// The value for no slot.
pub(crate) const NOWHERE: u16 = u16::MAX;

/// The positions of P, of Q or the spare, and of the data strips of a row in the `width` slots of a
/// span. P is in slot `first ± row`, modulo `modulus`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Rule {
    /// P's slot in row 0.
    first: u16,
    /// The number of slots that P moves over; 1 if it is fixed.
    modulus: u16,
    /// Whether P moves down.
    down: bool,
    /// The position of Q or of the spare.
    second: Second,
    /// Whether data strips start after those slots and wrap; otherwise they start at slot 0.
    pub(crate) continues: bool,
    /// Whether the exponent of a data strip in Q is its slot; otherwise its position in the order
    /// after Q.
    pub(crate) weighs_by_slot: bool,
}

/// The position of Q or of the spare.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Second {
    /// The level has neither.
    None,
    /// In the slot after P, wrapping.
    After,
    /// In the slot before P, wrapping.
    Before,
    /// In the last slot.
    Last,
}

/// The positions of the non-data strips of a row, and the start of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    /// P's slot.
    pub(crate) p: u16,
    /// The slot of Q or of the spare, or [`NOWHERE`].
    pub(crate) second: u16,
    /// The first slot of data that continue after parity.
    pub(crate) start: u16,
    /// Where continuing data wrap to slot 0.
    pub(crate) wrap: u16,
}

impl Rule {
    /// The rule for levels without parity, never evaluated.
    pub(crate) const NONE: Rule = Rule {
        first: 0,
        modulus: 1,
        down: false,
        second: Second::None,
        continues: true,
        weighs_by_slot: false,
    };

    /// The rule of a layout on `width` drives. Each row has P and, with `has_second`, one more
    /// non-data strip.
    pub(crate) fn of(
        arrangement: Arrangement,
        width: u16,
        has_second: bool,
        is_spare: bool,
    ) -> Rule {
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
        let fixed =
            |first, rule: Rule| Rule { first, modulus: 1, down: false, continues: false, ..rule };
        let last = width - 1;
        // In RAID 5EE the pair ends on the last drive, instead of P alone.
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

    /// The positions of a row.
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

/// `slot` modulo `slots`, for `slot` below `2 · slots`.
#[inline]
pub(crate) fn wrapped(slot: u16, slots: u16) -> u16 {
    if slot >= slots { slot - slots } else { slot }
}

#[inline]
pub(crate) fn remainder(number: u64, by: u16) -> u16 {
    // Stripe numbers of most arrays fit 32 bits, which makes the division three times as fast.
    match u32::try_from(number) {
        Ok(small) => (small % u32::from(by)) as u16,
        Err(_) => (number % u64::from(by)) as u16,
    }
}
