//! A plot as PNG: drawn by resvg, with the fonts of this machine. Left out of a program that is built without the feature `png`.

use crate::failure::{Failure, Outcome};
#[cfg(feature = "png")]
use resvg::{tiny_skia, usvg};
#[cfg(feature = "png")]
use std::sync::Arc;

/// Whether there is anything to draw with: it is found out before a measurement, not after it.
#[cfg(not(feature = "png"))]
pub fn check() -> Outcome {
    Err(Failure::refused(
        "this program draws no PNG; write --svg, or build one that does with 'cargo build --release -p softroc --features png'",
    ))
}

/// There is nothing to draw with.
#[cfg(not(feature = "png"))]
pub fn draw(_: &str) -> Outcome<Vec<u8>> {
    check().map(|()| Vec::new())
}

/// What draws is a part of the program.
#[cfg(feature = "png")]
pub fn check() -> Outcome {
    Ok(())
}

/// Pixels for each of the drawing's units: sharp on a dense screen and in print.
#[cfg(feature = "png")]
const SCALE: f32 = 3.0;

/// The bytes of the picture.
#[cfg(feature = "png")]
pub fn draw(svg: &str) -> Outcome<Vec<u8>> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_system_fonts();
    if fonts.is_empty() {
        return Err(Failure::failed(
            "this machine has no fonts to draw a PNG with; install some (fonts-dejavu-core), or write --svg",
        ));
    }
    let options = usvg::Options { fontdb: Arc::new(fonts), ..usvg::Options::default() };
    let tree = usvg::Tree::from_str(svg, &options)
        .map_err(|error| Failure::failed(format!("the plot cannot be drawn: {error}")))?;
    let size = tree.size();
    let pixels = |units: f32| (units * SCALE).ceil() as u32;
    let mut picture = tiny_skia::Pixmap::new(pixels(size.width()), pixels(size.height()))
        .ok_or_else(|| Failure::failed("the plot is too large to be drawn; write --svg"))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut picture.as_mut());
    picture.encode_png().map_err(|error| Failure::failed(format!("the plot cannot be drawn: {error}")))
}
