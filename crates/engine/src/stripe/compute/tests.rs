//! Executes plans on real buffers, with byte arrays as drives. The results of every kind of
//! computation must equal those of the parity crate.

use super::*;
use crate::stripe::memory::{Host, segments};
use crate::stripe::payload::Payload;
use layout::{CopyIndex, DataIndex, Geometry, Level, StripeMap};
use plan::{Cached, CopyChoice, Health, Request, WHOLE_STRIP, plan_into};
use platform::{Durability, IoOutcome};
use units::{DriveCount, DriveIndex, StripSize, StripeIndex};

const STRIPE: StripeIndex = StripeIndex(1);

/// One stripe and its drives.
#[derive(Clone)]
struct Bench {
    geometry: Geometry,
    map: StripeMap,
    data: Vec<u8>,
    drives: Vec<Vec<u8>>,
}

impl Bench {
    fn new(level: Level, drives: u16) -> Bench {
        let strip = StripSize::MIN;
        let geometry = Geometry::new(level, DriveCount(drives), strip, strip.bytes() * 4).unwrap();
        let data =
            (0..geometry.stripe_bytes().as_usize()).map(|i| (i * 7 + i / 251 + 3) as u8).collect();
        let map = geometry.stripe_map(STRIPE);
        let drives = vec![vec![0xEE; geometry.member_size().as_usize()]; drives.into()];
        let mut bench = Bench { geometry, map, data, drives };
        for (cell, role) in map.cells() {
            let content = bench.content(role);
            let at = cell.offset.0 as usize;
            bench.drives[cell.drive.as_usize()][at..at + content.len()].copy_from_slice(&content);
        }
        bench
    }

    /// The expected content of a strip.
    fn content(&self, role: Role) -> Vec<u8> {
        let strip = self.geometry.strip().bytes().as_usize();
        let strips: Vec<parity::Source<'_>> = (0..self.geometry.data_strips())
            .zip(self.data.chunks(strip))
            .map(|(i, bytes)| parity::Source::new(self.map.q_exponent(DataIndex(i)), bytes))
            .collect();
        let mut content = vec![0; strip];
        match role {
            Role::Data { index, .. } => {
                content = self.data[usize::from(index.0) * strip..][..strip].to_vec()
            }
            Role::P => parity::generate_p(&mut content, &strips).unwrap(),
            Role::Q => parity::generate_q(&mut content, &strips).unwrap(),
            Role::Spare => content.fill(0xEE),
        }
        content
    }

    /// Executes a plan and returns the memory.
    fn execute(&mut self, plan: &Plan, host: Host) -> (Memory, Option<Mismatch>) {
        let mut memory = Memory::default();
        memory.admit(plan, host);
        for (slot, read) in plan.reads().iter().enumerate() {
            let mut at = read.offset.0 as usize;
            let mut buffers = platform::Bufs::new();
            for segment in segments(plan, read) {
                let mut buf = match segment.target {
                    Target::Host { at } => memory.part(at.0).unwrap().buf.take().unwrap(),
                    _ if memory.hollow => Buf::hollow(ByteCount(segment.len)),
                    _ => Buf::unpooled(ByteCount(segment.len)),
                };
                let len = buf.bytes().len();
                let from = &self.drives[read.drive.as_usize()][at..at + len];
                buf.bytes_mut().copy_from_slice(from);
                at += len;
                buffers.push(buf);
            }
            let outcome = IoOutcome::done(read.len.0).with_buffers(buffers);
            memory.take_read(plan, slot, outcome).unwrap();
        }
        for len in plan.scratch() {
            let buf = if memory.hollow { Buf::hollow(*len) } else { Buf::unpooled(*len) };
            memory.scratch.push(OwnBuf::Open(buf));
        }
        let mut mismatch: Option<Mismatch> = None;
        for compute in plan.computes() {
            let found = memory.compute(compute, plan.terms(compute)).unwrap();
            mismatch = found.or(mismatch);
        }
        memory.seal();
        for write in plan.writes() {
            let mut at = write.offset.0 as usize;
            for part in plan.write_parts(write) {
                let mut slices = platform::Slices::new();
                memory.slices(part.from, part.len, &mut slices).unwrap();
                assert_eq!(platform::buffers::total_len(&slices), part.len);
                for slice in slices {
                    let len = slice.len().as_usize();
                    if !slice.is_hollow() {
                        slice.copy_to(&mut self.drives[write.drive.as_usize()][at..at + len]);
                    }
                    at += len;
                }
            }
        }
        (memory, mismatch)
    }

    /// Overwrites the strips of unreadable drives.
    fn spoil(&mut self, health: &Health) {
        for (n, drive) in self.drives.iter_mut().enumerate() {
            if !health.readable.contains(DriveIndex(n as u16)) {
                drive.fill(0x5A);
            }
        }
    }
}

/// Ranges within a strip, across strips, over almost all and over all of a stripe.
fn ranges(geometry: &Geometry) -> Vec<ByteRange> {
    let all = geometry.stripe_bytes().0;
    [
        (512, 1024),
        (4096, 4096),
        (3072, 2048),
        (1024, all - 2048),
        (0, all),
        (4608, all - 4608),
        (all - 4096, 512),
    ]
    .map(|(start, len)| ByteRange::new(ByteOffset(start), ByteCount(len)))
    .to_vec()
}

/// All drives online, each drive missing, each pair missing, and each drive missing with a medium
/// error on another.
fn healths(geometry: &Geometry) -> Vec<Health> {
    let optimal = Health::optimal(geometry);
    let drives: Vec<DriveIndex> = geometry.drives().indexes().collect();
    let mut healths = vec![optimal];
    for (n, one) in drives.iter().enumerate() {
        healths.extend([optimal.without(*one), optimal.unreadable(*one)]);
        for other in &drives[n + 1..] {
            let lost = optimal.without(*one);
            healths.extend([lost.without(*other), lost.unreadable(*other)]);
        }
    }
    healths
}

#[test]
fn reads_and_writes_in_every_health_hold_what_was_written() {
    let mut kinds = std::collections::BTreeSet::new();
    for (level, drives) in
        [(Level::Raid5, 4), (Level::Raid6, 4), (Level::Raid6, 6), (Level::Raid1e, 3)]
    {
        let original = Bench::new(level, drives);
        let geometry = original.geometry;
        let mut plan = Plan::new(&geometry);
        for health in healths(&geometry) {
            let mut spoiled = original.clone();
            spoiled.spoil(&health);
            for range in ranges(&geometry) {
                let wanted = &original.data[range.start.0 as usize..range.end().0 as usize];
                let read = Request::Read { range, prefer: CopyChoice::FIRST, split: true };
                if plan_into(&mut plan, &geometry, STRIPE, read, &health).is_ok() {
                    let (memory, _) =
                        spoiled.clone().execute(&plan, Host::Buffer(Buf::unpooled(range.len)));
                    for part in memory.parts() {
                        let bytes = part.1.bytes();
                        assert_eq!(*bytes, wanted[part.0 as usize..][..bytes.len()], "{plan:#?}");
                    }
                }
                let payload: Vec<u8> =
                    wanted.iter().map(|byte| byte.wrapping_mul(3) ^ 0x81).collect();
                if plan_into(&mut plan, &geometry, STRIPE, Request::Write { range }, &health)
                    .is_err()
                {
                    continue;
                }
                kinds.extend(plan.steps().map(|step| step.name()));
                let mut after = spoiled.clone();
                let host =
                    Host::Payload(Buf::copy_of(&payload).freeze().into(), Durability::Cached);
                after.execute(&plan, host);
                after.data[range.start.0 as usize..range.end().0 as usize]
                    .copy_from_slice(&payload);
                for (cell, role) in after.map.cells() {
                    if !health.writable.contains(cell.drive)
                        || !health.readable.contains(cell.drive)
                    {
                        continue;
                    }
                    let content = after.content(role);
                    let is = &after.drives[cell.drive.as_usize()][cell.offset.0 as usize..]
                        [..content.len()];
                    assert!(*is == content, "{role} after {range:?}\n{plan:#?}");
                }
            }
        }
    }
    for kind in ["parity", "update", "recover"] {
        assert!(kinds.contains(kind), "{kind} occurs: {kinds:?}");
    }
}

#[test]
fn a_check_names_the_strip_and_the_columns_that_are_wrong() {
    for (level, drives, names) in [
        (Level::Raid5, 4, false),
        (Level::Raid6, 5, true),
        (Level::Raid1, 2, false),
        (Level::Raid1, 3, true),
    ] {
        let original = Bench::new(level, drives);
        let mut plan = Plan::new(&original.geometry);
        let health = Health::optimal(&original.geometry);
        let verify = Request::Verify { columns: WHOLE_STRIP };
        for (cell, role) in original.map.cells() {
            let mut bench = original.clone();
            plan_into(&mut plan, &bench.geometry, STRIPE, verify, &health).unwrap();
            assert_eq!(bench.execute(&plan, Host::None).1, None);
            let at = cell.offset.0 as usize;
            bench.drives[cell.drive.as_usize()][at + 700] ^= 4;
            bench.drives[cell.drive.as_usize()][at + 1300] ^= 9;
            let columns = ByteRange::from_to(ByteOffset(700), ByteOffset(1301));
            let found = bench.execute(&plan, Host::None).1.unwrap();
            assert_eq!(
                found,
                Mismatch { columns, culprit: names.then_some(role) },
                "{level} {role}"
            );
            if let Some(culprit) = found.culprit {
                let repair = Request::Repair { culprit, columns };
                plan_into(&mut plan, &bench.geometry, STRIPE, repair, &health).unwrap();
                bench.execute(&plan, Host::None);
                assert_eq!(bench.drives, original.drives, "{culprit} is repaired");
            }
        }
    }
}

/// P's drive has failed: Q alone detects a mismatch in the columns that were compared.
#[test]
fn q_alone_is_checked_too() {
    let mut bench = Bench::new(Level::Raid6, 5);
    let p = bench.map.cell_of(Role::P).unwrap();
    let health = Health::optimal(&bench.geometry).without(p.drive);
    let mut plan = Plan::new(&bench.geometry);
    let verify = Request::Verify { columns: ByteRange::from_to(ByteOffset(512), ByteOffset(2048)) };
    plan_into(&mut plan, &bench.geometry, STRIPE, verify, &health).unwrap();
    assert_eq!(bench.execute(&plan, Host::None).1, None);
    let cell = bench.map.data_cell(DataIndex(2), CopyIndex(0));
    bench.drives[cell.drive.as_usize()][cell.offset.0 as usize + 600] ^= 1;
    let columns = ByteRange::from_to(ByteOffset(600), ByteOffset(601));
    assert_eq!(bench.execute(&plan, Host::None).1, Some(Mismatch { columns, culprit: None }));
}

#[test]
fn hollow_memory_is_passed_along_and_not_computed() {
    let mut bench = Bench::new(Level::Raid6, 6);
    let before = bench.drives.clone();
    let optimal = Health::optimal(&bench.geometry);
    let mut plan = Plan::new(&bench.geometry);
    for health in [optimal, optimal.without(DriveIndex(0)).without(DriveIndex(3))] {
        for range in ranges(&bench.geometry) {
            plan_into(&mut plan, &bench.geometry, STRIPE, Request::Write { range }, &health)
                .unwrap();
            bench
                .execute(&plan, Host::Payload(Slice::hollow(range.len).into(), Durability::Cached));
            let read = Request::Read { range, prefer: CopyChoice::FIRST, split: false };
            plan_into(&mut plan, &bench.geometry, STRIPE, read, &health).unwrap();
            bench.execute(&plan, Host::Buffer(Buf::hollow(range.len)));
        }
    }
    assert_eq!(bench.drives, before);
}

/// A payload cut at odd places, with one slice of implicit zeros; the cached data is in two slices
/// per strip.
#[test]
fn payloads_and_what_is_cached_may_lie_in_several_slices() {
    let cuts: [&[usize]; 4] = [&[], &[512], &[512, 1024, 1536, 5120], &[4096, 4608]];
    let (mut scattered, mut copied) = (0, 0);
    for (level, drives) in [(Level::Raid5, 4), (Level::Raid6, 6), (Level::Raid1e, 3)] {
        let original = Bench::new(level, drives);
        let geometry = original.geometry;
        let mut plan = Plan::new(&geometry);
        let at = |start: u64, len: u64| ByteRange::new(ByteOffset(start), ByteCount(len));
        let rectangle = [at(512, 2048), at(4608, 2048)];
        let ragged = [at(0, 512), at(1024, 1536), at(4096, 4096)];
        for (health, extents) in
            healths(&geometry).iter().flat_map(|h| [(h, &rectangle[..]), (h, &ragged)])
        {
            let mut spoiled = original.clone();
            spoiled.spoil(health);
            let roles =
                (0..geometry.data_strips()).map(|i| Cached::data(DataIndex(i), at(0, 0)).role);
            let parity = [Role::P, Role::Q].into_iter().take(geometry.parity_strips().into());
            for (which, cuts) in (0_u8..5).flat_map(|which| cuts.map(|cuts| (which, cuts))) {
                // No data, the first strip, all data, parity, everything: columns 512 to 3072.
                let is_cached = |role: &Role| match role {
                    Role::Data { index, .. } => {
                        which == 1 && index.0 == 0 || which == 2 || which == 4
                    }
                    _ => which >= 3,
                };
                let roles: Vec<Role> =
                    roles.clone().chain(parity.clone()).filter(is_cached).collect();
                let cached: Vec<Cached> = roles
                    .iter()
                    .map(|role| Cached { role: *role, columns: at(512, 2560) })
                    .collect();
                let request = Request::WriteExtents { extents, cached: &cached };
                if plan_into(&mut plan, &geometry, STRIPE, request, health).is_err() {
                    continue;
                }
                let len = request.host_bytes().as_usize();
                let mut bytes: Vec<u8> = (0..len).map(|i| (i * 5 + 77) as u8).collect();
                bytes[..512].fill(0);
                let ends: Vec<usize> =
                    cuts.iter().copied().filter(|cut| *cut < len).chain([len]).collect();
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let slices = starts.zip(&ends).map(|(start, end)| match *end {
                    512 => Slice::zero(ByteCount(512)),
                    end => Buf::copy_of(&bytes[start..end]).freeze(),
                });
                let in_memory = roles.iter().flat_map(|role| {
                    let content = original.content(*role);
                    [(512, 1536), (1536, 3072)].map(|(start, end)| {
                        let slice = Buf::copy_of(&content[start..end]).freeze();
                        (*role, ByteOffset(start as u64), slice)
                    })
                });
                let payload = Payload::of(slices).with_cached(in_memory);
                let mut after = spoiled.clone();
                let (memory, _) = after.execute(&plan, Host::Payload(payload, Durability::Cached));
                for compute in plan.computes() {
                    let terms = plan.terms(compute);
                    let is_scattered =
                        !memory.scattered(terms, compute.len.as_usize()).unwrap().pieces.is_empty();
                    scattered += u32::from(is_scattered);
                    copied += compute.kind.old_parity_and_pairs(terms).0.len();
                }
                let mut from = 0;
                for extent in extents {
                    let len = extent.len.as_usize();
                    after.data[extent.start.0 as usize..][..len]
                        .copy_from_slice(&bytes[from..from + len]);
                    from += len;
                }
                for (cell, role) in after.map.cells() {
                    if !health.writable.contains(cell.drive)
                        || !health.readable.contains(cell.drive)
                    {
                        continue;
                    }
                    let content = after.content(role);
                    let is = &after.drives[cell.drive.as_usize()][cell.offset.0 as usize..]
                        [..content.len()];
                    assert!(*is == content, "{role} after {request:?} {cuts:?}\n{plan:#?}");
                }
            }
        }
    }
    assert!(scattered > 500 && copied > 100, "{scattered} in pieces, {copied} parities copied");
}

#[test]
#[should_panic(expected = "the payload is what the request asks to be written")]
fn a_payload_of_another_length_is_a_programmers_error() {
    let mut bench = Bench::new(Level::Raid5, 4);
    let mut plan = Plan::new(&bench.geometry);
    let health = Health::optimal(&bench.geometry);
    let range = ByteRange::new(ByteOffset(512), ByteCount(1024));
    plan_into(&mut plan, &bench.geometry, STRIPE, Request::Write { range }, &health).unwrap();
    bench.execute(&plan, Host::Payload(Slice::zero(ByteCount(512)).into(), Durability::Cached));
}
