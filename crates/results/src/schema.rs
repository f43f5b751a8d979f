//! The database schema.

use database::{Layout, Unusable};
use rusqlite::Connection;
use std::path::Path;

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

/// Opens or creates the file.
pub(crate) fn open(path: &Path) -> Result<Connection, Unusable> {
    let connection =
        database::open(path, Layout { application: 0, version: VERSION, create: TABLES })?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}
