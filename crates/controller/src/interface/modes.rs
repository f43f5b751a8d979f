//! What write modes mean, for people.

use ondisk::WriteMode;

/// What a mode means: a sentence.
pub(crate) fn meaning(mode: WriteMode) -> &'static str {
    match mode {
        WriteMode::WriteThrough => {
            "a write is answered when the drives have it, and survives a power cut once it is flushed"
        }
        WriteMode::WriteBack => {
            "a write is answered when the cache has it: it survives the end of the daemon at once, and a power cut once it is flushed"
        }
        WriteMode::AlwaysWriteBack => {
            "a write and a flush are answered when the cache has them: they survive the end of the daemon; a power cut loses them until the drives have them"
        }
    }
}
