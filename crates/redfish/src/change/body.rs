//! The body of a request, read by property; errors are collected for the response.

use super::told;
use crate::answer::{Request, Response};
use crate::message::Message;
use serde_json::{Map, Value};

/// Maximum nesting depth of a body.
const DEEPEST: usize = 16;

/// The unread properties, and the errors of the others.
pub(super) struct Properties {
    left: Map<String, Value>,
    pub(super) wrong: Vec<(String, Message)>,
    /// Number of valid properties.
    pub(super) used: usize,
    /// Whether the body has only annotations.
    pub(super) is_empty: bool,
}

impl Properties {
    /// Parses the body.
    ///
    /// # Errors
    /// When it is not a JSON object.
    pub(super) fn read(request: &Request<'_>) -> Result<Properties, Box<Response>> {
        let refused = |key| Box::new(Response::error(400, &[Message::base(key, &[])]));
        let value: Value =
            serde_json::from_slice(request.body).map_err(|_| refused("MalformedJSON"))?;
        let Value::Object(mut left) = value else { return Err(refused("UnrecognizedRequestBody")) };
        if left.values().any(|value| depth(value) > DEEPEST) {
            return Err(refused("UnrecognizedRequestBody"));
        }
        if left.is_empty() {
            return Err(refused("EmptyJSON"));
        }
        left.retain(|name, _| !name.starts_with("@odata."));
        let is_empty = left.is_empty();
        Ok(Properties { left, wrong: Vec::new(), used: 0, is_empty })
    }

    /// Parses an optional body of an action or creation.
    pub(super) fn read_or_nothing(request: &Request<'_>) -> Result<Properties, Box<Response>> {
        match request.body.iter().all(u8::is_ascii_whitespace) || request.body.trim_ascii() == b"{}"
        {
            true => Ok(Properties { left: Map::new(), wrong: Vec::new(), used: 0, is_empty: true }),
            false => Properties::read(request),
        }
    }

    /// Takes a property.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        let value = self.left.remove(name);
        self.used += usize::from(value.is_some());
        value
    }

    /// Reports an error of a taken property.
    pub(super) fn refuse(&mut self, name: &str, message: Message) {
        self.used = self.used.saturating_sub(1);
        self.wrong.push((name.to_owned(), message.about(name)));
    }

    fn of_kind<T>(&mut self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let value = self.take(name)?;
        let found = read(&value);
        if found.is_none() {
            // A password is not repeated.
            let shown = if name == "Password" { "…".to_owned() } else { told(&value) };
            self.refuse(name, Message::base("PropertyValueTypeError", &[&shown, name]));
        }
        found
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.of_kind(name, |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        self.of_kind(name, Value::as_bool)
    }

    pub(super) fn number(&mut self, name: &str) -> Option<u64> {
        self.of_kind(name, Value::as_u64)
    }

    /// A property with a known value; others are refused.
    pub(super) fn word<T>(&mut self, name: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        let found = read(&text);
        if found.is_none() {
            self.refuse(name, Message::base("PropertyValueNotInList", &[&text, name]));
        }
        found
    }

    /// The addresses of links.
    pub(super) fn addresses(&mut self, of: &Value, name: &str) -> Option<Vec<String>> {
        let found: Option<Vec<String>> = of.as_array().and_then(|all| {
            all.iter().map(|one| one.get("@odata.id")?.as_str().map(str::to_owned)).collect()
        });
        if found.is_none() {
            self.refuse(name, Message::base("PropertyValueTypeError", &[&told(of), name]));
        }
        found
    }

    /// Refuses the remaining properties: known ones as read-only, others as unknown.
    pub(super) fn rest(&mut self, readable: &[&str]) {
        let left = std::mem::take(&mut self.left);
        for name in left.keys() {
            let key = if readable.contains(&name.as_str()) {
                "PropertyNotWritable"
            } else {
                "PropertyUnknown"
            };
            self.wrong.push((name.clone(), Message::base(key, &[name]).about(name)));
        }
    }

    /// Reports a missing required property.
    pub(super) fn missing(&mut self, name: &str) {
        if !self.wrong.iter().any(|(wrong, _)| wrong == name) {
            self.wrong
                .push((name.to_owned(), Message::base("PropertyMissing", &[name]).about(name)));
        }
    }

    /// Requires that there is no error.
    ///
    /// # Errors
    /// The errors.
    pub(super) fn all_good(&self) -> Result<(), Box<Response>> {
        if self.wrong.is_empty() { Ok(()) } else { Err(self.refused()) }
    }

    /// Requires at least one valid property; invalid ones are reported and ignored.
    ///
    /// # Errors
    /// The errors, or that the body is empty.
    pub(super) fn some_good(&self) -> Result<(), Box<Response>> {
        match (self.used, self.is_empty) {
            (0, true) => Err(Box::new(Response::error(400, &[Message::base("NoOperation", &[])]))),
            (0, false) => Err(self.refused()),
            _ => Ok(()),
        }
    }

    fn refused(&self) -> Box<Response> {
        let messages: Vec<Message> =
            self.wrong.iter().map(|(_, message)| message.clone()).collect();
        Box::new(Response::error(400, &messages))
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(all) => 1 + all.iter().map(depth).max().unwrap_or(0),
        Value::Object(all) => 1 + all.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
