//! `softroc rescue`: detects arrays of any system on drives, and serves their volumes over NBD,
//! read-only.

use crate::cli::Rescue;
use crate::failure::{Failure, Outcome};
use crate::shards::{Node, PortOptions};
use crate::{output, signals};
use engine::{Attachment, ShardMessage, VolumeId};
use ondisk::foreign::{Consistency, FoundMember, State};
use platform::{Address, DriveSource, Env, mailbox};
use ports::nbd::Nbd;
use ports::{Server, ServerOptions, SessionOptions};
use rescue::{Candidate, Guess, Named, Scan, ScannedVolume, Sureness};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use units::{ByteCount, ByteRange};

/// How long outstanding requests may take at the end of serving.
const LAST_REQUESTS: Duration = Duration::from_secs(20);

/// The least memory for serving.
const SMALLEST_MEMORY: ByteCount = ByteCount(16 << 20);

/// Runs the command.
pub fn run(rescue: &Rescue) -> Outcome {
    if rescue.memory < SMALLEST_MEMORY {
        return Err(Failure::usage(format!(
            "--memory {} is too small; the minimum is {SMALLEST_MEMORY}",
            rescue.memory
        )));
    }
    let named = named(rescue)?;
    let settings = platform_linux::Settings::with_memory(rescue.memory);
    let shard = platform_linux::Shard::new(&settings)?;
    let (env, rescue) = (shard.env().clone(), rescue.clone());
    shard.run(async move {
        let mut scan = rescue::scan(&env, &named).await;
        if let Some(file) = &rescue.backup_file {
            rescue::with_backup(&env, &mut scan, file).await.map_err(Failure::refused)?;
        }
        if rescue.guess {
            return guess(&env, &rescue, scan).await;
        }
        if rescue.output.json {
            output::json(&as_json(&scan))?;
        } else {
            output::print(&as_text(&scan, !rescue.serve.is_empty()))?;
        }
        if scan.volumes.is_empty() {
            return Err(nothing_found(&scan));
        }
        if rescue.serve.is_empty() { Ok(()) } else { serve(&env, &rescue, &scan).await }
    })
}

fn nothing_found(scan: &Scan) -> Failure {
    let opened = scan.drives.iter().filter(|drive| drive.source.is_some()).count();
    Failure::not_well(match opened {
        0 => {
            "no array was found, because no drive could be opened; check the names, and that this \
             user may read the drives"
        }
        1 => {
            "no array was found on the drive, and nothing was changed; name all drives of the \
             array, as whole disks or complete images"
        }
        _ => {
            "no array was found on these drives, and nothing was changed; name all drives of the \
             array, as whole disks or complete images, or add --guess if its metadata are gone"
        }
    })
}

fn named(rescue: &Rescue) -> Outcome<Vec<Named>> {
    if let Some((drive, _)) = rescue.serial.iter().find(|(drive, _)| !rescue.drives.contains(drive))
    {
        return Err(Failure::usage(format!(
            "--serial names '{drive}', which is not among the drives; give the same name"
        )));
    }
    let mut sized = rescue.size_was.iter().filter_map(|(drive, _)| drive.as_ref());
    if let Some(drive) = sized.find(|drive| !rescue.drives.contains(drive)) {
        return Err(Failure::usage(format!(
            "--size-was names '{drive}', which is not among the drives; give the same name"
        )));
    }
    let serial = |name: &String| rescue.serial.iter().find(|(drive, _)| drive == name);
    // The value for one drive takes precedence over the value for all.
    let size_was = |name: &String| {
        let of = |drive: Option<&String>| {
            let last = rescue.size_was.iter().rev().find(|(named, _)| named.as_ref() == drive);
            last.map(|(_, size)| *size)
        };
        of(Some(name)).or_else(|| of(None))
    };
    let one = |name: &String| Named {
        name: name.clone(),
        serial: serial(name).map(|(_, serial)| serial.clone()),
        size_was: size_was(name),
    };
    Ok(rescue.drives.iter().map(one).collect())
}

async fn serve(env: &Env, rescue: &Rescue, scan: &Scan) -> Outcome {
    let mut attachments = Vec::new();
    for (number, volume) in (0..).zip(&scan.volumes) {
        match rescue::attachment(scan, volume, VolumeId(number)) {
            Ok(attachment) => attachments.push(attachment),
            Err(why) => output::say(&format!("{} is not served: {why}", volume.export)),
        }
    }
    if attachments.is_empty() {
        return Err(Failure::not_well("no volume on these drives can be served"));
    }
    serve_all(env, rescue, attachments).await
}

/// Serves volumes read-only until interrupted.
async fn serve_all(env: &Env, rescue: &Rescue, attachments: Vec<Attachment>) -> Outcome {
    let sessions = SessionOptions { read_only: true, ..SessionOptions::default() };
    let port = PortOptions { sessions, ..PortOptions::default() };
    let node = Node::start(env, 1, rescue.memory, port)?;
    let gone = || Failure::failed("the engine's shard did not start");
    let shard = node.engines.first().ok_or_else(gone)?;
    let mut health = BTreeMap::new();
    for attachment in attachments {
        health.insert(attachment.spec.id, attachment.state.clone());
        let (done, mut answers) = mailbox::mailbox(env, 1);
        shard.send(ShardMessage::Attach(Box::new(attachment), done)).map_err(|_| gone())?;
        answers.receive().await.ok_or_else(gone)?.map_err(Failure::failed)?;
    }
    env.spawn(
        "keeper",
        engine::unkept::keep(env.clone(), node.reports, node.engines.clone(), health),
    );
    let options = ServerOptions { allow_remote: rescue.allow_remote, ..ServerOptions::default() };
    let nbd = Server::<Nbd>::start(env, &rescue.serve, node.ports, options)
        .await
        .map_err(Failure::refused)?;
    let (ask_to_end, mut asked_to_end) = mailbox::mailbox(env, 4);
    signals::send_on_interrupt(ask_to_end)?;
    let addresses: Vec<String> = nbd.addresses().iter().map(Address::to_string).collect();
    output::say(&format!("serving read-only over NBD at {}; Ctrl-C stops it", addresses.join(" ")));
    asked_to_end.receive().await;
    nbd.shut_down(LAST_REQUESTS).await;
    Ok(())
}

/// The name under which a guess is served.
const GUESSED: &str = "guess";

/// Guesses the layout of the drives, prints the evidence, and serves a guess.
async fn guess(env: &Env, rescue: &Rescue, scan: Scan) -> Outcome {
    let opened = || scan.drives.iter().filter(|drive| drive.source.is_some());
    let names: Vec<String> = opened().map(|drive| drive.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let sources: Vec<_> = opened().filter_map(|drive| drive.source.clone()).collect();
    for drive in scan.drives.iter().filter(|drive| drive.source.is_none()) {
        output::say(&format!(
            "{}: {}",
            drive.name,
            drive.trouble.as_deref().unwrap_or("it could not be opened")
        ));
    }
    let guess = guessed(env, &scan, &sources).await?;
    match rescue.output.json {
        true => output::json(&guess_json(&guess, &names))?,
        false => output::print(&guess_text(&guess, &names))?,
    }
    if guess.candidates.is_empty() {
        return Err(Failure::not_well(
            "the contents of these drives do not show level, order and strip of an array; name all \
            drives of the array, and no others",
        ));
    }
    if rescue.serve.is_empty() {
        return Ok(());
    }
    let number = match (rescue.candidate, guess.candidates[0].sureness) {
        (Some(number), _) => number,
        (None, Sureness::Tied) => {
            return Err(Failure::refused(
                "the first two guesses are equally likely; choose one from the table with \
                 --candidate",
            ));
        }
        (None, _) => 1,
    };
    let candidate =
        number.checked_sub(1).and_then(|index| guess.candidates.get(index)).ok_or_else(|| {
            Failure::usage(format!(
                "--candidate {number}: there are 1 to {}",
                guess.candidates.len()
            ))
        })?;
    if !candidate.serials.is_empty() {
        // With these serial numbers the metadata describe all volumes. Open drives are locked:
        // close them before the next scan.
        let named = with_serials(rescue, &names, candidate)?;
        drop((scan, sources));
        let scan = rescue::scan(env, &named).await;
        return serve(env, rescue, &scan).await;
    }
    let attachment = rescue::guessed_attachment(candidate, &sources, VolumeId(0), GUESSED);
    serve_all(env, rescue, vec![attachment.map_err(Failure::failed)?]).await
}

/// Guesses the serial numbers, if the metadata lack only those; or the whole layout, if the
/// metadata are missing or contradict the contents.
async fn guessed(env: &Env, scan: &Scan, sources: &[Arc<dyn DriveSource>]) -> Outcome<Guess> {
    let places = rescue::places(env, scan).await.map_err(Failure::refused)?;
    let mut findings = match places {
        Some(places) if !places.candidates.is_empty() => return Ok(places),
        Some(places) => places.findings,
        None => Vec::new(),
    };
    let mut guess = rescue::guess(env, sources).await.map_err(Failure::failed)?;
    findings.append(&mut guess.findings);
    Ok(Guess { findings, ..guess })
}

/// The drives under their given names, each with the serial number from the guess.
fn with_serials(rescue: &Rescue, names: &[&str], candidate: &Candidate) -> Outcome<Vec<Named>> {
    let mut named = named(rescue)?;
    for (drive, number) in &candidate.serials {
        let own = named.iter_mut().find(|one| one.name == names[*drive]);
        let own = own.ok_or_else(|| {
            Failure::refused(format!(
                "{} is a part of a drive; make an image of that part and give it as a drive",
                names[*drive]
            ))
        })?;
        own.serial = Some(number.clone());
    }
    Ok(named)
}

fn guess_text(guess: &Guess, names: &[&str]) -> String {
    let mut lines: Vec<String> =
        names.iter().enumerate().map(|(n, name)| format!("drive {n}: {name}")).collect();
    lines.extend(guess.findings.iter().cloned());
    if guess.candidates.is_empty() {
        return lines.join("\n");
    }
    let row = |(number, one): (usize, &Candidate)| {
        vec![
            number.to_string(),
            one.geometry.level().title().to_owned(),
            one.geometry.parity_arrangement().map_or("-".into(), |parity| parity.to_string()),
            one.geometry.strip().to_string(),
            slots_text(one),
            ByteCount(one.start.0).to_string(),
            format!("{:.0}", one.points),
            format!("{} (+{:.0})", one.sureness.name(), one.margin.max(0.0)),
        ]
    };
    let rows: Vec<Vec<String>> = (1..).zip(&guess.candidates).map(row).collect();
    let headers = ["GUESS", "LEVEL", "LAYOUT", "STRIP", "DRIVES BY SLOT", "FROM", "POINTS", "SURE"];
    let numeric = [true, false, false, true, false, true, true, false];
    lines.push(String::new());
    lines.push(output::table(&headers, &rows, &numeric));
    for (number, one) in (1..).zip(&guess.candidates) {
        lines.push(format!("  {number}: {}", one.evidence.join("; ")));
        if !one.serials.is_empty() {
            let serial =
                |(drive, serial): &(usize, String)| format!("--serial {}={serial}", names[*drive]);
            let serials: Vec<String> = one.serials.iter().map(serial).collect();
            lines.push(format!("     equivalent command: {}", serials.join(" ")));
        }
    }
    lines.join("\n")
}

fn slots_text(candidate: &Candidate) -> String {
    let slot = |drive: &Option<usize>| drive.map_or("-".into(), |drive| drive.to_string());
    candidate.order.iter().map(slot).collect::<Vec<_>>().join(" ")
}

fn guess_json(guess: &Guess, names: &[&str]) -> Value {
    let candidates = guess.candidates.iter().map(|one| {
        let member = |drive: &Option<usize>| drive.map(|drive| names[drive]);
        let members: Vec<Option<&str>> = one.order.iter().map(member).collect();
        let serials: BTreeMap<&str, &str> =
            one.serials.iter().map(|(drive, serial)| (names[*drive], serial.as_str())).collect();
        json!({
            "level": one.geometry.level().name(),
            "layout": one.geometry.parity_arrangement().map(|parity| parity.name()),
            "strip_bytes": one.geometry.strip().bytes().0,
            "spans": one.geometry.spans(),
            "members": members,
            "serials": serials,
            "data_start_bytes": one.start.0,
            "size_bytes": one.geometry.capacity().0,
            "points": one.points,
            "margin_points": one.margin,
            "sureness": one.sureness.name(),
            "evidence": one.evidence,
        })
    });
    let candidates: Vec<Value> = candidates.collect();
    json!({ "drives": names, "findings": guess.findings, "candidates": candidates })
}

/// Whether a volume can be served; otherwise the reason.
fn standing(scan: &Scan, volume: &ScannedVolume) -> Result<(), String> {
    rescue::attachment(scan, volume, VolumeId(0)).map(|_| ())
}

fn as_text(scan: &Scan, is_serving: bool) -> String {
    let mut parts = Vec::new();
    for volume in &scan.volumes {
        parts.push(volume_text(scan, volume, is_serving));
    }
    let mut other = Vec::new();
    for drive in &scan.drives {
        other.extend(drive.trouble.iter().map(|trouble| format!("  {}: {trouble}", drive.name)));
        other.extend(drive.told.notes.iter().map(|note| format!("  {} {note}", drive.name)));
        if drive.source.is_some() && drive.told.records.is_empty() && drive.told.notes.is_empty() {
            other.push(format!("  {}: no array metadata found{}", drive.name, lost_metadata(scan)));
        }
    }
    if !other.is_empty() {
        let lines: Vec<String> = other.iter().flat_map(|line| wrapped(line)).collect();
        parts.push(format!("drives\n{}", lines.join("\n")));
    }
    parts.join("\n\n")
}

fn volume_text(scan: &Scan, volume: &ScannedVolume, is_serving: bool) -> String {
    let (found, record) = (&volume.found, &volume.found.record);
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let row = vec![
        volume.export.clone(),
        format!("{} {}", record.format, record.version),
        record.level.clone(),
        or_dash(&record.layout),
        record.strip.map_or("-".into(), |strip| strip.to_string()),
        record.slots.to_string(),
        found.capacity().to_string(),
        record.sequence.to_string(),
        found.state.name().to_owned(),
    ];
    let headers =
        ["VOLUME", "FORMAT", "LEVEL", "LAYOUT", "STRIP", "MEMBERS", "SIZE", "EVENTS", "STATE"];
    let numeric = [false, false, false, false, true, true, true, true, false];
    let mut lines = vec![output::table(&headers, &[row], &numeric)];
    let member = |member: &FoundMember| {
        let drive = member.drive.and_then(|drive| scan.drives.get(drive));
        vec![
            member.slot.to_string(),
            drive.map_or("-".into(), |drive| drive.name.clone()),
            member.standing.name().to_owned(),
            member.sequence.map_or("-".into(), |sequence| sequence.to_string()),
            member.drive.map_or("-".into(), |_| ByteCount(member.data.start.0).to_string()),
            member.drive.map_or("-".into(), |_| member.data.len.to_string()),
        ]
    };
    let members: Vec<Vec<String>> = found.members.iter().map(member).collect();
    let headers = ["SLOT", "DRIVE", "IS", "EVENTS", "DATA FROM", "LENGTH"];
    lines.push(output::table(&headers, &members, &[true, false, false, true, true, true]));
    let sentences = sentences(scan, volume).into_iter().chain(advice(scan, volume, is_serving));
    lines.extend(sentences.flat_map(|sentence| wrapped(&format!("  {sentence}"))));
    lines.join("\n")
}

/// An indented line, within the terminal's width.
fn wrapped(line: &str) -> Vec<String> {
    let Some(width) = output::width() else { return vec![line.to_owned()] };
    let lines = output::wrapped(line.trim_start(), usize::from(width).saturating_sub(4));
    let indent =
        |(at, line): (usize, String)| format!("{}{line}", if at == 0 { "  " } else { "    " });
    lines.into_iter().enumerate().map(indent).collect()
}

/// What a drive without metadata may be, if a member of an array is missing.
fn lost_metadata(scan: &Scan) -> &'static str {
    let is_missing = |volume: &ScannedVolume| volume.found.state != State::Complete;
    match scan.volumes.iter().any(is_missing) {
        true => {
            ", and the drive is not read; if it is the missing member, its end with the metadata \
             may be cut off: make a complete copy of that drive"
        }
        false => "",
    }
}

/// What the state means for the data, and what to do.
fn advice(scan: &Scan, volume: &ScannedVolume, is_serving: bool) -> Vec<String> {
    if standing(scan, volume).is_err() {
        return Vec::new();
    }
    let found = &volume.found;
    let mut advice = Vec::new();
    let is_whole = found.members.iter().all(|member| member.unreadable.is_empty());
    if !is_whole {
        advice.push(
            "unreadable blocks of a drive give I/O errors if redundancy cannot replace them; a \
             complete copy of that drive avoids these errors"
                .to_owned(),
        );
    }
    let what = match (found.state, is_whole) {
        (_, false) => "all other data can be read",
        (State::Degraded, true) => {
            "all data can be read: the blocks of missing members are computed from redundancy"
        }
        (_, true) => "all data can be read",
    };
    advice.push(match is_serving {
        true => what.to_owned(),
        false => {
            format!(
                "{what}; repeat the command with --serve unix:rescue.sock, and copy it with nbdcopy"
            )
        }
    });
    advice
}

/// The notes below the table of a volume.
fn sentences(scan: &Scan, volume: &ScannedVolume) -> Vec<String> {
    let (found, record) = (&volume.found, &volume.found.record);
    let mut sentences = Vec::new();
    sentences.extend(found.others.iter().map(|other| other.reason.clone()));
    sentences.extend(found.reasons.iter().cloned());
    match record.consistency {
        Consistency::Clean => {}
        Consistency::Dirty => sentences.push("it was not cleanly shut down".into()),
        Consistency::DirtyFrom(from) => {
            sentences.push(format!(
                "it was not cleanly shut down: parity and copies may be wrong from {from} on"
            ));
        }
    }
    if !record.features.is_empty() {
        let features: Vec<String> = record.features.iter().map(ToString::to_string).collect();
        sentences.push(format!("with {}", features.join(", ")));
    }
    sentences
        .extend(found.no_writing.iter().map(|reason| format!("must not be written: {reason}")));
    if let (Err(why), true) = (standing(scan, volume), found.state != State::NotReadable) {
        sentences.push(format!("cannot be served: {why}"));
    }
    // A drive and its copy have the same notes.
    let mut said = BTreeSet::new();
    sentences.retain(|sentence| said.insert(sentence.clone()));
    sentences
}

fn as_json(scan: &Scan) -> Value {
    let drives = scan.drives.iter().map(|drive| {
        json!({
            "name": drive.name,
            "size_bytes": drive.size().map(|size| size.0),
            "trouble": drive.trouble,
            "notes": drive.told.notes,
        })
    });
    let volumes = scan.volumes.iter().map(|volume| volume_json(scan, volume));
    json!({ "drives": drives.collect::<Vec<_>>(), "volumes": volumes.collect::<Vec<_>>() })
}

fn range_json(range: &ByteRange) -> Value {
    json!({ "start_bytes": range.start.0, "bytes": range.len.0 })
}

fn volume_json(scan: &Scan, volume: &ScannedVolume) -> Value {
    let (found, record) = (&volume.found, &volume.found.record);
    let name = |drive: Option<usize>| {
        drive.and_then(|drive| scan.drives.get(drive)).map(|drive| drive.name.clone())
    };
    let members = found.members.iter().map(|member| {
        json!({
            "slot": member.slot,
            "drive": name(member.drive),
            "standing": member.standing.name(),
            "events": member.sequence,
            "updated_unix_s": member.updated_unix_s,
            "data_start_bytes": member.drive.map(|_| member.data.start.0),
            "data_bytes": member.drive.map(|_| member.data.len.0),
            "unreadable": member.unreadable.iter().map(range_json).collect::<Vec<_>>(),
            "reason": member.reason,
        })
    });
    let others = found.others.iter().map(|other| {
        json!({
            "drive": name(Some(other.drive)),
            "is": other.what,
            "events": other.sequence,
            "reason": other.reason,
        })
    });
    let not_served = standing(scan, volume).err();
    json!({
        "export": volume.export,
        "name": record.name,
        "format": record.format.name(),
        "version": record.version,
        "identity": record.identity.text,
        "container": record.container.as_ref().map(|container| &container.text),
        "level": record.level,
        "layout": record.layout,
        "strip_bytes": record.strip.map(|strip| strip.0),
        "size_bytes": found.capacity().0,
        "events": record.sequence,
        "created_unix_s": record.created_unix_s,
        "updated_unix_s": record.updated_unix_s,
        "clean": record.consistency == Consistency::Clean,
        "features": record.features.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "state": found.state.name(),
        "served": not_served.is_none(),
        "not_served_because": not_served,
        "reasons": found.reasons,
        "not_to_be_written_because": found.no_writing,
        "members": members.collect::<Vec<_>>(),
        "others": others.collect::<Vec<_>>(),
    })
}
