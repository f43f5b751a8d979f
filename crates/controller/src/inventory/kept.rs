//! What is kept in the state folder beside the drives: one document a file.

use super::Inventory;
use serde::Serialize;
use serde::de::DeserializeOwned;

impl Inventory {
    /// What a file of the state folder holds; the default where there is none.
    ///
    /// # Errors
    /// Why it cannot be read: a sentence's end.
    pub(crate) async fn load<T: DeserializeOwned + Default>(&self, file: &str) -> Result<T, String> {
        let loaded = self.env.world().state().load(file).await.map_err(|error| error.to_string())?;
        let Some(bytes) = loaded else { return Ok(T::default()) };
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        toml::from_str(&text).map_err(|error| error.message().to_owned())
    }

    /// Has a file of the state folder hold this from now on.
    ///
    /// # Errors
    /// Why it does not: a sentence's end.
    pub(crate) async fn store<T: Serialize>(&self, file: &str, value: &T) -> Result<(), String> {
        let text = toml::to_string(value).map_err(|error| error.to_string())?;
        self.env.world().state().store(file, text.into_bytes()).await.map_err(|error| error.to_string())
    }
}
