//! A plot as PNG, drawn by resvg with the fonts of this machine. Only with the feature `png`.

use crate::failure::{Failure, Outcome};
#[cfg(feature = "png")]
use resvg::{tiny_skia, usvg};
#[cfg(feature = "png")]
use std::sync::Arc;

/// Checks before a measurement whether PNG is supported.
#[cfg(not(feature = "png"))]
pub fn check() -> Outcome {
    Err(Failure::refused(
        "this program was built without PNG; use --svg, or build it with 'cargo build --release \
         -p softroc --features png'",
    ))
}

/// PNG is not supported.
#[cfg(not(feature = "png"))]
pub fn draw(_: &str) -> Outcome<Vec<u8>> {
    check().map(|()| Vec::new())
}

/// PNG is supported.
#[cfg(feature = "png")]
pub fn check() -> Outcome {
    Ok(())
}

/// Pixels per unit of the drawing: sharp on a dense screen and in print.
#[cfg(feature = "png")]
const SCALE: f32 = 3.0;

/// The bytes of the PNG file.
#[cfg(feature = "png")]
pub fn draw(svg: &str) -> Outcome<Vec<u8>> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_system_fonts();
    if fonts.is_empty() {
        return Err(Failure::failed(
            "this machine has no fonts for a PNG; install some (fonts-dejavu-core), or use --svg",
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
    picture
        .encode_png()
        .map_err(|error| Failure::failed(format!("the plot cannot be drawn: {error}")))
}
