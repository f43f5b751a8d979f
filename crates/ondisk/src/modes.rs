//! What an operator may choose of how a volume uses the cache: one list of values each.

use serde::{Deserialize, Serialize};

/// A setting of a volume with a few values: an enum, how each is written, and all of them in order. The first is that of volumes
/// whose label says nothing.
macro_rules! setting {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident = $first_text:literal,
        $($(#[$value_doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug, Serialize, Deserialize)]
        pub enum $name {
            $(#[$first_doc])*
            #[default]
            #[serde(rename = $first_text)]
            $first,
            $($(#[$value_doc])* #[serde(rename = $text)] $value,)*
        }

        impl $name {
            /// All there are.
            pub const ALL: &[$name] = &[$name::$first, $($name::$value),*];

            /// As it is written.
            pub fn name(self) -> &'static str {
                match self {
                    $name::$first => $first_text,
                    $($name::$value => $text,)*
                }
            }

            /// The one that is written so.
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
    /// When a host is told that its write is done.
    WriteMode {
        /// When the drives have it.
        WriteThrough = "write-through",
        /// When a log that outlives the power has it; without one, when the drives have it.
        LoggedWriteBack = "logged-write-back",
        /// When the cache has it. What a flush covers is on the drives when that is answered.
        WriteBack = "write-back",
        /// When the cache has it; and flushes are answered at once.
        AlwaysWriteBack = "always-write-back",
    }
}

setting! {
    /// Whether what follows a stream of reads is read before a host asks for it.
    ReadMode {
        /// It is not.
        NoReadAhead = "no-read-ahead",
        /// It is.
        ReadAhead = "read-ahead",
    }
}

setting! {
    /// Whether what hosts read is kept for whoever reads it next.
    CacheMode {
        /// It is not.
        Direct = "direct",
        /// It is, as long as there is memory for it.
        Cached = "cached",
    }
}

setting! {
    /// Which sectors hosts of a volume are told of.
    SectorFormat {
        /// Those of its drives: logical ones as large as the largest among them, physical ones too.
        Default = "default",
        /// 512 bytes, logical and physical.
        Native512 = "512n",
        /// Logical ones of 512 bytes on physical ones of 4096 bytes.
        Emulated512 = "512e",
        /// 4096 bytes, logical and physical.
        Native4096 = "4Kn",
    }
}

setting! {
    /// What is wished of the drives' own write caches.
    DriveCache {
        /// They are left as the drives have them.
        Unchanged = "unchanged",
        /// Drives may answer writes from them.
        On = "on",
        /// What a drive has taken is durable.
        Off = "off",
    }
}
