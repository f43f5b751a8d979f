//! Style, script and icon, compiled into the program.

/// A static file of pages.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its MIME type.
    pub kind: &'static str,
    /// Its content.
    pub text: &'static str,
}

/// The file of that name below `/console/assets/`.
pub fn asset(name: &str) -> Option<Asset> {
    match name {
        "console.css" => Some(Asset {
            kind: "text/css; charset=utf-8",
            text: include_str!("../assets/console.css"),
        }),
        "console.js" => Some(Asset {
            kind: "text/javascript; charset=utf-8",
            text: include_str!("../assets/console.js"),
        }),
        "icon.svg" => {
            Some(Asset { kind: "image/svg+xml", text: include_str!("../assets/icon.svg") })
        }
        _ => None,
    }
}
