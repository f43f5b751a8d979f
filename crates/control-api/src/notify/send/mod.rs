//! A message on its way: one function for each kind of channel. None takes longer than a while.

mod hook;
mod mail;
mod wire;

use super::post::Kept;
use crate::deliver::{Parcel, deliver};
use crate::tls;
use ::notify::{Message, Sender, Target, form};

/// Sends a message. It has arrived as far as the other side can say so.
///
/// # Errors
/// Why it did not arrive.
pub(super) async fn send(
    kept: &Kept,
    target: &Target,
    message: &Message,
    sender: &Sender,
) -> Result<(), String> {
    match target {
        Target::Journal { socket } => wire::datagram(socket, &form::journal(message)).await,
        Target::Syslog(way) => wire::syslog(way, &trust(kept), &form::syslog(message, sender)).await,
        Target::Mail(server) => mail::mail(kept, server, message, sender).await,
        Target::Webhook { url } => webhook(kept, url, message, sender).await,
        Target::Snmp { host, port, is_inform } => {
            let community = kept.secret.as_deref().unwrap_or("public");
            wire::snmp((host, *port, *is_inform), community, message, sender).await
        }
        Target::Hook { path } => hook::run(path, &form::json(message, sender)).await,
    }
}

/// Which certificates are trusted.
fn trust(kept: &Kept) -> String {
    kept.channel.trust.clone().unwrap_or_else(tls::authorities)
}

/// With a secret, the header `X-Softroc-Signature` has the HMAC-SHA256 of the body, so that the other side knows whose it is.
async fn webhook(kept: &Kept, url: &str, message: &Message, sender: &Sender) -> Result<(), String> {
    let body = form::json(message, sender).to_string();
    let mut headers = vec![("x-softroc-code", message.event.code.clone())];
    if let Some(secret) = &kept.secret {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let sum = ring::hmac::sign(&key, body.as_bytes());
        headers.push(("x-softroc-signature", format!("sha256={}", access::hex(sum.as_ref()))));
    }
    let trust = &trust(kept);
    deliver(Parcel { destination: url, body, headers: &headers, tls: tls::vouched_for, trust }).await
}
