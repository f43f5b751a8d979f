//! The database thread and its requests.

use crate::schema;
use database::Unusable;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use storagebench::{Detail, Environment, Method, Results, Row};

/// The reason of a failed database operation: a sentence.
#[derive(Debug)]
pub struct Error(String);

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error(error.to_string())
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Error {
        Error(format!("a stored value cannot be read: {error}"))
    }
}

/// The number of a run, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub i64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The state of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// In progress, or its process was killed.
    Running,
    /// The measurement is complete.
    Complete,
    /// An operator stopped it.
    Stopped,
    /// A target failed.
    Failed,
}

impl RunState {
    /// Its name in the database and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            RunState::Running => "running",
            RunState::Complete => "complete",
            RunState::Stopped => "stopped",
            RunState::Failed => "failed",
        }
    }

    fn parse(word: &str) -> Result<RunState> {
        [RunState::Running, RunState::Complete, RunState::Stopped, RunState::Failed]
            .into_iter()
            .find(|state| state.name() == word)
            .ok_or_else(|| Error::new(format!("'{word}' is not a state of a run")))
    }
}

/// A new run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewRun {
    /// Its name; may be empty or repeated: [`Store::find`] returns the latest of a name.
    pub name: String,
    /// The name of its host computer.
    pub host: String,
    /// Its start, in seconds since 1970.
    pub started_unix_s: u64,
}

/// A stored run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Run {
    /// Its number.
    pub id: RunId,
    /// Its name, or an empty string.
    pub name: String,
    /// The name of its host computer.
    pub host: String,
    /// Its start, in seconds since 1970.
    pub started_unix_s: u64,
    /// Its end, in seconds since 1970.
    pub ended_unix_s: Option<u64>,
    /// Its state.
    pub state: RunState,
    /// The measured targets.
    pub targets: Vec<String>,
    /// The load profiles.
    pub profiles: Vec<String>,
    /// The number of rows.
    pub rows: u64,
}

type Job = Box<dyn FnOnce(&mut Connection, &mut Option<Error>) + Send>;

/// The database. Dropping it waits until all pending data are written.
pub struct Store {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// Opens a database, or creates one that only this user can read.
    ///
    /// # Errors
    /// When the file cannot be opened, is not a results database, or is a symbolic link.
    pub fn open(path: &Path) -> Result<Store> {
        let shown = path.display().to_string();
        let mut connection = schema::open(path).map_err(|why| {
            let advice = match why {
                Unusable::File(_) => "; use another --state, or move the file elsewhere",
                Unusable::ForNow(_) => "",
            };
            Error(format!("the results database {shown} cannot be used: {why}{advice}"))
        })?;
        let (jobs, queue) = mpsc::channel::<Job>();
        let work = move || {
            let mut failed = None;
            for job in queue {
                job(&mut connection, &mut failed);
            }
        };
        let thread = std::thread::Builder::new()
            .name("results database".into())
            .spawn(work)
            .map_err(|error| {
                Error(format!("no thread can be started for the results database: {error}"))
            })?;
        Ok(Store { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs a request on the database thread and waits for its result.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Connection, &mut Option<Error>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let gone = || Error::new("the results database's thread has ended");
        let (answer, answered) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |connection, failed| {
            // The caller may have stopped waiting.
            let _ = answer.send(question(connection, failed));
        });
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
        answered.recv().map_err(|_| gone())?
    }

    /// Starts a run.
    ///
    /// # Errors
    /// When the run cannot be written.
    pub fn begin(&self, new: &NewRun, method: &Method, environment: &Environment) -> Result<RunId> {
        let new = new.clone();
        let (method, environment) =
            (serde_json::to_string(method)?, serde_json::to_string(environment)?);
        self.ask(move |connection, _| {
            connection.execute(
                "INSERT INTO runs (name, host, started_unix_s, state, method, environment, notes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, '[]')",
                params![
                    new.name,
                    new.host,
                    new.started_unix_s as i64,
                    RunState::Running.name(),
                    method,
                    environment
                ],
            )?;
            Ok(RunId(connection.last_insert_rowid()))
        })
    }

    /// Queues a row of a run; does not wait. [`Store::finish`] returns errors.
    pub fn add_row(&self, run: RunId, row: &Row) {
        let row = row.clone();
        let job: Job = Box::new(move |connection, failed| {
            if let Err(error) = insert(connection, run, row) {
                failed.get_or_insert(error);
            }
        });
        if let Some(jobs) = &self.jobs {
            // `finish` detects that the thread has ended.
            let _ = jobs.send(job);
        }
    }

    /// Ends a run; all its rows are written on return.
    ///
    /// # Errors
    /// When the run or one of its rows cannot be written.
    pub fn finish(
        &self,
        run: RunId,
        state: RunState,
        notes: &[String],
        ended_unix_s: u64,
    ) -> Result<()> {
        let notes = serde_json::to_string(notes)?;
        self.ask(move |connection, failed| {
            connection.execute(
                "UPDATE runs SET state = ?2, notes = ?3, ended_unix_s = ?4 WHERE id = ?1",
                params![run.0, state.name(), notes, ended_unix_s as i64],
            )?;
            match failed.take() {
                Some(Error(error)) => Err(Error(format!("a row could not be stored: {error}"))),
                None => Ok(()),
            }
        })
    }

    /// All runs, oldest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn list(&self) -> Result<Vec<Run>> {
        self.ask(|connection, _| {
            let mut query = connection.prepare("SELECT id FROM runs ORDER BY id")?;
            let ids: Vec<i64> =
                query.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            ids.into_iter().map(|id| run_of(connection, RunId(id))).collect()
        })
    }

    /// Finds a run by number, by `last`, or by name (the latest of that name).
    ///
    /// # Errors
    /// When there is none.
    pub fn find(&self, text: &str) -> Result<RunId> {
        let named = text.to_owned();
        let found = self.ask(move |connection, _| {
            let one = |sql: &str, key: &dyn rusqlite::ToSql| {
                connection.query_row(sql, [key], |row| row.get::<_, i64>(0)).optional()
            };
            let by_name =
                one("SELECT max(id) FROM runs WHERE name = ?1 HAVING max(id) NOT NULL", &named)?;
            Ok(match (by_name, named.parse::<i64>()) {
                (Some(id), _) => Some(id),
                (None, Ok(number)) => one("SELECT id FROM runs WHERE id = ?1", &number)?,
                (None, Err(_)) if named == "last" => {
                    one("SELECT max(id) FROM runs WHERE ?1 HAVING max(id) NOT NULL", &true)?
                }
                _ => None,
            })
        })?;
        found.map(RunId).ok_or_else(|| {
            Error(format!("there is no run '{text}'; softroc bench list shows all runs"))
        })
    }

    /// A run with its results.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn load(&self, run: RunId) -> Result<(Run, Results)> {
        self.ask(move |connection, _| {
            let about = run_of(connection, run)?;
            let (method, environment, notes): (String, String, String) = connection.query_row(
                "SELECT method, environment, notes FROM runs WHERE id = ?1",
                [run.0],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?;
            let mut results =
                Results::new(serde_json::from_str(&method)?, serde_json::from_str(&environment)?);
            results.notes = serde_json::from_str(&notes)?;
            let mut query =
                connection.prepare("SELECT row, detail FROM rows WHERE run = ?1 ORDER BY place")?;
            let texts = query
                .query_map([run.0], |row: &SqlRow<'_>| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<Vec<(String, Option<String>)>>>()?;
            for (row, detail) in texts {
                let mut row: Row = serde_json::from_str(&row)?;
                row.detail = detail
                    .map(|detail| serde_json::from_str::<Detail>(&detail).map(Box::new))
                    .transpose()?;
                results.add_row(row);
            }
            Ok((about, results))
        })
    }

    /// Deletes a run.
    ///
    /// # Errors
    /// When there is none, or it cannot be deleted.
    pub fn delete(&self, run: RunId) -> Result<()> {
        self.ask(move |connection, _| {
            match connection.execute("DELETE FROM runs WHERE id = ?1", [run.0])? {
                0 => Err(Error(format!("there is no run {run}"))),
                _ => Ok(()),
            }
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

fn insert(connection: &Connection, run: RunId, mut row: Row) -> Result<()> {
    let detail = row.detail.take().map(|detail| serde_json::to_string(&detail)).transpose()?;
    connection.execute(
        "INSERT INTO rows (run, place, target, profile, outstanding, iops, row, detail)
         VALUES (?1, (SELECT count(*) FROM rows WHERE run = ?1), ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            run.0,
            row.target,
            row.profile,
            row.outstanding,
            row.iops,
            serde_json::to_string(&row)?,
            detail
        ],
    )?;
    Ok(())
}

fn run_of(connection: &Connection, run: RunId) -> Result<Run> {
    let distinct = |column: &str| -> Result<Vec<String>> {
        let sql = format!(
            "SELECT {column} FROM rows WHERE run = ?1 GROUP BY {column} ORDER BY min(place)"
        );
        let mut query = connection.prepare(&sql)?;
        let names = query.query_map([run.0], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        Ok(names)
    };
    let found = connection
        .query_row(
            "SELECT name, host, started_unix_s, ended_unix_s, state,
                    (SELECT count(*) FROM rows WHERE run = runs.id) FROM runs WHERE id = ?1",
            [run.0],
            |row| {
                let ended: Option<i64> = row.get(3)?;
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get::<_, i64>(2)?,
                    ended,
                    row.get::<_, String>(4)?,
                    row.get(5)?,
                ))
            },
        )
        .optional()?;
    let (name, host, started, ended, state, rows): (String, String, i64, Option<i64>, String, i64) =
        found.ok_or_else(|| Error(format!("there is no run {run}")))?;
    Ok(Run {
        id: run,
        name,
        host,
        started_unix_s: started.max(0) as u64,
        ended_unix_s: ended.map(|ended| ended.max(0) as u64),
        state: RunState::parse(&state)?,
        targets: distinct("target")?,
        profiles: distinct("profile")?,
        rows: rows.max(0) as u64,
    })
}
