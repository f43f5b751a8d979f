//! Opens the SQLite files of SoftROC: the history and the results.
//!
//! **Invariants.** Only this user can read a new file. Symbolic links are not followed. A committed
//! transaction survives a power cut. A file with another layout stays unchanged.
//!
//! **Fault model.** Damage is reported as [`Unusable::File`] when a file is opened, and recognised
//! later by [`is_damage`]. What happens to the file is up to its owner.

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The page size of new files, in bytes.
pub const PAGE: u64 = 4096;

/// How long a statement waits for other processes that use the same file.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The layout of a file.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// Its application ID; 0: none.
    pub application: i64,
    /// Its version (`PRAGMA user_version`), above 0.
    pub version: i64,
    /// The statements that create it.
    pub create: &'a str,
}

/// Why a file cannot be used: a clause that completes a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// It is damaged, of another program, or of another version.
    File(String),
    /// No space, no permission, or in use: a later attempt may succeed.
    ForNow(String),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Unusable::File(why) | Unusable::ForNow(why)) = self;
        f.write_str(why)
    }
}

impl From<rusqlite::Error> for Unusable {
    fn from(error: rusqlite::Error) -> Unusable {
        match is_damage(&error) {
            true => Unusable::File(error.to_string()),
            false => Unusable::ForNow(error.to_string()),
        }
    }
}

/// Whether an error means that the file is damaged.
pub fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SchemaChanged)
    )
}

/// Opens a file with this layout, or creates it.
///
/// # Errors
/// When it cannot be used.
pub fn open(path: &Path, layout: Layout<'_>) -> Result<Connection, Unusable> {
    let path = place(path)?;
    let mut connection =
        Connection::open_with_flags(path, OpenFlags::default() | OpenFlags::SQLITE_OPEN_NOFOLLOW)?;
    connection.busy_timeout(LONGEST_WAIT)?;
    connection.pragma_update(None, "page_size", PAGE as i64)?;
    // FULL: a committed transaction is durable in each journal mode.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // An immediate transaction locks out other processes that create the tables.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !has_layout(&transaction, layout)? {
        transaction.execute_batch(layout.create)?;
        transaction.pragma_update(None, "application_id", layout.application)?;
        transaction.pragma_update(None, "user_version", layout.version)?;
    }
    transaction.commit()?;
    Ok(connection)
}

/// Reads the whole file for damage.
///
/// # Errors
/// When it is damaged.
pub fn check(connection: &Connection) -> Result<(), Unusable> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(Unusable::File(format!("it is damaged: {found}"))) }
}

/// Creates the file, unless it exists. Returns its path without links in its folders.
fn place(path: &Path) -> Result<PathBuf, Unusable> {
    let failed = |error: std::io::Error| Unusable::ForNow(format!("it cannot be opened: {error}"));
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => {
            return Err(Unusable::File("it is a symbolic link, which is not followed".to_owned()));
        }
        Ok(_) => {}
        Err(_) => {
            let made =
                std::fs::OpenOptions::new().create_new(true).append(true).mode(0o600).open(path);
            match made {
                // Another process has just created it.
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(failed(error));
                }
                _ => {}
            }
        }
    }
    // SQLite with NOFOLLOW rejects a link in any part of the path.
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(folder.canonicalize().map_err(failed)?.join(path.file_name().unwrap_or_default()))
}

/// Whether a file has this layout; `false`: it is empty.
fn has_layout(connection: &Connection, layout: Layout<'_>) -> Result<bool, Unusable> {
    let number = |query: &str| -> rusqlite::Result<i64> {
        connection.query_row(query, [], |row| row.get(0))
    };
    let has_tables = number("SELECT count(*) FROM sqlite_schema")? > 0;
    let (version, application) = (number("PRAGMA user_version")?, number("PRAGMA application_id")?);
    if has_tables && (application != layout.application || version == 0) {
        return Err(Unusable::File("it is the database of another program".to_owned()));
    }
    if version != 0 && version != layout.version {
        return Err(Unusable::File(format!(
            "its layout has version {version}, and this program supports {}",
            layout.version
        )));
    }
    Ok(has_tables)
}
