//! Channels of notifications as text.

use crate::output::table;
use control_api::{ChannelInfo, NotifyReply};

/// A reply about channels.
pub fn reply(reply: &NotifyReply) -> String {
    match reply {
        NotifyReply::Channels { channels } if channels.is_empty() => {
            "No channels: set one with 'softroc notify set NAME TARGET', such as 'softroc notify \
                set log journal'."
                .to_owned()
        }
        NotifyReply::Channels { channels } => list(channels),
        NotifyReply::Channel { channel } => list(std::slice::from_ref(channel)),
        NotifyReply::Done { notes } => notes.join("\n"),
    }
}

fn list(channels: &[ChannelInfo]) -> String {
    let row = |info: &ChannelInfo| {
        let channel = &info.channel;
        let codes =
            if channel.codes.is_empty() { "all".to_owned() } else { channel.codes.join(" ") };
        let state = match &info.problem {
            Some(problem) => format!("failing: {problem}"),
            None => "works".to_owned(),
        };
        vec![
            channel.name.clone(),
            channel.target.clone(),
            channel.severity.to_string(),
            codes,
            channel.quiet.map_or_else(|| "-".to_owned(), |quiet| quiet.to_string()),
            info.waiting.to_string(),
            state,
        ]
    };
    let rows: Vec<Vec<String>> = channels.iter().map(row).collect();
    let heads = ["channel", "target", "from severity", "codes", "quiet (UTC)", "waiting", "state"];
    table(&heads, &rows, &[false, false, false, false, false, true, false])
}
