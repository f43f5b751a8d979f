//! Methods of measurement: that of `softroc bench`, or of a white paper.

use crate::error::{Error, Result};
use models::LinkShares;
use std::str::FromStr;
use storagebench::{Access, Align, Area, Edge, Ladder, Profile};
use units::ByteCount;

/// The known methods: a prediction is comparable with measurements by the same method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MethodName {
    /// As `softroc bench` does.
    Bench,
    /// As the paper of 2013 did.
    Fujitsu2013,
    /// As the paper of 2016 did.
    Fujitsu2016,
    /// As the paper on the server SX940 did.
    Sx940,
    /// As Intel's paper of 2014 did.
    Intel2014,
    /// As the reviews did.
    Reviews,
}

impl MethodName {
    /// All of them.
    pub const ALL: [MethodName; 6] = [
        MethodName::Bench,
        MethodName::Fujitsu2013,
        MethodName::Fujitsu2016,
        MethodName::Sx940,
        MethodName::Intel2014,
        MethodName::Reviews,
    ];

    /// The name in text: `fujitsu2013`.
    pub fn name(self) -> &'static str {
        match self {
            MethodName::Bench => "bench",
            MethodName::Fujitsu2013 => "fujitsu2013",
            MethodName::Fujitsu2016 => "fujitsu2016",
            MethodName::Sx940 => "sx940",
            MethodName::Intel2014 => "intel2014",
            MethodName::Reviews => "reviews",
        }
    }
}

impl FromStr for MethodName {
    type Err = Error;

    fn from_str(text: &str) -> Result<MethodName> {
        let found = MethodName::ALL.into_iter().find(|method| method.name() == text);
        found.ok_or_else(|| Error::failed(format!("unknown method '{text}'")))
    }
}

/// A method of measuring.
#[derive(Clone, Debug)]
pub struct MeasuringMethod {
    /// Its name.
    pub name: MethodName,
    /// The usable shares of link rates.
    pub shares: LinkShares,
    /// The measured part of a volume.
    pub area: Area,
    /// The alignment of random offsets; `None`: that of the profile.
    pub align: Option<Align>,
    /// The numbers of outstanding I/Os.
    pub ladder: Ladder,
    /// Host CPU time per I/O in nanoseconds; each worker has one core; 0: not modelled.
    pub host_io_ns: u64,
}

fn first(gib: u64) -> Area {
    Area::Range { from: Edge::Bytes(0), to: Edge::Bytes(gib << 30) }
}

impl MeasuringMethod {
    /// The method with this name for this number of drives.
    ///
    /// # Errors
    /// None in practice: the queue depths are parsed from constants.
    pub fn of(name: MethodName, drives: usize) -> Result<MeasuringMethod> {
        Ok(match name {
            MethodName::Bench => MeasuringMethod {
                name,
                shares: LinkShares::IN_2016,
                area: Area::ALL,
                align: None,
                ladder: Ladder::default(),
                host_io_ns: 0,
            },
            MethodName::Fujitsu2013 => MeasuringMethod {
                name,
                shares: LinkShares::IN_2013,
                area: first(match drives {
                    0..=8 => 32,
                    9..=16 => 64,
                    _ => 128,
                }),
                // The paper does not say; Iometer 2006 aligned to sectors by default.
                align: Some(Align::Sector),
                ladder: "1,3,8,16,32,64,128,256,512".parse()?,
                // Published: one thread of the load generator reaches 200,000 IOPS.
                host_io_ns: 5_000,
            },
            MethodName::Fujitsu2016 => MeasuringMethod {
                name,
                shares: LinkShares::IN_2016,
                area: Area::ByAccess,
                align: Some(Align::Bytes(ByteCount(4096))),
                ladder: Ladder::default(),
                // Published: a 2.6 GHz core reaches about 250,000.
                host_io_ns: 4_000,
            },
            MethodName::Sx940 => MeasuringMethod {
                name,
                shares: LinkShares::IN_2013,
                area: first(8),
                align: Some(Align::Sector),
                ladder: "3".parse()?,
                host_io_ns: 5_000,
            },
            MethodName::Intel2014 => MeasuringMethod {
                name,
                shares: LinkShares::IN_2016,
                area: Area::ALL,
                align: None,
                ladder: "1..256".parse()?,
                host_io_ns: 0,
            },
            // The whole raw array, with offsets aligned to sectors, Iometer's default.
            MethodName::Reviews => MeasuringMethod {
                name,
                shares: LinkShares::IN_2013,
                area: Area::ALL,
                align: Some(Align::Sector),
                ladder: "1..256".parse()?,
                host_io_ns: 5_000,
            },
        })
    }

    /// The profile with the method's alignment of random offsets.
    ///
    /// # Errors
    /// When the profile does not permit that alignment.
    pub(crate) fn aligned(&self, profile: &Profile) -> Result<Profile> {
        let Some(align) = self.align else { return Ok(profile.clone()) };
        let mut load = profile.load().clone();
        for kind in load.components.iter_mut().flat_map(|component| &mut component.kinds) {
            if kind.align == Align::default() {
                kind.align = align;
            }
        }
        Ok(Profile::new(profile.name(), load)?.described(profile.prose(), profile.source()))
    }

    /// The percentage of a volume of that size that a profile writes at random, which must be in
    /// its steady state.
    pub(crate) fn random_percent(&self, profile: &Profile, volume: ByteCount) -> u64 {
        if profile.access() == Access::Sequential {
            return 0;
        }
        let whole = volume.0.max(1) as f64;
        let edge = |edge: Edge| match edge {
            Edge::Bytes(bytes) => bytes as f64 / whole * 100.0,
            Edge::Percent(percent) => percent,
            Edge::Sum { bytes, percent } => (bytes as f64 / whole * 100.0 + percent).min(100.0),
            Edge::End => 100.0,
        };
        let share = match self.area {
            Area::ByAccess => 25.0,
            Area::Range { from, to } => edge(to) - edge(from),
        };
        share.clamp(1.0, 100.0) as u64
    }
}
