//! Rows of the file: write, roll up, delete, read.

use super::{Kind, Row, Subject};
use crate::encoding::{decode, encode};
use crate::interval::Interval;
use crate::recorder::MINUTE_S;
use crate::series::Points;
use rusqlite::{Connection, OptionalExtension, Statement, Transaction, params};
use std::collections::BTreeMap;

/// The length of an interval of the coarser table.
pub(super) const QUARTER_S: u64 = 900;

/// How long minutes are stored.
const MINUTES_S: u64 = 86_400;

/// How long quarters are stored.
const QUARTERS_S: u64 = 30 * 86_400;

/// The delay of the roll-up after a quarter's end: rows of its last minute may still arrive.
const GRACE_S: u64 = 2 * MINUTE_S;

/// Times are seconds since 1970, far below the maximum.
fn sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn kind_number(kind: Kind) -> i64 {
    match kind {
        Kind::Volume => 0,
        Kind::Drive => 1,
    }
}

/// Writes rows, adding to stored rows of the same minute. Then rolls up minutes into quarters, and
/// deletes expired rows.
pub(super) fn write(connection: &mut Connection, rows: &[Row], now_s: u64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut statements = Statements::new(&transaction)?;
        for row in rows {
            let subject = statements.subject(&transaction, &row.subject, row.at_s)?;
            statements.add(row.at_s, subject, &row.interval)?;
        }
    }
    roll_up(&transaction, now_s)?;
    retain(&transaction, now_s)?;
    transaction.commit()
}

/// The statements for each row of a batch, prepared once.
struct Statements<'t> {
    find: Statement<'t>,
    make: Statement<'t>,
    change: Statement<'t>,
    get: Statement<'t>,
    put: Statement<'t>,
}

impl<'t> Statements<'t> {
    fn new(transaction: &'t Transaction<'_>) -> rusqlite::Result<Statements<'t>> {
        Ok(Statements {
            find: transaction
                .prepare("SELECT id, name, last_s FROM subject WHERE kind = ?1 AND key = ?2")?,
            make: transaction
                .prepare("INSERT INTO subject (kind, key, name, last_s) VALUES (?1, ?2, ?3, ?4)")?,
            change: transaction
                .prepare("UPDATE subject SET name = ?2, last_s = ?3 WHERE id = ?1")?,
            get: transaction.prepare("SELECT data FROM minute WHERE t = ?1 AND subject = ?2")?,
            put: transaction.prepare("INSERT OR REPLACE INTO minute VALUES (?1, ?2, ?3)")?,
        })
    }

    /// The ID of a subject; inserts it if it is new.
    fn subject(
        &mut self,
        transaction: &Transaction<'_>,
        subject: &Subject,
        at_s: u64,
    ) -> rusqlite::Result<i64> {
        let Subject { kind, key, name } = subject;
        let row = |row: &rusqlite::Row<'_>| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
        };
        let found: Option<(i64, String, i64)> =
            self.find.query_row(params![kind_number(*kind), key], row).optional()?;
        let Some((id, named, last)) = found else {
            self.make.execute(params![kind_number(*kind), key, name, sql(at_s)])?;
            return Ok(transaction.last_insert_rowid());
        };
        // `last_s` needs a precision of a quarter only.
        if named != *name || sql(at_s) > last + sql(QUARTER_S) {
            self.change.execute(params![id, name, sql(at_s).max(last)])?;
        }
        Ok(id)
    }

    fn add(&mut self, at_s: u64, subject: i64, more: &Interval) -> rusqlite::Result<()> {
        let before: Option<Vec<u8>> =
            self.get.query_row(params![sql(at_s), subject], |row| row.get(0)).optional()?;
        let mut interval = before.and_then(|bytes| decode(&bytes)).unwrap_or_default();
        interval.merge(more);
        self.put.execute(params![sql(at_s), subject, encode(&interval)])?;
        Ok(())
    }
}

/// Rolls up the minutes of each quarter that has ended. It is idempotent: a quarter is the sum of
/// its minutes.
fn roll_up(transaction: &Transaction<'_>, now_s: u64) -> rusqlite::Result<()> {
    let end = now_s.saturating_sub(GRACE_S) / QUARTER_S * QUARTER_S;
    let rolled_to = rolled_to(transaction)?;
    if rolled_to == end {
        return Ok(());
    }
    // The clock was ahead and is set back: repeat the last hour.
    let mut at_s = if rolled_to > end { end.saturating_sub(4 * QUARTER_S) } else { rolled_to };
    let mut put = transaction.prepare("INSERT OR REPLACE INTO quarter VALUES (?1, ?2, ?3)")?;
    while let Some(next) = first_minute(transaction, at_s, end)? {
        let begin = next / QUARTER_S * QUARTER_S;
        for (subject, interval) in sums(transaction, begin)? {
            put.execute(params![sql(begin), subject, encode(&interval)])?;
        }
        at_s = begin + QUARTER_S;
    }
    transaction
        .execute("INSERT OR REPLACE INTO meta VALUES ('rolled_to', ?1)", [end.to_string()])
        .map(|_| ())
}

/// The end of the roll-up.
fn rolled_to(connection: &Connection) -> rusqlite::Result<u64> {
    let kept: Option<String> = connection
        .query_row("SELECT value FROM meta WHERE key = 'rolled_to'", [], |row| row.get(0))
        .optional()?;
    Ok(kept.and_then(|text| text.parse().ok()).unwrap_or(0))
}

fn first_minute(connection: &Connection, from_s: u64, to_s: u64) -> rusqlite::Result<Option<u64>> {
    let mut first = connection.prepare("SELECT min(t) FROM minute WHERE t >= ?1 AND t < ?2")?;
    let found: Option<i64> = first.query_row([sql(from_s), sql(to_s)], |row| row.get(0))?;
    Ok(found.and_then(|at_s| u64::try_from(at_s).ok()))
}

/// The sums of a quarter's minutes, by subject.
fn sums(transaction: &Transaction<'_>, begin: u64) -> rusqlite::Result<BTreeMap<i64, Interval>> {
    let mut sums: BTreeMap<i64, Interval> = BTreeMap::new();
    let mut rows =
        transaction.prepare("SELECT subject, data FROM minute WHERE t >= ?1 AND t < ?2")?;
    let mut rows = rows.query([sql(begin), sql(begin + QUARTER_S)])?;
    while let Some(row) = rows.next()? {
        let bytes: Vec<u8> = row.get(1)?;
        if let Some(interval) = decode(&bytes) {
            sums.entry(row.get(0)?).or_default().merge(&interval);
        }
    }
    Ok(sums)
}

fn retain(transaction: &Transaction<'_>, now_s: u64) -> rusqlite::Result<()> {
    let minutes = now_s.saturating_sub(MINUTES_S) / QUARTER_S * QUARTER_S;
    let quarters = now_s.saturating_sub(QUARTERS_S) / QUARTER_S * QUARTER_S;
    transaction.execute("DELETE FROM minute WHERE t < ?1", [sql(minutes)])?;
    transaction.execute("DELETE FROM quarter WHERE t < ?1", [sql(quarters)])?;
    transaction.execute("DELETE FROM subject WHERE last_s < ?1", [sql(quarters)])?;
    Ok(())
}

/// Frees space at the size limit: deletes the oldest sixteenth of the quarters. Returns whether
/// rows were deleted.
pub(super) fn shorten(connection: &mut Connection) -> rusqlite::Result<bool> {
    let (first, last): (Option<i64>, Option<i64>) =
        connection.query_row("SELECT min(t), max(t) FROM quarter", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let (Some(first), Some(last)) = (first, last) else { return Ok(false) };
    let until = first + ((last - first) / 16).max(sql(QUARTER_S));
    connection.execute("DELETE FROM quarter WHERE t < ?1", [until]).map(|deleted| deleted > 0)
}

/// The start of the minutes to read; before it, quarters are read. A quarter with deleted minutes
/// is read as a quarter, if it was rolled up.
pub(super) fn minutes_from(connection: &Connection) -> rusqlite::Result<Option<u64>> {
    let Some(oldest) = first_minute(connection, 0, u64::MAX)? else { return Ok(None) };
    let next = oldest.div_ceil(QUARTER_S) * QUARTER_S;
    let is_added_up = rolled_to(connection)? >= next;
    Ok(Some(if is_added_up { next } else { oldest / QUARTER_S * QUARTER_S }))
}

/// The IDs of the subjects of a query.
pub(super) fn subjects(
    connection: &Connection,
    kind: Option<Kind>,
    name: Option<&str>,
) -> rusqlite::Result<BTreeMap<i64, Subject>> {
    let mut all = connection.prepare("SELECT id, kind, key, name FROM subject")?;
    let mut rows = all.query([])?;
    let mut found = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let of = if row.get::<_, i64>(1)? == 0 { Kind::Volume } else { Kind::Drive };
        let subject = Subject { kind: of, key: row.get(2)?, name: row.get(3)? };
        if kind.is_none_or(|kind| kind == of) && name.is_none_or(|name| subject.is_called(name)) {
            found.insert(row.get(0)?, subject);
        }
    }
    Ok(found)
}

/// Adds the rows of a table in a range of time to points.
pub(super) fn read(
    connection: &Connection,
    table: &str,
    subjects: &BTreeMap<i64, Subject>,
    (from_s, to_s): (u64, u64),
    points: &mut Points,
) -> rusqlite::Result<()> {
    let text = format!("SELECT t, subject, data FROM {table} WHERE t >= ?1 AND t < ?2");
    let mut rows = connection.prepare(&text)?;
    let mut rows = rows.query([sql(from_s), sql(to_s)])?;
    while let Some(row) = rows.next()? {
        let Some(subject) = subjects.get(&row.get(1)?) else { continue };
        let data: Vec<u8> = row.get(2)?;
        if let (Ok(at_s), Some(interval)) = (u64::try_from(row.get::<_, i64>(0)?), decode(&data)) {
            points.add(subject, at_s, &interval);
        }
    }
    Ok(())
}

impl Subject {
    /// Whether it has that name or key.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.key == name
    }
}
