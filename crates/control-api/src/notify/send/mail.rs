//! Mail, by SMTP (crate `lettre`).

use super::StoredChannel;
use ::notify::{Mail, Message, Sender, form};
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use std::time::Duration;

/// Time limit of each reply of the server.
const PATIENCE: Duration = Duration::from_secs(15);

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Sends a mail. STARTTLS is used if the server supports it; a password is sent over TLS only.
pub(super) async fn mail(
    kept: &StoredChannel,
    server: &Mail,
    message: &Message,
    sender: &Sender,
) -> Result<(), String> {
    let letter = letter(kept, message, sender)?;
    let parameters = || parameters(kept, &server.host);
    let tls = match (server.is_tls, &kept.channel.user) {
        (true, _) => Tls::Wrapper(parameters()?),
        (false, Some(_)) => Tls::Required(parameters()?),
        (false, None) => Tls::Opportunistic(parameters()?),
    };
    let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&server.host)
        .port(server.port)
        .tls(tls)
        .hello_name(ClientId::Domain(sender.host.clone()))
        .timeout(Some(PATIENCE));
    if let (Some(user), Some(secret)) = (&kept.channel.user, &kept.secret) {
        transport = transport.credentials(Credentials::new(user.clone(), secret.clone()));
    }
    transport.build().send(letter).await.map(|_| ()).map_err(|error| {
        // The error and its cause.
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        format!("{error}{}", cause.unwrap_or_default())
    })
}

/// How to verify the server: by the certificates of a file, or those that the machine trusts.
fn parameters(kept: &StoredChannel, host: &str) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(file) = &kept.channel.trust {
        let pem = std::fs::read(file).map_err(|error| format!("cannot read {file}: {error}"))?;
        let trusted = Certificate::from_pem(&pem).map_err(told)?;
        builder = builder.certificate_store(CertificateStore::None).add_root_certificate(trusted);
    }
    builder.build().map_err(told)
}

/// The mail. A repeated mail has the same Message-ID, so that mail programs can drop duplicates.
fn letter(
    kept: &StoredChannel,
    message: &Message,
    sender: &Sender,
) -> Result<lettre::Message, String> {
    let event = &message.event;
    let own = |name: &'static str, value: &str| {
        HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned())
    };
    let id = format!("<softroc.{}.{}@{}>", event.number, event.time_unix_s, sender.host);
    let from = kept.channel.from.as_deref().ok_or("the channel has no sender")?;
    let mut letter = lettre::Message::builder()
        .from(from.parse::<Mailbox>().map_err(told)?)
        .subject(form::mail_subject(message, sender))
        .message_id(Some(id))
        .date(std::time::UNIX_EPOCH + Duration::from_secs(event.time_unix_s))
        .header(ContentType::TEXT_PLAIN)
        .raw_header(own("Auto-Submitted", "auto-generated"))
        .raw_header(own("X-Softroc-Code", &event.code));
    for to in &kept.channel.to {
        letter = letter.to(to.parse::<Mailbox>().map_err(told)?);
    }
    letter.body(form::mail_text(message, sender)).map_err(told)
}
