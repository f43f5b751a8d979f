//! The cache settings of a volume: a list of values for each.

use serde::{Deserialize, Serialize};

/// A setting of a volume: an enum, the text of each value, and all values in order. The first value
/// applies to volumes without an entry in the label.
macro_rules! setting {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident = $first_text:literal,
        $($(#[$value_doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize,
        )]
        pub enum $name {
            $(#[$first_doc])*
            #[default]
            #[serde(rename = $first_text)]
            $first,
            $($(#[$value_doc])* #[serde(rename = $text)] $value,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &[$name] = &[$name::$first, $($name::$value),*];

            /// Its text.
            pub fn name(self) -> &'static str {
                match self {
                    $name::$first => $first_text,
                    $($name::$value => $text,)*
                }
            }

            /// The value with that text.
            pub fn named(text: &str) -> Option<$name> {
                $name::ALL.iter().copied().find(|value| value.name() == text)
            }

            pub(crate) fn is_default(&self) -> bool {
                *self == $name::default()
            }
        }
    };
}

setting! {
    /// When a write is acknowledged.
    WriteMode {
        /// When the drives have it.
        WriteThrough = "write-through",
        /// When a log device has it; without one, when the drives have it.
        LoggedWriteBack = "logged-write-back",
        /// When the cache has it. A flush is acknowledged when its data are on the drives.
        WriteBack = "write-back",
        /// When the cache has it; flushes are acknowledged at once.
        AlwaysWriteBack = "always-write-back",
    }
}

setting! {
    /// Whether the data behind a stream of reads are read in advance.
    ReadMode {
        /// No read-ahead.
        NoReadAhead = "no-read-ahead",
        /// Read-ahead.
        ReadAhead = "read-ahead",
    }
}

setting! {
    /// Whether data that hosts read stay in the cache.
    CacheMode {
        /// Not cached.
        Direct = "direct",
        /// Cached while memory is available.
        Cached = "cached",
    }
}

setting! {
    /// The sectors that are advertised to the hosts of a volume.
    SectorFormat {
        /// The largest logical sector of its drives, and the largest physical one.
        Default = "default",
        /// 512 bytes, logical and physical.
        Native512 = "512n",
        /// Logical sectors of 512 bytes on physical sectors of 4096 bytes.
        Emulated512 = "512e",
        /// 4096 bytes, logical and physical.
        Native4096 = "4Kn",
    }
}

setting! {
    /// The desired state of the drives' own write caches.
    DriveCache {
        /// Unchanged.
        Unchanged = "unchanged",
        /// On: drives may acknowledge writes from their cache.
        On = "on",
        /// Off: acknowledged writes of a drive are durable.
        Off = "off",
    }
}
