//! State files: small documents in the state folder, one per file, of the controller and of its
//! interfaces.
//!
//! **Owns** the format of these files (`frame.rs`), and the handling of unreadable ones
//! ([`StateFile`]). The content belongs to the module that declares the file.
//!
//! **Invariants.** A file is replaced as a whole; its previous version is kept as `NAME.previous`.
//! Unreadable content is never overwritten or deleted: it is moved to `NAME.unreadable-1` to `-8`,
//! or nothing is stored. After a crash at any time, `NAME` or `NAME.previous` is intact. A missing
//! file with a previous version counts as damaged, not as new.
//!
//! **Fault model.** Content may be empty, cut off, changed, from a later version of SoftROC or
//! unreadable, or a folder may have the file's name. The folder may be full or read-only. Not
//! covered: a deliberate change of a file and its checksum.
//!
//! **Callers**: `events`, on behalf of all modules
//! ([`Events::load_state`](crate::events::Events::load_state)); interfaces, for their own files.

mod frame;

use platform::StateStore;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// The maximum number of unreadable versions kept of each file; beyond that, nothing more is
/// stored.
const MOST_ASIDE: usize = 8;

/// The format of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Toml,
    Json,
}

/// A file of the state folder that holds a `T`.
pub struct StateFile<T> {
    name: &'static str,
    about: &'static str,
    form: Form,
    format: u32,
    is_complete: bool,
    is_guarded: bool,
    kind: PhantomData<fn(T) -> T>,
}

/// The content of a file.
#[derive(Debug)]
pub struct Loaded<T> {
    /// The value; `None` if the file is missing or unreadable.
    pub value: Option<T>,
    /// The problem of the file.
    pub trouble: Option<Trouble>,
}

/// A file that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// Its name.
    pub file: &'static str,
    /// Its content, as a phrase for messages.
    pub about: &'static str,
    /// Why: the end of a sentence.
    pub why: String,
    /// Its current location.
    pub place: Place,
    /// Whether the previous version was read instead.
    pub from_previous: bool,
    /// Whether the previous version is as new as the file was.
    pub is_complete: bool,
}

/// The location of an unreadable file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The file is missing, but its previous version exists.
    Missing,
    /// Moved to this name.
    Aside(String),
    /// In place, until an operator's command replaces it.
    Guarded,
    /// In place, as it could not be moved; nothing is stored instead. The reason.
    Stuck(String),
}

impl Trouble {
    /// What happened, as a sentence without its end: the file's owner adds the consequence.
    pub fn sentence(&self) -> String {
        let Trouble { file, about, why, .. } = self;
        let kept = match &self.place {
            Place::Missing => String::new(),
            Place::Aside(name) => format!("; it is kept as {name}"),
            Place::Guarded => "; it is unchanged".to_owned(),
            Place::Stuck(why) => {
                format!("; the unreadable file keeps its name, and no change is stored ({why})")
            }
        };
        let previous = match (self.from_previous, self.is_complete) {
            (false, _) => "",
            (true, true) => "; its copy was read",
            (true, false) => "; its previous version was read",
        };
        format!("{about} ({file} of the state folder) cannot be read: {why}{kept}{previous}")
    }
}

impl<T> StateFile<T> {
    const fn new(name: &'static str, about: &'static str, form: Form) -> StateFile<T> {
        StateFile {
            name,
            about,
            form,
            format: 1,
            is_complete: false,
            is_guarded: false,
            kind: PhantomData,
        }
    }

    /// A TOML file, and its content as a phrase.
    pub const fn toml(name: &'static str, about: &'static str) -> StateFile<T> {
        StateFile::new(name, about, Form::Toml)
    }

    /// A JSON file, and its content as a phrase.
    pub const fn json(name: &'static str, about: &'static str) -> StateFile<T> {
        StateFile::new(name, about, Form::Json)
    }

    /// The same for a file of which no version may be lost: the previous version is a copy of the
    /// newest.
    #[must_use]
    pub const fn complete(mut self) -> StateFile<T> {
        self.is_complete = true;
        self
    }

    /// The same for a file whose earlier version must not take effect automatically: only an
    /// operator's command replaces an unreadable file.
    #[must_use]
    pub const fn guarded(mut self) -> StateFile<T> {
        self.is_guarded = true;
        self
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its content, as a phrase for messages.
    pub const fn about(&self) -> &'static str {
        self.about
    }

    fn previous(&self) -> String {
        format!("{}.previous", self.name)
    }
}

impl<T: Serialize + DeserializeOwned> StateFile<T> {
    /// Loads the file. An unreadable file is moved aside, and its previous version is used instead.
    pub async fn load(&self, store: &dyn StateStore) -> Loaded<T> {
        let current = self.read(store, self.name).await;
        let is_missing = matches!(current, Ok(None));
        let why = match current {
            Ok(Some(value)) => {
                self.make_copy(store, &value).await;
                return Loaded { value: Some(value), trouble: None };
            }
            Ok(None) => "it is missing".to_owned(),
            Err(why) => why,
        };
        let previous = self.read(store, &self.previous()).await;
        if is_missing && matches!(previous, Ok(None)) {
            return Loaded { value: None, trouble: None };
        }
        let mut trouble = Trouble {
            file: self.name,
            about: self.about,
            why,
            place: Place::Missing,
            from_previous: false,
            is_complete: self.is_complete,
        };
        if self.is_guarded {
            trouble.place = if is_missing { Place::Missing } else { Place::Guarded };
            return Loaded { value: None, trouble: Some(trouble) };
        }
        if previous.is_err() {
            // If both versions cannot be moved, the next start finds the rest.
            if let Err(why) = put_aside(store, &self.previous(), self.name).await {
                trouble.why = format!("{}, nor its previous version ({why})", trouble.why);
            }
        }
        if !is_missing {
            trouble.place = match put_aside(store, self.name, self.name).await {
                Ok(name) => Place::Aside(name),
                Err(why) => Place::Stuck(why),
            };
        }
        let value = previous.ok().flatten();
        trouble.from_previous = value.is_some();
        if let Some(value) = value.as_ref().filter(|_| !matches!(trouble.place, Place::Stuck(_)))
            && let Err(why) = self.replace(store, value).await
        {
            tracing::warn!(
                "the previous version of {} is used, and could not be stored under that name: \
                 {why}",
                self.name
            );
        }
        Loaded { value, trouble: Some(trouble) }
    }

    /// Creates the copy if it is required and missing: earlier versions made none.
    async fn make_copy(&self, store: &dyn StateStore, value: &T) {
        if !self.is_complete || matches!(self.read(store, &self.previous()).await, Ok(Some(_))) {
            return;
        }
        let made = async {
            self.clear_previous(store).await?;
            let text = self.text(value)?;
            store.store(&self.previous(), text).await.map_err(|error| error.to_string())
        };
        if let Err(why) = made.await {
            tracing::warn!("{} has no copy: {why}", self.name);
        }
    }

    /// The previous version of a [guarded](Self::guarded) file, for a command that replaces the
    /// file.
    ///
    /// # Errors
    /// Why there is none: the end of a sentence.
    pub async fn load_previous(&self, store: &dyn StateStore) -> Result<Option<T>, String> {
        self.read(store, &self.previous()).await
    }

    /// Stores the value: durable when the future completes. An unreadable file is moved aside
    /// first.
    ///
    /// # Errors
    /// Why it is not stored: the end of a sentence.
    pub async fn store(&self, store: &dyn StateStore, value: &T) -> Result<(), String> {
        match self.read(store, self.name).await {
            Ok(Some(_)) => {}
            Ok(None) => self.clear_previous(store).await?,
            Err(_) => {
                self.clear_previous(store).await?;
                if self.is_guarded && matches!(self.read(store, &self.previous()).await, Ok(None)) {
                    // After a crash, the file does not look as if it had never existed.
                    let text = self.text(value)?;
                    store.store(&self.previous(), text).await.map_err(|error| error.to_string())?;
                }
                put_aside(store, self.name, self.name).await?;
            }
        }
        self.replace(store, value).await
    }

    /// Moves an unreadable previous version aside, so that it is not overwritten.
    async fn clear_previous(&self, store: &dyn StateStore) -> Result<(), String> {
        let previous = self.previous();
        match self.read(store, &previous).await {
            Ok(_) => Ok(()),
            Err(_) => put_aside(store, &previous, self.name).await.map(|_| ()),
        }
    }

    async fn replace(&self, store: &dyn StateStore, value: &T) -> Result<(), String> {
        let text = self.text(value)?;
        let previous = self.previous();
        let failed = |error: platform::Error| error.to_string();
        store.replace(self.name, &previous, text.clone()).await.map_err(failed)?;
        if self.is_complete {
            store.store(&previous, text).await.map_err(failed)?;
        }
        Ok(())
    }

    fn text(&self, value: &T) -> Result<Vec<u8>, String> {
        let body = match self.form {
            Form::Toml => toml::to_string(value).map_err(|error| error.to_string())?,
            Form::Json => {
                serde_json::to_string_pretty(value).map_err(|error| error.to_string())? + "\n"
            }
        };
        Ok(frame::framed(self.format, &body))
    }

    /// Reads one version. Error texts never quote the content, which may include secrets.
    async fn read(&self, store: &dyn StateStore, name: &str) -> Result<Option<T>, String> {
        let Some(bytes) = store.load(name).await.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let body = frame::body(self.format, &bytes)?;
        let read = match self.form {
            Form::Toml => toml::from_str(body).map_err(|error| error.message().to_owned()),
            Form::Json => serde_json::from_str(body).map_err(|error| {
                format!("it is invalid in line {}, column {}", error.line(), error.column())
            }),
        };
        read.map(Some)
    }
}

/// Renames the unreadable file `name` to a unique name that begins with `as_name`, and returns it.
///
/// # Errors
/// Why it stays in place: the end of a sentence.
pub async fn put_aside(
    store: &dyn StateStore,
    name: &str,
    as_name: &str,
) -> Result<String, String> {
    for number in 1..=MOST_ASIDE {
        let aside = format!("{as_name}.unreadable-{number}");
        if store.set_aside(name, &aside).await.map_err(|error| error.to_string())? {
            return Ok(aside);
        }
    }
    Err(format!(
        "{MOST_ASIDE} files of that name exist already; move {as_name}.unreadable-1 to \
        -{MOST_ASIDE} elsewhere"
    ))
}

/// The document of a state file, intact or not, without its header line.
pub fn document(bytes: &[u8]) -> &[u8] {
    frame::document(bytes)
}
