//! The database thread.
//!
//! The next batch retries a file that cannot be opened or written. Unwritten rows wait, within a
//! bound.

use super::schema;
use super::tables;
use super::{Limits, Notice, Read, Request, Row};
use crate::series::Points;
use database::{PAGE, Unusable};
use rusqlite::{Connection, ErrorCode};
use std::path::Path;
use std::sync::mpsc::Receiver;

/// The limit of rows that wait for a writable file: an hour and a half of 192 subjects.
const MOST_WAITING: usize = 17_280;

/// How often space is freed before a batch is dropped.
const MOST_ROOM: usize = 8;

struct Writer<'w> {
    path: &'w Path,
    limits: Limits,
    notice: &'w dyn Fn(Notice),
    connection: Option<Connection>,
    waiting: Vec<Row>,
    /// Whether the failure has been reported.
    is_reported: bool,
}

/// Processes requests until it is closed.
pub(super) fn run(
    path: &Path,
    limits: Limits,
    orders: &Receiver<Request>,
    notice: &dyn Fn(Notice),
) {
    let mut writer =
        Writer { path, limits, notice, connection: None, waiting: Vec::new(), is_reported: false };
    writer.open();
    while let Ok(order) = orders.recv() {
        match order {
            Request::Write { rows, now_s } => writer.write(rows, now_s),
            Request::Read(read) => writer.read(*read),
            Request::Close => break,
        }
    }
    if let Some(connection) = writer.connection.take()
        && let Err((_, error)) = connection.close()
    {
        writer.not_stored(error.to_string());
    }
}

impl Writer<'_> {
    /// Opens the file. An unreadable one is moved aside and replaced.
    fn open(&mut self) {
        let why = match schema::open(self.path, self.limits.bytes) {
            Ok(connection) => return self.connection = Some(connection),
            Err(Unusable::ForNow(why)) => return self.not_stored(why),
            Err(Unusable::File(why)) => why,
        };
        match schema::set_aside(self.path) {
            Ok(now_at) => (self.notice)(Notice::SetAside { why, now_at }),
            Err(stays) => return self.not_stored(format!("{why}; {stays}")),
        }
        match schema::open(self.path, self.limits.bytes) {
            Ok(connection) => self.connection = Some(connection),
            Err(Unusable::ForNow(why) | Unusable::File(why)) => self.not_stored(why),
        }
    }

    fn not_stored(&mut self, why: String) {
        if !std::mem::replace(&mut self.is_reported, true) {
            (self.notice)(Notice::NotStored { why });
        }
    }

    fn write(&mut self, rows: Vec<Row>, now_s: u64) {
        self.waiting.extend(rows);
        if self.connection.is_none() {
            self.open();
        }
        match self.try_write(now_s) {
            None => self.bound(),
            Some(Ok(())) => {
                self.waiting.clear();
                if std::mem::take(&mut self.is_reported) {
                    (self.notice)(Notice::StoredAgain);
                }
            }
            Some(Err(error)) => {
                // Damage found during a write: the next batch reopens the file, or moves it aside.
                if database::is_damage(&error) {
                    self.connection = None;
                }
                self.not_stored(error.to_string());
                self.bound();
            }
        }
    }

    /// Writes the waiting rows; `None` without a file.
    fn try_write(&mut self, now_s: u64) -> Option<rusqlite::Result<()>> {
        let connection = self.connection.as_mut()?;
        let mut written = tables::write(connection, &self.waiting, now_s);
        for _ in 0..MOST_ROOM {
            let is_full = written.as_ref().err().and_then(rusqlite::Error::sqlite_error_code)
                == Some(ErrorCode::DiskFull);
            if !is_full || !is_at_limit(connection, self.limits) {
                break;
            }
            match tables::shorten(connection) {
                Ok(true) => written = tables::write(connection, &self.waiting, now_s),
                Ok(false) => break,
                Err(error) => return Some(Err(error)),
            }
        }
        Some(written)
    }

    fn bound(&mut self) {
        let surplus = self.waiting.len().saturating_sub(MOST_WAITING);
        self.waiting.drain(..surplus);
    }

    fn read(&mut self, read: Read) {
        let Read { kind, name, from_s, to_s, step_s, answer } = read;
        let points = match &self.connection {
            None => Ok(Points::new(step_s(None))),
            Some(connection) => points(connection, (kind, name.as_deref()), (from_s, to_s), step_s)
                .map_err(|error| error.to_string()),
        };
        // The caller may have stopped waiting.
        let _ = answer.send(points);
    }
}

/// Reads quarters where minutes are deleted, then minutes.
fn points(
    connection: &Connection,
    (kind, name): (Option<super::Kind>, Option<&str>),
    (from_s, to_s): (u64, u64),
    step_s: Box<dyn FnOnce(Option<u64>) -> u64 + Send>,
) -> rusqlite::Result<Points> {
    let subjects = tables::subjects(connection, kind, name)?;
    let minutes_from = tables::minutes_from(connection)?.unwrap_or(to_s).min(to_s);
    let mut points = Points::new(step_s(Some(minutes_from)));
    tables::read(connection, "quarter", &subjects, (from_s, minutes_from), &mut points)?;
    tables::read(connection, "minute", &subjects, (from_s.max(minutes_from), to_s), &mut points)?;
    Ok(points)
}

/// Whether the file is near its size limit: then the disk is not full.
fn is_at_limit(connection: &Connection, limits: Limits) -> bool {
    let pages: rusqlite::Result<i64> =
        connection.query_row("PRAGMA page_count", [], |row| row.get(0));
    let most = i64::try_from(limits.bytes / PAGE).unwrap_or(i64::MAX);
    pages.is_ok_and(|pages| pages + 64 >= most)
}
