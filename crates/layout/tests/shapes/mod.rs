//! Every shape that every level can have.
#![allow(dead_code)]

use layout::{CopyIndex, DataIndex, Geometry, Level, MirrorArrangement, ParityArrangement, Role, Shape};
use units::{ByteCount, DriveCount, StripSize};

/// Every level on so many drives, in every number of spans and copies and every arrangement that it takes.
pub fn all_shapes(drives: u16) -> Vec<Shape> {
    let spans = || (0..=17).map(|spans| (spans > 0).then_some(spans));
    let copies = [None, Some(2), Some(3), Some(4), Some(drives)];
    let parity = || std::iter::once(None).chain(ParityArrangement::ALL.map(Some));
    let mirrors = || std::iter::once(None).chain(MirrorArrangement::ALL.map(Some));
    let mut shapes: Vec<Shape> = Vec::new();
    for level in Level::ALL {
        let plain = Shape::new(level, DriveCount(drives));
        let spanned = spans().map(|spans| Shape { spans, ..plain });
        let copied = spanned.flat_map(|shape| copies.map(|copies| Shape { copies, ..shape }));
        let arranged = copied
            .flat_map(|shape| parity().map(move |parity| Shape { parity, ..shape }))
            .flat_map(|shape| mirrors().map(move |mirrors| Shape { mirrors, ..shape }));
        for shape in arranged.filter(|shape| shape.check().is_ok()) {
            // What is left out is a default, which is among those that are not.
            let full = shape.geometry(StripSize::MIN, ByteCount::MIB).unwrap().shape();
            if !shapes.contains(&full) {
                shapes.push(full);
            }
        }
    }
    shapes
}

/// The same, laid out.
pub fn geometries(drives: u16, strip: StripSize, member_size: ByteCount) -> Vec<Geometry> {
    all_shapes(drives).iter().map(|shape| shape.geometry(strip, member_size).unwrap()).collect()
}

/// Every role in a stripe.
pub fn roles(g: &Geometry) -> Vec<Role> {
    let data = (0..g.data_strips()).flat_map(|index| {
        (0..g.copies()).map(move |copy| Role::Data { index: DataIndex(index), copy: CopyIndex(copy) })
    });
    let others = [
        (g.parity_strips() > 0, Role::P),
        (g.parity_strips() > 1, Role::Q),
        (g.spare_strips() > 0, Role::Spare),
    ];
    data.chain(others.into_iter().filter(|(has, _)| *has).map(|(_, role)| role)).collect()
}
