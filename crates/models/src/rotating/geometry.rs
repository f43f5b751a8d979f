//! The position of a sector: its cylinder, and its angle under the heads.
//!
//! The track length follows from the media rate of its zone, which falls linearly from the first
//! zone to the last. Each track begins one skew after the previous one, so that a stream continues
//! without a lost revolution.

use crate::catalog::RotatingSpec;
use crate::device::SECTOR;

const ZONES: u64 = 16;

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_sector: u64,
    first_track: u64,
    sectors_per_track: u64,
}

/// The position of a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    pub cylinder: u64,
    /// The angle of the sector's start, as nanoseconds of a revolution.
    pub angle_ns: u64,
}

#[derive(Debug)]
pub(crate) struct Geometry {
    pub revolution_ns: u64,
    skew_ns: u64,
    heads: u64,
    zones: Vec<Zone>,
    pub cylinders: u64,
    /// The angle of the spindle at time zero.
    pub phase_ns: u64,
}

/// The revolution time of one spindle, random within the tolerance in millionths.
fn turns_in_ns(usual_ns: u64, tolerance_ppm: u64, chance: u64) -> u64 {
    let off_ppm = chance % (2 * tolerance_ppm + 1);
    usual_ns + usual_ns * off_ppm / 1_000_000 - usual_ns * tolerance_ppm / 1_000_000
}

impl Geometry {
    /// The geometry of one drive; `phase` and `speed` are its random properties.
    pub fn new(spec: &RotatingSpec, capacity_bytes: u64, phase: u64, speed: u64) -> Geometry {
        let usual_ns = 60_000_000_000 / spec.rpm;
        let per_track = |zone: u64| {
            let span = spec.outer_rate_kb_s.saturating_sub(spec.inner_rate_kb_s);
            let rate_kb_s = spec.outer_rate_kb_s - span * zone / (ZONES - 1);
            let pitch_ns = usual_ns + usual_ns * spec.skew_permille / 1000;
            (rate_kb_s * 1000 * pitch_ns / (SECTOR * 1_000_000_000)).max(1)
        };
        let revolution_ns = turns_in_ns(usual_ns, spec.rpm_tolerance_ppm, speed);
        let skew_ns = revolution_ns * spec.skew_permille / 1000;
        let sectors = capacity_bytes / SECTOR;
        let per_row: u64 = (0..ZONES).map(per_track).sum();
        let tracks_per_zone = sectors.div_ceil(per_row).next_multiple_of(spec.heads);
        let mut zones: Vec<Zone> = Vec::new();
        for zone in 0..ZONES {
            let first_sector = zones
                .last()
                .map_or(0, |last| last.first_sector + last.sectors_per_track * tracks_per_zone);
            let first_track = zone * tracks_per_zone;
            zones.push(Zone { first_sector, first_track, sectors_per_track: per_track(zone) });
        }
        Geometry {
            revolution_ns,
            skew_ns,
            heads: spec.heads,
            zones,
            cylinders: (tracks_per_zone * ZONES / spec.heads).max(1),
            phase_ns: phase % revolution_ns,
        }
    }

    fn zone(&self, sector: u64) -> &Zone {
        let after = self.zones.partition_point(|zone| zone.first_sector <= sector);
        &self.zones[after.saturating_sub(1)]
    }

    pub fn place(&self, sector: u64) -> Position {
        let zone = self.zone(sector);
        let within = sector - zone.first_sector;
        let track = zone.first_track + within / zone.sectors_per_track;
        let turned = within % zone.sectors_per_track * self.revolution_ns / zone.sectors_per_track;
        Position {
            cylinder: track / self.heads,
            angle_ns: (turned + track % self.revolution_ns * self.skew_ns) % self.revolution_ns,
        }
    }

    /// The rotational latency from `now_ns` to an angle.
    pub fn wait_ns(&self, angle_ns: u64, now_ns: u64) -> u64 {
        let at = (now_ns + self.phase_ns) % self.revolution_ns;
        if angle_ns >= at { angle_ns - at } else { angle_ns + self.revolution_ns - at }
    }

    /// The time for sectors to pass under the heads, including track skews.
    pub fn pass_ns(&self, start: u64, sectors: u64) -> u64 {
        let zone = self.zone(start);
        sectors * (self.revolution_ns + self.skew_ns) / zone.sectors_per_track
    }

    /// The number of sectors from `start` that pass under the heads in a time.
    pub fn passed(&self, start: u64, ns: u64) -> u64 {
        let zone = self.zone(start);
        let whole = ns / (self.revolution_ns + self.skew_ns);
        let rest = ns % (self.revolution_ns + self.skew_ns);
        whole * zone.sectors_per_track
            + rest * zone.sectors_per_track / (self.revolution_ns + self.skew_ns)
    }

    /// The sectors of the track of a sector.
    pub fn track(&self, sector: u64) -> u64 {
        self.zone(sector).sectors_per_track
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::rotating_15k;

    #[test]
    fn tracks_are_as_long_as_the_media_rate_says() {
        let (spec, capacity) = rotating_15k();
        let geometry = Geometry::new(&spec, capacity, 0, spec.rpm_tolerance_ppm);
        let rate = |start: u64| {
            let sectors = 1 << 20;
            sectors as f64 * 512.0 / (geometry.pass_ns(start, sectors) as f64 / 1e9) / 1e3
        };
        let close = |got: f64, want: u64| (got / want as f64 - 1.0).abs() < 0.01;
        assert!(close(rate(0), spec.outer_rate_kb_s), "{}", rate(0));
        let last = capacity / SECTOR - 1;
        assert!(close(rate(last), spec.inner_rate_kb_s), "{}", rate(last));
        assert!(geometry.place(last).cylinder < geometry.cylinders);
        assert!(geometry.place(last).cylinder > geometry.cylinders * 99 / 100);
    }

    /// With equal speeds, two spindles would keep their initial phase forever, and it would
    /// determine the speed of a mirror.
    #[test]
    fn no_two_spindles_turn_at_the_same_speed() {
        let (spec, capacity) = rotating_15k();
        let turn = |speed| Geometry::new(&spec, capacity, 0, speed).revolution_ns;
        let turns: Vec<u64> = (0..=2 * spec.rpm_tolerance_ppm).map(turn).collect();
        assert_eq!((turns[0], turns[turns.len() - 1]), (3_992_000, 4_008_000));
        assert!(turns.is_sorted() && turns[2000] == 4_000_000);
        let sectors = |speed| Geometry::new(&spec, capacity, 0, speed).track(0);
        assert_eq!(sectors(0), sectors(4000), "its tracks are as long");
    }

    #[test]
    fn what_passes_in_the_time_that_sectors_take_are_those_sectors() {
        let (spec, capacity) = rotating_15k();
        let geometry = Geometry::new(&spec, capacity, 12_345, 7);
        for sectors in [1, 128, 5000, 1 << 20] {
            let passed = geometry.passed(7, geometry.pass_ns(7, sectors));
            assert!(passed.abs_diff(sectors) <= 1, "{sectors}: {passed}");
        }
        assert_eq!(geometry.wait_ns(geometry.place(9).angle_ns, 0), {
            let at = 12_345;
            (geometry.place(9).angle_ns + geometry.revolution_ns - at) % geometry.revolution_ns
        });
    }
}
