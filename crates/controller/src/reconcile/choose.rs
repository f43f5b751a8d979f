//! Selects a spare for a slot, and explains why the others do not fit. This module has no side
//! effects.
//!
//! A spare must fit: it covers the array, is large enough for the part of each member that the
//! array uses, supports the array's sector size, and has no fault. It is of the same kind
//! (solid-state or rotating), unless the array's policy allows others. The order of preference:
//! dedicated to the array, then to its enclosure, then global, then (if the array's policy allows
//! it) an unused drive; same kind; same enclosure as the replaced drive; the smallest; the first by
//! name.

use ondisk::Uuid;
use units::{ByteCount, both_capacities};

/// The requirements of a slot.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    /// The array of the slot.
    pub array: Uuid,
    /// The minimum size: the part of each member that the array uses, and the label.
    pub size: ByteCount,
    /// The array's sector size: a drive with larger sectors does not fit.
    pub sector: ByteCount,
    /// Whether the replaced drive rotates; `None` if unknown.
    pub rotational: Option<bool>,
    /// Whether a drive of the other kind is allowed.
    pub mixed_kinds: bool,
    /// Whether an unused drive may serve as an emergency spare.
    pub(super) emergency: bool,
    /// The enclosure of the replaced drive.
    pub enclosure: Option<String>,
    /// The enclosures of the array's drives.
    pub(super) enclosures: Vec<String>,
}

/// The role of a drive as a spare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// A spare for these arrays.
    Dedicated(Vec<Uuid>),
    /// A spare for arrays with a drive in its enclosure.
    Enclosure,
    /// A spare for all arrays.
    Global,
    /// No spare; the drive is unused and empty.
    Unassigned,
}

/// A drive that may be selected.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub name: String,
    pub standing: Standing,
    pub size: ByteCount,
    pub sector: ByteCount,
    pub rotational: bool,
    pub enclosure: Option<String>,
    /// Its fault: it failed, refuses writes, predicts its failure. The text follows "it".
    pub(super) fault: Option<String>,
}

/// Why a drive does not fit, as text after its name and "it"; `None` if it fits.
pub(crate) fn refusal(need: &Need, offer: &Offer) -> Option<String> {
    match &offer.standing {
        Standing::Dedicated(arrays) if !arrays.contains(&need.array) => {
            return Some("is a spare for other arrays".to_owned());
        }
        Standing::Enclosure
            if !offer.enclosure.as_ref().is_some_and(|e| need.enclosures.contains(e)) =>
        {
            let enclosure = offer.enclosure.as_deref().unwrap_or("unknown");
            return Some(format!("is a spare for enclosure {enclosure}"));
        }
        Standing::Unassigned if !need.emergency => {
            return Some("is no spare, and emergency-spare is off".to_owned());
        }
        Standing::Dedicated(_) | Standing::Enclosure | Standing::Global | Standing::Unassigned => {}
    }
    if let Some(fault) = &offer.fault {
        return Some(fault.clone());
    }
    if offer.size < need.size {
        let (has, needs) = (both_capacities(offer.size), both_capacities(need.size));
        return Some(match has == needs {
            true => format!("is too small: {} bytes, but {} are needed", offer.size.0, need.size.0),
            false => format!("is too small: {has}, but {needs} are needed"),
        });
    }
    if offer.sector > need.sector {
        return Some(format!(
            "has sectors of {} bytes, but the array has sectors of {}",
            offer.sector.0, need.sector.0
        ));
    }
    if !need.mixed_kinds && need.rotational.is_some_and(|rotational| rotational != offer.rotational)
    {
        let (is, needs) = (kind_name(offer.rotational), kind_name(!offer.rotational));
        return Some(format!("is {is}, but {needs} is needed (mixed-kinds is off)"));
    }
    None
}

/// The kind of a drive, for messages.
pub(super) fn kind_name(rotational: bool) -> &'static str {
    if rotational { "a rotational drive" } else { "an SSD" }
}

/// Selects the drive for a slot.
///
/// # Errors
/// Why each drive does not fit, in the given order; empty without drives.
pub(super) fn choose_spare(need: &Need, offers: &[Offer]) -> Result<usize, Vec<String>> {
    let refusals: Vec<Option<String>> = offers.iter().map(|offer| refusal(need, offer)).collect();
    let fitting = (0..offers.len()).filter(|&index| refusals[index].is_none());
    let rank = |index: &usize| {
        let offer = &offers[*index];
        let standing = match offer.standing {
            Standing::Dedicated(_) => 0,
            Standing::Enclosure => 1,
            Standing::Global => 2,
            Standing::Unassigned => 3,
        };
        let other_kind = need.rotational.is_some_and(|rotational| rotational != offer.rotational);
        let elsewhere = need.enclosure.is_some() && offer.enclosure != need.enclosure;
        (standing, other_kind, elsewhere, offer.size, offer.name.clone())
    };
    let refused = || {
        let named = offers.iter().zip(&refusals);
        named.filter_map(|(offer, why)| Some(format!("{} {}", offer.name, why.as_ref()?))).collect()
    };
    fitting.min_by_key(rank).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ARRAY: Uuid = Uuid([7; 16]);
    const OTHER: Uuid = Uuid([8; 16]);
    const TB: u64 = 1_000_000_000_000;

    fn need() -> Need {
        Need {
            array: ARRAY,
            size: ByteCount(TB),
            sector: ByteCount(4096),
            rotational: Some(false),
            mixed_kinds: false,
            emergency: false,
            enclosure: Some("e1".into()),
            enclosures: vec!["e1".into(), "e2".into()],
        }
    }

    fn offer(name: &str, standing: Standing) -> Offer {
        Offer {
            name: name.into(),
            standing,
            size: ByteCount(TB),
            sector: ByteCount(512),
            rotational: false,
            enclosure: Some("e2".into()),
            fault: None,
        }
    }

    #[test]
    fn each_reason_is_named() {
        let global = || offer("s", Standing::Global);
        let cases = [
            (offer("s", Standing::Dedicated(vec![OTHER])), "s is a spare for other arrays"),
            (
                Offer { enclosure: Some("e3".into()), ..offer("s", Standing::Enclosure) },
                "s is a spare for enclosure e3",
            ),
            (offer("s", Standing::Unassigned), "s is no spare, and emergency-spare is off"),
            (
                Offer { size: ByteCount(TB / 2), ..global() },
                "s is too small: 500.00 GB (465.66 GiB), but 1.00 TB (931.32 GiB) are needed",
            ),
            (
                Offer { rotational: true, ..global() },
                "s is a rotational drive, but an SSD is needed (mixed-kinds is off)",
            ),
            (
                Offer { fault: Some("predicts its failure".into()), ..global() },
                "s predicts its failure",
            ),
        ];
        for (offer, sentence) in cases {
            assert_eq!(choose_spare(&need(), &[offer]), Err(vec![sentence.to_owned()]));
        }
        let large = Need { size: ByteCount(3 * TB / 2), ..need() };
        let nearly = Offer { size: ByteCount(3 * TB / 2 - 4096), ..global() };
        let sentence = "s is too small: 1499999995904 bytes, but 1500000000000 are needed";
        assert_eq!(choose_spare(&large, &[nearly]), Err(vec![sentence.to_owned()]));
        let fine_sectors = Need { sector: ByteCount(512), ..need() };
        let coarse = Offer { sector: ByteCount(4096), ..global() };
        assert_eq!(
            choose_spare(&fine_sectors, &[coarse]),
            Err(vec!["s has sectors of 4096 bytes, but the array has sectors of 512".to_owned()])
        );
        assert_eq!(choose_spare(&need(), &[]), Err(vec![]));
    }

    #[test]
    fn dedicated_goes_before_enclosure_before_global_before_unassigned() {
        let need = Need { emergency: true, ..need() };
        let order = [
            offer("u", Standing::Unassigned),
            offer("g", Standing::Global),
            offer("e", Standing::Enclosure),
            offer("d", Standing::Dedicated(vec![OTHER, ARRAY])),
        ];
        for first in 0..order.len() {
            assert_eq!(choose_spare(&need, &order[..=first]), Ok(first));
        }
    }

    #[test]
    fn then_same_kind_then_same_enclosure_then_the_smallest() {
        let mixed = Need { mixed_kinds: true, ..need() };
        let large = Offer { size: ByteCount(4 * TB), ..offer("b", Standing::Global) };
        let near = Offer { enclosure: Some("e1".into()), ..large.clone() };
        let small_and_rotating = Offer { rotational: true, ..offer("a", Standing::Global) };
        let offers = [small_and_rotating, large, near, offer("c", Standing::Global)];
        assert_eq!(choose_spare(&mixed, &offers), Ok(2), "the kind, then the enclosure");
        assert_eq!(choose_spare(&mixed, &offers[..2]), Ok(1), "the kind before the size");
        assert_eq!(
            choose_spare(&mixed, &[offers[1].clone(), offers[3].clone()]),
            Ok(1),
            "the smallest"
        );
        assert_eq!(choose_spare(&mixed, &offers[..1]), Ok(0), "another kind rather than none");
    }

    fn any_offer() -> impl Strategy<Value = Offer> {
        let standing = prop_oneof![
            Just(Standing::Dedicated(vec![ARRAY])),
            Just(Standing::Dedicated(vec![OTHER])),
            Just(Standing::Enclosure),
            Just(Standing::Global),
            Just(Standing::Unassigned),
        ];
        let enclosure = prop::option::of(prop_oneof![Just("e1".to_owned()), Just("e3".to_owned())]);
        let fault = prop::option::weighted(0.2, Just("failed".to_owned()));
        (standing, 1_u64..5, any::<bool>(), any::<bool>(), enclosure, fault, "[a-d]").prop_map(
            |(standing, halves, coarse, rotational, enclosure, fault, name)| Offer {
                name,
                standing,
                size: ByteCount(halves * TB / 2),
                sector: ByteCount(if coarse { 4096 } else { 512 }),
                rotational,
                enclosure,
                fault,
            },
        )
    }

    proptest! {
        /// For all inputs: the selected drive fits, no fitting drive has a better role, and without
        /// a selection each drive has a reason.
        #[test]
        fn what_is_chosen_fits(
            offers in prop::collection::vec(any_offer(), 0..8),
            flags in any::<[bool; 4]>(),
        ) {
            let need = Need {
                sector: ByteCount(if flags[0] { 512 } else { 4096 }),
                rotational: flags[1].then_some(flags[2]),
                mixed_kinds: flags[2],
                emergency: flags[3],
                ..need()
            };
            match choose_spare(&need, &offers) {
                Ok(chosen) => {
                    let taken = &offers[chosen];
                    prop_assert_eq!(refusal(&need, taken), None);
                    prop_assert!(taken.size >= need.size && taken.sector <= need.sector);
                    prop_assert!(taken.fault.is_none());
                    for other in offers.iter().filter(|other| refusal(&need, other).is_none()) {
                        let same = std::mem::discriminant(&other.standing)
                            == std::mem::discriminant(&taken.standing);
                        let dedicated = matches!(other.standing, Standing::Dedicated(_));
                        prop_assert!(same || !dedicated);
                    }
                }
                Err(reasons) => prop_assert_eq!(reasons.len(), offers.len()),
            }
        }
    }
}
