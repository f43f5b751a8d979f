//! The database schema and its creation.

use crate::store::{Error, Result};
use rusqlite::Connection;

/// The version of the schema.
const VERSION: i64 = 1;

const TABLES: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    started_unix_s INTEGER NOT NULL,
    ended_unix_s INTEGER,
    state TEXT NOT NULL,
    method TEXT NOT NULL,
    environment TEXT NOT NULL,
    notes TEXT NOT NULL
) STRICT;
CREATE TABLE rows (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    target TEXT NOT NULL,
    profile TEXT NOT NULL,
    outstanding INTEGER NOT NULL,
    iops REAL NOT NULL,
    row TEXT NOT NULL,
    detail TEXT,
    PRIMARY KEY (run, place)
) STRICT;
CREATE INDEX rows_by_profile ON rows (profile, target, outstanding);
";

/// Creates the tables in a new file, and checks the version of an existing one.
pub(crate) fn prepare(connection: &mut Connection) -> Result<()> {
    // Several processes may measure at the same time.
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // FULL: a committed transaction is durable in each journal mode.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // An immediate transaction locks out other processes that create the tables.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match version {
        0 => {
            let others: i64 =
                transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
            if others > 0 {
                return Err(Error::new("it is the database of another program; use another --state"));
            }
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        VERSION => {}
        other => {
            return Err(Error::new(format!(
                "its layout has version {other}, and this program supports {VERSION}; use the program that wrote it, or another --state"
            )));
        }
    }
    transaction.commit()?;
    Ok(())
}
