//! An order as recorded: its name, its subject, and its fields, bounded and without secrets.

use crate::interface::{Caller, Command, OrderGiven};
use serde_json::Value;

/// The maximum length of the recorded fields, as JSON.
const LONGEST: usize = 4096;

/// The maximum length of a recorded name or reason.
const LONGEST_NAME: usize = 512;

/// The order that a command represents.
pub fn order_of(command: &Command, by: Option<&Caller>) -> OrderGiven {
    let mut fields = serde_json::to_value(command).unwrap_or_default();
    let text = |field: &str| fields.get(field)?.as_str().map(str::to_owned);
    let order = text("command").unwrap_or_default();
    let subject = text("volume").or_else(|| text("drive")).or_else(|| text("name"));
    if let Some(fields) = fields.as_object_mut() {
        fields.remove("command");
    }
    without_secrets(&mut fields);
    OrderGiven {
        by: by.cloned(),
        order,
        subject: redacted(&subject.unwrap_or_else(|| "controller".to_owned())),
        fields,
    }
}

/// Removes credentials: addresses may contain a name and a password.
fn without_secrets(value: &mut Value) {
    match value {
        Value::String(text) => *text = redacted(text),
        Value::Array(all) => all.iter_mut().for_each(without_secrets),
        Value::Object(all) => all.values_mut().for_each(without_secrets),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// `nbd://NAME:PASSWORD@HOST/` without the credentials before the host.
fn redacted(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let authority = rest.find('/').unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]),
        None => text.to_owned(),
    }
}

/// Fields that fit into a record. Longer fields are replaced by their beginning, as text.
pub(super) fn bounded(fields: Value) -> Value {
    let text = fields.to_string();
    if text.len() <= LONGEST { fields } else { Value::String(cut(&text, LONGEST)) }
}

/// A name that fits into a record.
pub(super) fn shortened(name: String) -> String {
    if name.len() <= LONGEST_NAME { name } else { cut(&name, LONGEST_NAME) }
}

fn cut(text: &str, len: usize) -> String {
    format!("{}…", &text[..text.floor_char_boundary(len)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_password_in_an_address_is_not_recorded() {
        let drive = "nbd://me:secret@10.0.0.1:10809/disk".to_owned();
        let order = order_of(&Command::DriveForget { drive }, None);
        assert_eq!(
            (order.order.as_str(), order.subject.as_str()),
            ("drive-forget", "nbd://…@10.0.0.1:10809/disk")
        );
        assert!(!order.fields.to_string().contains("secret"), "{}", order.fields);
        assert_eq!(redacted("nbd://10.0.0.1/a@b"), "nbd://10.0.0.1/a@b");
    }

    #[test]
    fn long_fields_are_cut() {
        let drives: Vec<String> = (0..10_000).map(|number| format!("ä{number}")).collect();
        let Value::String(text) = bounded(json!({ "drives": drives })) else {
            panic!("the fields are not shortened to text")
        };
        assert!(text.len() <= LONGEST + 3 && text.ends_with('…'));
        assert_eq!(bounded(json!({"a": 1})), json!({"a": 1}));
    }
}
