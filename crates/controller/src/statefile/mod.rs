//! The room of state files: small documents in the state folder, one a file, of the controller and of its interfaces.
//!
//! **Owns** how such a file looks (`frame.rs`), and what becomes of one that cannot be read ([`StateFile`]). What is in it belongs to the room
//! that declares it.
//!
//! **Invariants.** A file is replaced as a whole, and its previous version is kept beside it (`NAME.previous`). Content that cannot be read is
//! never overwritten and never deleted: it is moved to `NAME.unreadable-1` to `-8`, or nothing is stored. At every moment a crash leaves
//! a version under `NAME` or `NAME.previous`. An absent file whose previous version is there counts as damaged, not as new.
//!
//! **Fault model.** Content may be empty, cut off, changed, from a later version of SoftROC, unreadable, or a folder may have its name. The folder may be
//! full, or not writable. Not covered: a file that was changed on purpose together with its checksum.
//!
//! **Who may call it**: `events`, on behalf of all rooms ([`Events::load_state`](crate::events::Events::load_state)); interfaces, for their own files.

mod frame;

use platform::StateStore;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// So many files that cannot be read are kept of each; where there are as many, no other is stored in their place.
const MOST_ASIDE: usize = 8;

/// How a document is written.
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

/// What a file held.
#[derive(Debug)]
pub struct Loaded<T> {
    /// It; `None` where there is no file, or none that can be read.
    pub value: Option<T>,
    /// What is wrong with the file.
    pub trouble: Option<Trouble>,
}

/// A file that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// Its name.
    pub file: &'static str,
    /// What it holds.
    pub about: &'static str,
    /// Why: the end of a sentence.
    pub why: String,
    /// Where it is now.
    pub place: Place,
    /// Whether its previous version was read in its place.
    pub from_previous: bool,
    /// Whether its previous version is as new as it was.
    pub is_complete: bool,
}

/// Where a file is that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// It is missing, though its previous version is there.
    Missing,
    /// Under that name.
    Aside(String),
    /// Where it was, until an order replaces it.
    Guarded,
    /// Where it was, as it could not be moved: nothing is stored in its place. Why.
    Stuck(String),
}

impl Trouble {
    /// What happened, in a sentence without its end: what follows from it is for the file's owner to say.
    pub fn sentence(&self) -> String {
        let Trouble { file, about, why, .. } = self;
        let kept = match &self.place {
            Place::Missing => String::new(),
            Place::Aside(name) => format!("; it is kept as {name}"),
            Place::Guarded => "; it is left as it is".to_owned(),
            Place::Stuck(why) => format!("; it stays where it is, and no change is stored there ({why})"),
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
        StateFile { name, about, form, format: 1, is_complete: false, is_guarded: false, kind: PhantomData }
    }

    /// A file in TOML, and what it holds.
    pub const fn toml(name: &'static str, about: &'static str) -> StateFile<T> {
        StateFile::new(name, about, Form::Toml)
    }

    /// A file in JSON, and what it holds.
    pub const fn json(name: &'static str, about: &'static str) -> StateFile<T> {
        StateFile::new(name, about, Form::Json)
    }

    /// The same, where no version may be missed: the previous version is a copy of the newest one.
    #[must_use]
    pub const fn complete(mut self) -> StateFile<T> {
        self.is_complete = true;
        self
    }

    /// The same, where an earlier version must not come into force by itself: only an order replaces a file that cannot be read.
    #[must_use]
    pub const fn guarded(mut self) -> StateFile<T> {
        self.is_guarded = true;
        self
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it holds, for a sentence.
    pub const fn about(&self) -> &'static str {
        self.about
    }

    fn previous(&self) -> String {
        format!("{}.previous", self.name)
    }
}

impl<T: Serialize + DeserializeOwned> StateFile<T> {
    /// What the file holds. One that cannot be read is moved aside, and its previous version takes its place.
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
            // Two versions may not be moved together: what is left is found by the next start.
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
            tracing::warn!("{} could not be stored again: {why}; its previous version counts", self.name);
        }
        Loaded { value, trouble: Some(trouble) }
    }

    /// Where a copy is kept, there has to be one: earlier versions made none.
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

    /// What an order takes in the place of a file that is [guarded](Self::guarded): its previous version.
    ///
    /// # Errors
    /// Why there is none: the end of a sentence.
    pub async fn load_previous(&self, store: &dyn StateStore) -> Result<Option<T>, String> {
        self.read(store, &self.previous()).await
    }

    /// Has the file hold this from now on: durable when the future is done. What cannot be read there is moved aside first.
    ///
    /// # Errors
    /// Why it does not: the end of a sentence.
    pub async fn store(&self, store: &dyn StateStore, value: &T) -> Result<(), String> {
        match self.read(store, self.name).await {
            Ok(Some(_)) => {}
            Ok(None) => self.clear_previous(store).await?,
            Err(_) => {
                self.clear_previous(store).await?;
                if self.is_guarded && matches!(self.read(store, &self.previous()).await, Ok(None)) {
                    // After a crash before the end, it does not look as if there had never been a file.
                    let text = self.text(value)?;
                    store.store(&self.previous(), text).await.map_err(|error| error.to_string())?;
                }
                put_aside(store, self.name, self.name).await?;
            }
        }
        self.replace(store, value).await
    }

    /// Moves a previous version aside that cannot be read: nothing is stored over it.
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
            Form::Json => serde_json::to_string_pretty(value).map_err(|error| error.to_string())? + "\n",
        };
        Ok(frame::framed(self.format, &body))
    }

    /// What is stored under a name. The reasons never quote the content: there may be secrets in it.
    async fn read(&self, store: &dyn StateStore, name: &str) -> Result<Option<T>, String> {
        let Some(bytes) = store.load(name).await.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let body = frame::body(self.format, &bytes)?;
        let read = match self.form {
            Form::Toml => toml::from_str(body).map_err(|error| error.message().to_owned()),
            Form::Json => serde_json::from_str(body).map_err(|error| {
                format!("it makes no sense in line {}, column {}", error.line(), error.column())
            }),
        };
        read.map(Some)
    }
}

/// Gives what is stored under `name`, which cannot be read, a name of its own that begins with `as_name`; which.
///
/// # Errors
/// Why it stays where it is: the end of a sentence.
pub async fn put_aside(store: &dyn StateStore, name: &str, as_name: &str) -> Result<String, String> {
    for number in 1..=MOST_ASIDE {
        let aside = format!("{as_name}.unreadable-{number}");
        if store.set_aside(name, &aside).await.map_err(|error| error.to_string())? {
            return Ok(aside);
        }
    }
    Err(format!(
        "{MOST_ASIDE} files of that name are kept already; move {as_name}.unreadable-1 to -{MOST_ASIDE} elsewhere"
    ))
}

/// The document of a state file, whole or not, without the line that it begins with.
pub fn document(bytes: &[u8]) -> &[u8] {
    frame::document(bytes)
}
