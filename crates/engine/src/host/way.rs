//! How a host's request reaches the drives: one table, by the facts of the bytes that it touches.
//!
//! Each [`Row`] is a constant below; [`classify`] returns the first that applies. `explain` prints
//! it.
//!
//! The way is a first choice. A direct request continues by stripes if it meets a lock, a stripe
//! that is not in use or not initialised, a drive that fails, or data that is given up meanwhile.

use layout::Geometry;
use units::{ByteCount, ByteRange};

/// How a request reaches the drives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Way {
    /// There is nothing to do.
    Nothing,
    /// The sectors around the bytes are read, and the bytes copied.
    Sectors,
    /// An operation for each contiguous range of a drive, by mapping alone.
    Direct,
    /// The same bytes to every copy.
    Copies,
    /// A write to one stripe by its plan, without a task.
    Stripe,
    /// By plans, on the shards that own the stripes.
    Stripes,
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Kind {
    Read,
    Write,
    /// A write of zeroes, which drives may do without data.
    WriteZeroes,
}

/// Where the bytes of a request are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Spread {
    Nowhere,
    /// In one strip.
    Strip,
    /// In several strips.
    Strips,
}

impl Redundancy {
    pub(super) fn of(geometry: &Geometry) -> Redundancy {
        match (geometry.parity_strips(), geometry.copies()) {
            (0, 1) => Redundancy::None,
            (0, _) => Redundancy::Copies,
            _ => Redundancy::Parity,
        }
    }
}

impl Spread {
    pub(super) fn of(geometry: &Geometry, range: ByteRange) -> Spread {
        let (_, at) = geometry.strip_of(geometry.stripe_of(range.start).1);
        match range.len {
            ByteCount::ZERO => Spread::Nowhere,
            len if at + len <= geometry.strip().bytes() => Spread::Strip,
            _ => Spread::Strips,
        }
    }
}

/// The redundancy of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Redundancy {
    None,
    Copies,
    Parity,
}

/// The facts that this shard knows about the bytes of a request. [`classify`] asks only for those
/// that it needs.
pub(super) trait Facts {
    fn spread(&self) -> Spread;
    fn redundancy(&self) -> Redundancy;
    /// Whole sectors.
    fn is_aligned(&self) -> bool;
    /// Writes may be acknowledged from the cache.
    fn is_write_back(&self) -> bool;
    /// Bytes may be dirty, here or on the shard that owns them.
    fn may_be_dirty(&self) -> bool;
    /// The read cache has bytes, or is to be filled.
    fn is_for_read_cache(&self) -> bool;
    /// No fault in the regions, which are initialised. Without redundancy: in the whole volume,
    /// because writes by other shards rely on that.
    fn is_well(&self) -> bool;
    /// One strip of a mirror, on this shard, without a fault.
    fn may_go_to_copies(&self) -> bool;
    /// Inside one stripe with parity, on this shard, without a fault or a late drive. Writes that
    /// touch an end of a stripe may belong to a stream: the cache joins these.
    fn may_be_operation(&self) -> bool;
    /// Hosts see the volume: requests of tasks over several strips go by plans.
    fn is_shown(&self) -> bool;
}

/// A row of the table.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub(super) way: Way,
    /// The requests of the row.
    pub(super) request: &'static str,
    /// The facts that select it among them.
    pub(super) facts: &'static str,
}

const fn row(way: Way, request: &'static str, facts: &'static str) -> Row {
    Row { way, request, facts }
}

static EMPTY: Row = row(Way::Nothing, "a request", "of no bytes");
static READ_SECTORS: Row = row(Way::Sectors, "a read", "of parts of sectors");
static READ_BESIDE_FAULT: Row =
    row(Way::Stripes, "a read over several strips", "a fault in their regions, or a task's read");
static READ_CACHE: Row =
    row(Way::Stripes, "a read", "the read cache has the bytes, or is to be filled");
static READ_DIRTY: Row = row(Way::Stripes, "a read", "the write cache may have newer data");
static READ_STRIP: Row = row(Way::Direct, "a read", "inside one strip");
static READ_STRIPS: Row =
    row(Way::Direct, "a read over several strips", "no fault in their regions");
static WRITE_ZEROES: Row = row(Way::Stripes, "a write of zeroes", "drives may do without data");
static WRITE_BACK: Row = row(Way::Stripes, "a write", "the cache may acknowledge writes");
static WRITE_SECTORS: Row = row(Way::Stripes, "a write", "of parts of sectors");
static WRITE_COPIES: Row =
    row(Way::Copies, "a write inside one strip of a mirror", "no fault in its region");
static WRITE_ALONE: Row = row(Way::Direct, "a write without redundancy", "no fault in the volume");
static WRITE_STRIPE: Row = row(Way::Stripe, "a write inside a stripe", "no fault in its region");
static WRITE: Row = row(Way::Stripes, "a write", "redundancy must follow, or there is a fault");

/// All rows.
#[cfg(test)]
static ROWS: [&Row; 14] = [
    &EMPTY,
    &READ_SECTORS,
    &READ_BESIDE_FAULT,
    &READ_CACHE,
    &READ_DIRTY,
    &READ_STRIP,
    &READ_STRIPS,
    &WRITE_ZEROES,
    &WRITE_BACK,
    &WRITE_SECTORS,
    &WRITE_COPIES,
    &WRITE_ALONE,
    &WRITE_STRIPE,
    &WRITE,
];

/// The row of a request.
pub(super) fn classify(kind: Kind, facts: &impl Facts) -> &'static Row {
    match (kind, facts.spread()) {
        (_, Spread::Nowhere) => &EMPTY,
        (Kind::Read, spread) => of_read(spread, facts),
        (Kind::Write, spread) => of_write(spread, facts),
        (Kind::WriteZeroes, _) => &WRITE_ZEROES,
    }
}

fn of_read(spread: Spread, facts: &impl Facts) -> &'static Row {
    if !facts.is_aligned() {
        return &READ_SECTORS;
    }
    match spread {
        Spread::Strips if !(facts.is_shown() && facts.is_well()) => &READ_BESIDE_FAULT,
        _ if facts.is_for_read_cache() => &READ_CACHE,
        _ if facts.may_be_dirty() => &READ_DIRTY,
        Spread::Strips => &READ_STRIPS,
        Spread::Strip | Spread::Nowhere => &READ_STRIP,
    }
}

fn of_write(spread: Spread, facts: &impl Facts) -> &'static Row {
    if facts.is_write_back() {
        return &WRITE_BACK;
    }
    if !facts.is_aligned() {
        return &WRITE_SECTORS;
    }
    let may_map = || spread == Spread::Strip || facts.is_shown();
    match facts.redundancy() {
        Redundancy::None if may_map() && facts.is_well() => &WRITE_ALONE,
        Redundancy::Copies if facts.may_go_to_copies() => &WRITE_COPIES,
        Redundancy::Parity if facts.may_be_operation() => &WRITE_STRIPE,
        _ => &WRITE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Known {
        spread: Spread,
        redundancy: Redundancy,
        flags: u8,
    }

    impl Known {
        fn flag(&self, bit: u8) -> bool {
            self.flags >> bit & 1 == 1
        }
    }

    impl Facts for Known {
        fn spread(&self) -> Spread {
            self.spread
        }
        fn redundancy(&self) -> Redundancy {
            self.redundancy
        }
        fn is_aligned(&self) -> bool {
            self.flag(0)
        }
        fn is_write_back(&self) -> bool {
            self.flag(1)
        }
        fn may_be_dirty(&self) -> bool {
            self.flag(2)
        }
        fn is_for_read_cache(&self) -> bool {
            self.flag(3)
        }
        fn is_well(&self) -> bool {
            self.flag(4)
        }
        fn may_go_to_copies(&self) -> bool {
            self.flag(5)
        }
        fn is_shown(&self) -> bool {
            self.flag(6)
        }
        fn may_be_operation(&self) -> bool {
            self.flag(7)
        }
    }

    /// All requests and facts.
    fn all() -> impl Iterator<Item = (Kind, Known)> {
        let spreads = [Spread::Nowhere, Spread::Strip, Spread::Strips];
        let redundancies = [Redundancy::None, Redundancy::Copies, Redundancy::Parity];
        let kinds = [Kind::Read, Kind::Write, Kind::WriteZeroes];
        kinds.into_iter().flat_map(move |kind| {
            spreads.into_iter().flat_map(move |spread| {
                redundancies.into_iter().flat_map(move |redundancy| {
                    (0..=255).map(move |flags| (kind, Known { spread, redundancy, flags }))
                })
            })
        })
    }

    #[test]
    fn no_direct_way_passes_what_it_must_not_pass() {
        for (kind, known) in all() {
            let way = classify(kind, &known).way;
            if way == Way::Direct || way == Way::Copies {
                assert!(known.is_aligned(), "{kind:?}: partial sectors are completed under a lock");
                assert!(kind != Kind::WriteZeroes, "zeroes may become trims, which need plans");
            }
            if way == Way::Direct && kind == Kind::Read {
                assert!(!known.may_be_dirty(), "the cache has newer data");
                assert!(!known.is_for_read_cache(), "the read cache has it, or wants it");
            }
            if way == Way::Direct && kind == Kind::Write {
                assert!(known.redundancy == Redundancy::None, "redundancy must follow");
                assert!(known.is_well() && !known.is_write_back());
            }
            if way == Way::Stripe {
                assert!(known.redundancy == Redundancy::Parity && known.may_be_operation());
                assert!(known.is_aligned() && !known.is_write_back());
                assert_eq!(kind, Kind::Write, "zeroes may become trims, which need a task");
            }
            if way == Way::Copies {
                assert!(known.redundancy == Redundancy::Copies && known.may_go_to_copies());
                assert!(!known.is_write_back(), "an older dirty write would replace it");
            }
            assert_eq!(way == Way::Nothing, known.spread == Spread::Nowhere);
            let is_partial_read = kind == Kind::Read && !known.is_aligned();
            assert_eq!(way == Way::Sectors, is_partial_read && known.spread != Spread::Nowhere);
        }
    }

    /// The number of combinations of each way: a row that changes is noticed.
    #[test]
    fn every_row_of_the_table_leads_somewhere() {
        for row in ROWS {
            let has_one = all().any(|(kind, known)| std::ptr::eq(classify(kind, &known), row));
            assert!(has_one, "no request has this row: {row:?}");
        }
        let count = |kind, way| {
            all().filter(|(of, known)| *of == kind && classify(kind, known).way == way).count()
        };
        assert_eq!(count(Kind::Read, Way::Direct), 2 * 3 * (16 + 4));
        assert_eq!(count(Kind::Write, Way::Direct), 2 * (16 + 8));
        assert_eq!(count(Kind::Write, Way::Copies), 2 * 2 * 16);
        assert_eq!(count(Kind::Write, Way::Stripe), 2 * 32);
        assert_eq!(count(Kind::WriteZeroes, Way::Stripes), 2 * 3 * 256);
    }
}
