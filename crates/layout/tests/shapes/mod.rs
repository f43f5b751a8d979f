//! All shapes of all levels.
#![allow(dead_code)]

use layout::{CopyIndex, DataIndex, Geometry, Level, Role, Shape};
use units::{ByteCount, DriveCount, StripSize};

/// All levels on a number of drives, with each number of spans and copies and each layout.
pub fn all_shapes(drives: u16) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = Vec::new();
    for level in Level::ALL {
        let row = level.row();
        let plain = Shape::new(level, DriveCount(drives));
        let spanned = row.spans.clone().map(|spans| Shape { spans: Some(spans), ..plain });
        let copies = if row.mirror_arrangements.is_empty() {
            [None; 4]
        } else {
            [2, 3, 4, drives].map(Some)
        };
        let copied = spanned.flat_map(|shape| copies.map(|copies| Shape { copies, ..shape }));
        let arranged = copied
            .flat_map(|shape| {
                or_none(row.parity_arrangements).map(move |parity| Shape { parity, ..shape })
            })
            .flat_map(|shape| {
                or_none(row.mirror_arrangements).map(move |mirrors| Shape { mirrors, ..shape })
            });
        let first = shapes.len();
        for shape in arranged.filter(|shape| shape.check().is_ok()) {
            let full = shape.geometry(StripSize::MIN, ByteCount::MIB).unwrap().shape();
            if !shapes[first..].contains(&full) {
                shapes.push(full);
            }
        }
        if let Ok(default) = plain.geometry(StripSize::MIN, ByteCount::MIB) {
            assert!(shapes[first..].contains(&default.shape()), "{default} is among them");
        }
    }
    shapes
}

/// Each layout of a level, or `None` if it has none.
fn or_none<A: Copy>(arrangements: &[A]) -> impl Iterator<Item = Option<A>> + '_ {
    let none = arrangements.is_empty().then_some(None);
    arrangements.iter().copied().map(Some).chain(none)
}

/// The layouts of all shapes.
pub fn geometries(drives: u16, strip: StripSize, member_size: ByteCount) -> Vec<Geometry> {
    all_shapes(drives).iter().map(|shape| shape.geometry(strip, member_size).unwrap()).collect()
}

/// All roles in a stripe.
pub fn roles(g: &Geometry) -> Vec<Role> {
    let data = (0..g.data_strips()).flat_map(|index| {
        (0..g.copies())
            .map(move |copy| Role::Data { index: DataIndex(index), copy: CopyIndex(copy) })
    });
    let others = [
        (g.parity_strips() > 0, Role::P),
        (g.parity_strips() > 1, Role::Q),
        (g.spare_strips() > 0, Role::Spare),
    ];
    data.chain(others.into_iter().filter(|(has, _)| *has).map(|(_, role)| role)).collect()
}
