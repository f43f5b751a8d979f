//! Error messages: those of DMTF's Base registry, and sentences of the controller.

use crate::registry::{self, BASE};
use crate::schema::type_of;
use crate::state::Health;
use controller::{Error, ErrorKind};
use serde_json::{Value, json};

/// A message of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    what: MessageText,
    /// The property that the message is about, as a JSON pointer.
    about: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MessageText {
    Base(&'static str, Vec<String>),
    Own(String),
}

/// The used messages of the Base registry: key, text, severity, resolution.
const TABLE: &[(&str, &str, Health, &str)] = &[
    ("Success", "The request completed successfully.", Health::Ok, "None."),
    ("Created", "The resource was created successfully.", Health::Ok, "None."),
    (
        "NoOperation",
        "The request body submitted contain no data to act upon and no changes to the resource \
            took place.",
        Health::Warning,
        "Add properties in the JSON object and resubmit the request.",
    ),
    (
        "NoValidSession",
        "There is no valid session established with the implementation.",
        Health::Critical,
        "Establish a session before attempting any operations.",
    ),
    (
        "InsufficientPrivilege",
        "There are insufficient privileges for the account or credentials associated with the \
            current session to perform the requested operation.",
        Health::Critical,
        "Use an account whose role allows it.",
    ),
    (
        "PasswordChangeRequired",
        "The password provided for this account must be changed before access is granted.  PATCH \
            the Password property for this account located at the target URI '%1' to complete this \
            process.",
        Health::Critical,
        "Change the password for this account using a PATCH to the Password property at the URI \
            provided.",
    ),
    (
        "ResourceMissingAtURI",
        "The resource at the URI '%1' was not found.",
        Health::Critical,
        "Correct the URI and resubmit the request.",
    ),
    (
        "OperationNotAllowed",
        "The HTTP method is not allowed on this resource.",
        Health::Critical,
        "None.",
    ),
    (
        "MalformedJSON",
        "The request body submitted was malformed JSON and could not be parsed by the receiving \
            service.",
        Health::Critical,
        "Ensure that the request body is valid JSON and resubmit the request.",
    ),
    (
        "UnrecognizedRequestBody",
        "The service detected a malformed request body that it was unable to interpret.",
        Health::Warning,
        "Correct the request body and resubmit the request if it failed.",
    ),
    (
        "EmptyJSON",
        "The request body submitted contained an empty JSON object and the service is unable to \
            process it.",
        Health::Warning,
        "Add properties in the JSON object and resubmit the request.",
    ),
    (
        "PropertyUnknown",
        "The property %1 is not in the list of valid properties for the resource.",
        Health::Warning,
        "Remove the unknown property from the request body and resubmit the request if the \
            operation failed.",
    ),
    (
        "PropertyNotWritable",
        "The property %1 is a read-only property and cannot be assigned a value.",
        Health::Warning,
        "Remove the property from the request body and resubmit the request if the operation \
            failed.",
    ),
    (
        "PropertyMissing",
        "The property %1 is a required property and must be included in the request.",
        Health::Warning,
        "Ensure that the property is in the request body and has a valid value and resubmit the \
            request if the operation failed.",
    ),
    (
        "PropertyValueTypeError",
        "The value '%1' for the property %2 is not a type that the property can accept.",
        Health::Warning,
        "Correct the value for the property in the request body and resubmit the request if the \
            operation failed.",
    ),
    (
        "PropertyValueNotInList",
        "The value '%1' for the property %2 is not in the list of acceptable values.",
        Health::Warning,
        "Choose a value from the enumeration list that the implementation can support and resubmit \
            the request if the operation failed.",
    ),
    (
        "PropertyValueFormatError",
        "The value '%1' for the property %2 is not a format that the property can accept.",
        Health::Warning,
        "Correct the value for the property in the request body and resubmit the request if the \
            operation failed.",
    ),
    (
        "PropertyValueError",
        "The value provided for the property %1 is not valid.",
        Health::Warning,
        "Correct the value for the property in the request body and resubmit the request if the \
            operation failed.",
    ),
    (
        "ActionParameterUnknown",
        "The action %1 was submitted with the invalid parameter %2.",
        Health::Warning,
        "Correct the invalid action parameter and resubmit the request if the operation failed.",
    ),
    (
        "QueryParameterUnsupported",
        "Query parameter '%1' is not supported.",
        Health::Warning,
        "Correct or remove the query parameter and resubmit the request.",
    ),
    (
        "QueryNotSupportedOnResource",
        "Querying is not supported on the requested resource.",
        Health::Warning,
        "Remove the query parameters and resubmit the request if the operation failed.",
    ),
    (
        "QueryNotSupportedOnOperation",
        "Querying is not supported with the requested operation.",
        Health::Warning,
        "Remove the query parameters and resubmit the request if the operation failed.",
    ),
    (
        "QueryParameterValueFormatError",
        "The value '%1' for the parameter %2 is not a format that the parameter can accept.",
        Health::Warning,
        "Correct the value for the query parameter in the request and resubmit the request if the \
            operation failed.",
    ),
    (
        "QueryParameterOutOfRange",
        "The value '%1' for the query parameter %2 is out of range %3.",
        Health::Warning,
        "Reduce the value for the query parameter to a value that is within range.",
    ),
    (
        "PreconditionFailed",
        "The ETag supplied did not match the ETag required to change this resource.",
        Health::Critical,
        "Try the operation again using the appropriate ETag.",
    ),
    (
        "HeaderInvalid",
        "Header '%1' is invalid.",
        Health::Critical,
        "Resubmit the request with a valid request header.",
    ),
    (
        "ResourceInUse",
        "The change to the requested resource failed because the resource is in use or in \
            transition.",
        Health::Warning,
        "Remove the condition and resubmit the request if the operation failed.",
    ),
    (
        "ResourceAlreadyExists",
        "The requested resource of type %1 with the property %2 with the value '%3' already \
            exists.",
        Health::Critical,
        "Do not repeat the create operation as the resource was already created.",
    ),
    (
        "ResourceCannotBeDeleted",
        "The delete request failed because the resource requested cannot be deleted.",
        Health::Critical,
        "Do not attempt to delete a non-deletable resource.",
    ),
    (
        "ServiceTemporarilyUnavailable",
        "The service is temporarily unavailable.  Retry in %1 seconds.",
        Health::Critical,
        "Wait for the indicated retry duration and retry the operation.",
    ),
    (
        "InsufficientStorage",
        "Insufficient storage or memory available to complete the request.",
        Health::Critical,
        "Increase the free storage space available to the service and resubmit the request.",
    ),
    (
        "InternalError",
        "The request failed due to an internal service error.  The service is still operational.",
        Health::Critical,
        "Resubmit the request.  If the problem persists, consider resetting the service.",
    ),
];

impl Message {
    /// A message of the Base registry with its arguments.
    pub(crate) fn base(key: &'static str, arguments: &[&str]) -> Message {
        let arguments = arguments.iter().map(|text| shortened(text)).collect();
        Message { what: MessageText::Base(key, arguments), about: None }
    }

    /// A sentence of the controller.
    pub(crate) fn own(sentence: impl Into<String>) -> Message {
        Message { what: MessageText::Own(sentence.into()), about: None }
    }

    /// Sets the property that the message is about.
    pub(crate) fn about(mut self, property: &str) -> Message {
        self.about = Some(format!("#/{property}"));
        self
    }

    fn id(&self) -> String {
        match &self.what {
            MessageText::Base(key, _) => format!("{BASE}.{key}"),
            MessageText::Own(_) => registry::message_id(""),
        }
    }

    fn text(&self) -> String {
        match &self.what {
            MessageText::Own(sentence) => sentence.clone(),
            MessageText::Base(key, arguments) => {
                let text = row(key).map_or("", |(_, text, ..)| text);
                let mut parts = text.split('%');
                let mut told = parts.next().unwrap_or_default().to_owned();
                for part in parts {
                    let (number, rest) = part.split_at(part.len().min(1));
                    let place =
                        number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                    told.push_str(
                        place.and_then(|place| arguments.get(place)).map_or("", String::as_str),
                    );
                    told.push_str(rest);
                }
                told
            }
        }
    }

    /// As JSON.
    pub(crate) fn json(&self) -> Value {
        let (arguments, severity, resolution) = match &self.what {
            MessageText::Own(sentence) => {
                (vec![sentence.clone()], Health::Warning, "Follow the message.")
            }
            MessageText::Base(key, arguments) => {
                let (severity, resolution) = row(key)
                    .map_or((Health::Critical, "None."), |(_, _, severity, what)| {
                        (*severity, *what)
                    });
                (arguments.clone(), severity, resolution)
            }
        };
        let mut message = json!({
            "@odata.type": type_of("Message"),
            "MessageId": self.id(),
            "Message": self.text(),
            "MessageArgs": arguments,
            "MessageSeverity": severity.name(),
            "Resolution": resolution,
        });
        if let Some(about) = &self.about {
            message["RelatedProperties"] = json!([about]);
        }
        message
    }
}

fn row(key: &str) -> Option<&'static (&'static str, &'static str, Health, &'static str)> {
    TABLE.iter().find(|(known, ..)| *known == key)
}

/// Limits the length of repeated client input.
fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// The body of an error response.
pub(crate) fn error(messages: &[Message]) -> Value {
    let first = messages.first();
    json!({ "error": {
        "code": first.map(Message::id).unwrap_or_default(),
        "message": first.map(Message::text).unwrap_or_default(),
        "@Message.ExtendedInfo": messages.iter().map(Message::json).collect::<Vec<_>>(),
    }})
}

/// The status and messages for an error of the controller.
pub(crate) fn of_refusal(refusal: &Error, path: &str) -> (u16, Vec<Message>) {
    let base = |key, arguments: &[&str]| vec![Message::base(key, arguments)];
    let (status, mut messages) = match refusal.kind {
        ErrorKind::NotFound => (404, base("ResourceMissingAtURI", &[path])),
        ErrorKind::Invalid => (400, Vec::new()),
        ErrorKind::NameTaken => (409, Vec::new()),
        ErrorKind::InUse => (409, base("ResourceInUse", &[])),
        ErrorKind::HoldsData
        | ErrorKind::LosesData
        | ErrorKind::WrongState
        | ErrorKind::Unavailable => (409, Vec::new()),
        ErrorKind::OutOfSpace => (507, base("InsufficientStorage", &[])),
        ErrorKind::Failed => (500, base("InternalError", &[])),
        ErrorKind::Busy | ErrorKind::Stopping => {
            (503, base("ServiceTemporarilyUnavailable", &["5"]))
        }
        ErrorKind::Denied => (403, base("InsufficientPrivilege", &[])),
        ErrorKind::Unauthenticated => (401, base("NoValidSession", &[])),
    };
    messages.push(Message::own(refusal.message.clone()));
    (status, messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stand_where_the_text_has_their_numbers() {
        let message =
            Message::base("PropertyValueNotInList", &["x", "RAIDType"]).about("RAIDType").json();
        let text =
            "The value 'x' for the property RAIDType is not in the list of acceptable values.";
        assert_eq!(message["Message"], text);
        assert_eq!(message["MessageArgs"], json!(["x", "RAIDType"]));
        assert_eq!(message["RelatedProperties"], json!(["#/RAIDType"]));
    }

    #[test]
    fn every_message_has_a_text() {
        for (key, text, ..) in TABLE {
            let message = Message::base(key, &["a", "b", "c"]);
            assert!(!message.text().contains('%'), "{text}");
        }
    }
}
