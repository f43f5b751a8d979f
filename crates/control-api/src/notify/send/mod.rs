//! Sending a message: one function per kind of channel, each with a time limit.

mod hook;
mod mail;
mod wire;

use super::post::StoredChannel;
use crate::deliver::{Delivery, deliver};
use crate::tls;
use ::notify::{Message, Sender, Target, form};

/// Sends a message. Success means that the other side has accepted it, as far as it can report
/// that.
///
/// # Errors
/// Why sending failed.
pub(super) async fn send(
    kept: &StoredChannel,
    target: &Target,
    message: &Message,
    sender: &Sender,
) -> Result<(), String> {
    match target {
        Target::Journal { socket } => wire::datagram(socket, &form::journal(message)).await,
        Target::Syslog(way) => {
            wire::syslog(way, &trust(kept), &form::syslog(message, sender)).await
        }
        Target::Mail(server) => mail::mail(kept, server, message, sender).await,
        Target::Webhook { url } => webhook(kept, url, message, sender).await,
        Target::Snmp { host, port, is_inform } => {
            let community = kept.secret.as_deref().unwrap_or("public");
            wire::snmp((host, *port, *is_inform), community, message, sender).await
        }
        Target::Hook { path } => hook::run(path, &form::json(message, sender)).await,
    }
}

/// The trusted certificates.
fn trust(kept: &StoredChannel) -> String {
    kept.channel.trust.clone().unwrap_or_else(tls::authorities)
}

/// With a secret, the header `X-Softroc-Signature` has the HMAC-SHA256 of the body, so that the
/// receiver can verify it.
async fn webhook(
    kept: &StoredChannel,
    url: &str,
    message: &Message,
    sender: &Sender,
) -> Result<(), String> {
    let body = form::json(message, sender).to_string();
    let mut headers = vec![("x-softroc-code", message.event.code.clone())];
    if let Some(secret) = &kept.secret {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let sum = ring::hmac::sign(&key, body.as_bytes());
        headers.push(("x-softroc-signature", format!("sha256={}", access::hex(sum.as_ref()))));
    }
    let trust = &trust(kept);
    deliver(Delivery { destination: url, body, headers: &headers, tls: tls::vouched_for, trust })
        .await
}
