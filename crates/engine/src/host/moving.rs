//! A reshaping volume as hosts see it: one volume. The new layout serves bytes behind a cursor, the
//! old layout those ahead of it; requests in between wait. The cursor moves up, or down from the
//! last byte ([`Reshape::is_down`]).
//!
//! # Invariants
//! - Only the steps of a reshape change the cursor and the closed window, each on all shards before
//!   the next one begins ([`volume_state::Mover`] has their order).
//! - A request is counted from before it goes to a side until it ends. Closing a window waits for
//!   requests that touch it, and for those that read an earlier one from the save area. So no
//!   request uses a side that its bytes have left.
//! - A flush asks both sides, and the old one until all data has moved: moved data is durable in
//!   the new layout before it is opened. The last open waits for flushes at the old side. They need
//!   the old layout on all shards, and learn there of failed drives.
//! - A saved window that is closed without an active step is read from the save area, and never
//!   written there: the save area has no journal. After a failed step hosts do not wait: reads use
//!   the intact place, writes get an error.
//! - A request across the cursor, or into the closed window, is served in parts, one after the
//!   other, as a request over several stripes may be.
//! - Requests past the capacity of the new layout fail as past the end.
//! - A host keeps the volume that it has opened. If that volume has been reshaped, and its new
//!   layout is reshaped again, the host's requests pass through both reshapes. So a window of the
//!   second one waits for them as well.

use crate::attachment::ReshapePlace;
use crate::host::Volume;
use platform::sync::{Signal, Taken};
use platform::{Buf, Durability, Env, IoError, IoErrorKind, Slice, StatusExtent};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};
use volume_state::{Reshape, Window};

/// How requests to the closed window are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shut {
    /// They wait: it is being moved.
    Moves,
    /// It was found saved at a start, and is moved soon. Reads use the save area; writes wait.
    Found,
    /// A step failed. Reads use the old layout or the save area; writes fail.
    Left { is_saved: bool },
}

/// The access of a request to its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Reads,
    Changes,
}

/// The state of a volume's reshape on a shard.
pub(crate) struct Moving {
    pub(crate) reshape: Reshape,
    /// The volume by the new layout, and the save area.
    pub(crate) to: Rc<Volume>,
    pub(crate) save: Rc<Volume>,
    /// This many bytes are served by the new layout; which ones depends on the direction.
    moved: Cell<ByteCount>,
    by_new: Cell<ByteRange>,
    closed: Cell<ByteRange>,
    shut: Cell<Shut>,
    /// Host requests in progress at either side, by number, and whether they read the save area.
    under_way: RefCell<BTreeMap<u64, (ByteRange, bool)>>,
    requests: Cell<u64>,
    /// Host flushes in progress at the old side.
    flushes: Cell<usize>,
    /// Memory for copying, on the shard that copies.
    reserved: RefCell<Option<Taken>>,
    /// Hosts get the volume by the new layout, under its name.
    is_over: Cell<bool>,
    changed: Signal,
}

/// A part of a host's request at one side. Dropping ends its count.
struct Part<'a> {
    moving: &'a Moving,
    env: Env,
    number: u64,
    range: ByteRange,
    side: Rc<Volume>,
    /// The range on that side.
    place: ByteRange,
}

impl Part<'_> {
    /// The side's own reshape: the volume has the side's layout and is reshaped again. Hosts
    /// connected since before the first reshape continue through it.
    fn onward(&self) -> Option<Rc<Moving>> {
        let is_new = Rc::ptr_eq(&self.side, &self.moving.to);
        self.side.moving().filter(|_| is_new)
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.moving.under_way.borrow_mut().remove(&self.number);
        self.moving.changed.notify(&self.env);
    }
}

/// A host's flush at the old side. Dropping ends its count.
struct OldFlush<'a> {
    moving: &'a Moving,
    env: &'a Env,
}

impl Drop for OldFlush<'_> {
    fn drop(&mut self) {
        self.moving.flushes.set(self.moving.flushes.get() - 1);
        self.moving.changed.notify(self.env);
    }
}

/// Both layouts serve the volume from now on. [`show_reshaped`] shows it to hosts.
///
/// # Errors
/// A message, if that is impossible.
pub(crate) fn begin_reshape(
    volume: &Volume,
    place: &ReshapePlace,
    to: &Rc<Volume>,
    save: &Rc<Volume>,
) -> Result<(), String> {
    let ReshapePlace { reshape, moved, .. } = place;
    if !reshape.allows(*moved) {
        return Err(format!(
            "the reshape of '{}' cannot have moved {}",
            volume.name(),
            moved.bytes
        ));
    }
    if volume.geometry() != reshape.from() || to.geometry() != reshape.to() {
        return Err(format!("the layouts of '{}' differ from those of its reshape", volume.name()));
    }
    // A resync that is already running would not notice.
    let end = moved.bytes + moved.saved;
    let all = volume.geometry().stripes().0;
    let live = (volume.live().start..volume.live().end.min(all), to.live());
    if live != (reshape.old_stripes(end), reshape.new_stripes(end)) {
        return Err(format!(
            "'{}' is served with stripes {live:?}, which do not match the progress of its reshape",
            volume.name()
        ));
    }
    let moving = Moving {
        reshape: *reshape,
        to: to.clone(),
        save: save.clone(),
        moved: Cell::new(moved.bytes),
        by_new: Cell::new(reshape.by_new(moved.bytes)),
        closed: Cell::new(reshape.saved_range(*moved)),
        shut: Cell::new(Shut::Found),
        under_way: RefCell::default(),
        requests: Cell::new(0),
        flushes: Cell::new(0),
        reserved: RefCell::default(),
        is_over: Cell::new(false),
        changed: Signal::default(),
    };
    let moving = Rc::new(moving);
    if volume.moving.borrow().is_some() {
        return Err(format!("'{}' is already reshaping", volume.name()));
    }
    volume.moving.replace(Some(moving));
    Ok(())
}

/// Shows a volume that two layouts serve to hosts. Done when all earlier requests have ended.
pub(crate) async fn show_reshaped(volume: &Volume) {
    volume.hide(false);
    volume.others_left().await;
}

/// Nothing has moved, and all is open: the old layout alone serves the volume from now on. Requests
/// in progress through both layouts find all their data there.
pub(crate) fn take_back_reshape(volume: &Volume) {
    volume.set_live(0..u64::MAX);
    volume.moving.take();
}

/// All data has moved: new hosts get the volume by the new layout, under its name, since the caller
/// removes the old one from the shard's table at once. Connected hosts keep the old one, are
/// counted as hosts, and are passed on.
///
/// # Errors
/// A message, if not all data has moved.
pub(crate) fn end_reshape(volume: &Volume) -> Result<(), String> {
    let not_over = || format!("the reshape of '{}' is not complete", volume.name());
    let moving = volume.moving().filter(|moving| moving.is_all_moved()).ok_or_else(not_over)?;
    moving.to.rename(&volume.name());
    moving.to.set_live(0..u64::MAX);
    moving.to.hide(false);
    moving.is_over.set(true);
    Ok(())
}

impl Moving {
    /// The volume by the new layout that hosts get in place of the old one.
    pub(super) fn successor(&self) -> Option<&Rc<Volume>> {
        self.is_over.get().then_some(&self.to)
    }

    /// Reserves memory for copying until a window is opened. No window is closed yet: requests that
    /// wait for one would hold memory themselves.
    pub(crate) async fn reserve(&self, old: &Volume, len: ByteCount) {
        if self.reserved.borrow().is_none() {
            let taken = old.shard().reserve_payload(len).await;
            *self.reserved.borrow_mut() = Some(taken);
        }
    }

    /// Whether memory for copying is reserved.
    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved.borrow().is_some()
    }

    /// Makes requests to a window wait. Done when no request to it is in progress.
    pub(crate) async fn close(&self, env: &Env, window: &Window) {
        self.shut.set(Shut::Moves);
        self.closed.set(window.bytes);
        // The next saved window overwrites the previous one.
        let is_at =
            |(range, is_saved): &(ByteRange, bool)| *is_saved || range.overlaps(window.bytes);
        self.changed.wait_until(env, || !self.under_way.borrow().values().any(is_at)).await;
    }

    /// The number of bytes that the new layout serves.
    pub(crate) fn moved(&self) -> ByteCount {
        self.moved.get()
    }

    /// The capacity that hosts may use until all data has moved.
    pub(super) fn most(&self) -> ByteCount {
        self.reshape.bytes()
    }

    fn is_all_moved(&self) -> bool {
        self.moved.get() >= self.reshape.bytes() && self.closed.get().is_empty()
    }

    /// Opens the window; this many bytes are served by the new layout. If that is all, done when no
    /// flush is at the old side.
    pub(crate) async fn open(&self, env: &Env, moved: ByteCount) {
        self.moved.set(moved);
        self.by_new.set(self.reshape.by_new(moved));
        self.closed.set(ByteRange::default());
        self.reserved.take();
        self.changed.notify(env);
        if self.is_all_moved() {
            self.changed.wait_until(env, || self.flushes.get() == 0).await;
        }
    }

    /// A flush asks the old side. `None`: all data has left it.
    fn begin_old_flush<'a>(&'a self, env: &'a Env) -> Option<OldFlush<'a>> {
        if self.is_all_moved() {
            return None;
        }
        self.flushes.set(self.flushes.get() + 1);
        Some(OldFlush { moving: self, env })
    }

    /// The reshape stops for now: requests do not wait for the closed window. `is_saved`: it is
    /// read from the save area, otherwise from the old layout.
    pub(crate) fn leave(&self, env: &Env, is_saved: bool) {
        self.shut.set(Shut::Left { is_saved });
        self.reserved.take();
        self.changed.notify(env);
    }

    /// The volume is being detached: requests no longer wait for the closed window.
    pub(crate) fn give_up(&self, env: &Env) {
        self.reserved.take();
        self.changed.notify(env);
    }

    /// Whether a request that begins at a byte may begin now.
    fn is_open(&self, at: ByteOffset, access: Access) -> bool {
        !holds(self.closed.get(), at) || access == Access::Reads && self.shut.get() != Shut::Moves
    }

    /// The first part of a request that one side serves, as soon as it may.
    ///
    /// # Errors
    /// When the volume is detached first, or the reshape has stopped.
    async fn enter<'a>(
        &'a self,
        old: &Rc<Volume>,
        range: ByteRange,
        access: Access,
    ) -> Result<Part<'a>, IoError> {
        let env = old.shard().env();
        let is_open = || self.is_open(range.start, access);
        let is_left = || old.closing.get() || matches!(self.shut.get(), Shut::Left { .. });
        self.changed.wait_until(env, || is_open() || is_left()).await;
        if !is_open() {
            return Err(IoError::new(IoErrorKind::Gone));
        }
        let (by_new, closed) = (self.by_new.get(), self.closed.get());
        let is_saved = self.shut.get() != Shut::Left { is_saved: false };
        let begins = |of: ByteRange| holds(of, range.start);
        let (end, side) = match () {
            // Its capacity may differ from the moved bytes by now.
            () if self.is_over.get() => (range.end(), &self.to),
            () if begins(by_new) => (by_new.end(), &self.to),
            () if begins(closed) && is_saved => (closed.end(), &self.save),
            () if begins(closed) => (closed.end(), old),
            () => {
                let next = [by_new, closed]
                    .map(|of| of.start)
                    .into_iter()
                    .filter(|start| *start > range.start);
                (next.min().unwrap_or(range.end()), old)
            }
        };
        let range = ByteRange::from_to(range.start, end.min(range.end()));
        let is_saved = Rc::ptr_eq(side, &self.save);
        let place = match is_saved {
            true => ByteRange::new(ByteOffset(range.start.0 - closed.start.0), range.len),
            false => range,
        };
        let number = self.requests.get();
        self.requests.set(number + 1);
        self.under_way.borrow_mut().insert(number, (range, is_saved));
        Ok(Part { moving: self, env: env.clone(), number, range, side: side.clone(), place })
    }
}

fn holds(range: ByteRange, at: ByteOffset) -> bool {
    (range.start..range.end()).contains(&at)
}

/// The rest of a range behind its first part.
fn rest(range: ByteRange, part: ByteRange) -> ByteRange {
    ByteRange::from_to(part.end(), range.end())
}

/// See [`Volume::read`].
pub(super) async fn read(
    old: &Rc<Volume>,
    moving: &Moving,
    range: ByteRange,
    buf: Buf,
) -> (Result<(), IoError>, Option<Buf>) {
    let (mut left, mut behind, mut result) = (range, Some(buf), Ok(()));
    let mut parts = Vec::new();
    while let Some(mut buf) = behind.take() {
        let part = match moving.enter(old, left, Access::Reads).await {
            Ok(part) => part,
            Err(error) => {
                result = result.and(Err(error));
                parts.push(buf);
                break;
            }
        };
        left = rest(left, part.range);
        behind = (!left.is_empty()).then(|| buf.split_off(part.range.len));
        let (read, back) = match part.side.enter() {
            Ok(_user) => match part.onward() {
                None => part.side.read_entered(part.place, buf).await,
                Some(onward) => Box::pin(read(&part.side, &onward, part.place, buf)).await,
            },
            Err(error) => (Err(error), Some(buf)),
        };
        result = result.and(read);
        parts.extend(back);
    }
    match old.put_together(parts.into_iter()).filter(|buf| buf.len() == range.len) {
        Some(buf) => (result, Some(buf)),
        // A drive that did not respond in time keeps some of it.
        None => (result.and(Err(IoError::new(IoErrorKind::TimedOut))), None),
    }
}

/// See [`Volume::write`].
pub(super) async fn write(
    old: &Rc<Volume>,
    moving: &Moving,
    range: ByteRange,
    data: Slice,
    durability: Durability,
) -> Result<(), IoError> {
    let mut left = range;
    while !left.is_empty() {
        let part = moving.enter(old, left, Access::Changes).await?;
        let _user = part.side.enter()?;
        let data = data.cut(part.range.start - range.start, part.range.len);
        match part.onward() {
            None => part.side.write_entered(part.place, data, durability).await?,
            Some(onward) => {
                Box::pin(write(&part.side, &onward, part.place, data, durability)).await?
            }
        }
        left = rest(left, part.range);
    }
    Ok(())
}

/// See [`Volume::trim`].
pub(super) async fn trim(
    old: &Rc<Volume>,
    moving: &Moving,
    range: ByteRange,
) -> Result<(), IoError> {
    let mut left = range;
    while !left.is_empty() {
        let part = moving.enter(old, left, Access::Changes).await?;
        let _user = part.side.enter()?;
        match part.onward() {
            None => part.side.trim_entered(part.place).await?,
            Some(onward) => Box::pin(trim(&part.side, &onward, part.place)).await?,
        }
        left = rest(left, part.range);
    }
    Ok(())
}

/// See [`Volume::flush`].
pub(super) async fn flush(old: &Rc<Volume>, moving: &Moving) -> Result<(), IoError> {
    let _user = moving.to.enter()?;
    match moving.to.moving() {
        None => moving.to.make_durable().await?,
        Some(onward) => Box::pin(flush(&moving.to, &onward)).await?,
    }
    match moving.begin_old_flush(old.shard().env()) {
        Some(_flushing) => old.make_durable().await,
        None => Ok(()),
    }
}

/// See [`Volume::status`].
pub(super) async fn status(
    old: &Rc<Volume>,
    moving: &Moving,
    range: ByteRange,
) -> Result<Vec<StatusExtent>, IoError> {
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let part = moving.enter(old, range, Access::Reads).await?;
    let _user = part.side.enter()?;
    match part.onward() {
        None => part.side.status_entered(part.place).await,
        Some(onward) => Box::pin(status(&part.side, &onward, part.place)).await,
    }
}
