//! A volume on its way to another layout, as hosts see it: one volume. Bytes behind a cursor are served by the new layout, those
//! ahead of it by the old one, and those in between wait. The cursor goes up, or down from the last byte on ([`Reshape::is_down`]).
//!
//! # Invariants
//! - The cursor and what is closed change by the steps of a reshape alone, each on all shards before the next one begins
//!   ([`volume_state::Mover`] has their order).
//! - A request is counted from before it is sent to a side until it has ended. Whoever closes a window waits for those that touch
//!   it, and for those that read an earlier one where it was saved. So no request is at a side that the bytes have left.
//! - A flush asks both sides, and the old one until all is moved: that is durable by the new layout before it is opened. Whoever opens the last
//!   of it waits for flushes that are at the old side. They need the old layout on all shards, and hear there which drives are out.
//! - What is closed and saved, and is in nobody's hands, is read where it is saved. Nobody writes there: what is saved has no journal. When nobody
//!   goes on with a window, hosts do not wait for it either: reads are served from where it is whole, writes get an error.
//! - A request that reaches over the cursor, or into what is closed, is served in parts one after the other, as one over
//!   several stripes may be.
//! - What the new layout has no room for is served no more: who asks for it is told that it lies past the end.
//! - A host keeps the volume that it was given. When that has come to its new layout, and that layout's volume goes on to yet another one,
//!   the host's requests go through both ways. So a window of the second one waits for them as for any other.

use crate::attachment::ReshapePlace;
use crate::host::Volume;
use platform::sync::{Signal, Taken};
use platform::{Buf, Durability, Env, IoError, IoErrorKind, Slice, StatusExtent};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{ByteCount, ByteOffset, ByteRange};
use volume_state::{Reshape, Window};

/// What becomes of requests to what is closed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shut {
    /// They wait: it is being moved.
    Moves,
    /// It was found saved at a start, and is moved soon. It is read there; who writes waits.
    Found,
    /// Nobody goes on with it for now. It is read by the old layout, or where it is saved; who writes is told so.
    Left { is_saved: bool },
}

/// What a request does to the bytes that it is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Reads,
    Changes,
}

/// What a shard knows of a volume's way to another layout.
pub(crate) struct Moving {
    pub(crate) reshape: Reshape,
    /// The volume by the new layout, and where windows are saved.
    pub(crate) to: Rc<Volume>,
    pub(crate) save: Rc<Volume>,
    /// So many bytes are served by the new layout, and which.
    moved: Cell<ByteCount>,
    by_new: Cell<ByteRange>,
    closed: Cell<ByteRange>,
    shut: Cell<Shut>,
    /// Requests of hosts that are at any side, by number, and whether they read what is saved.
    under_way: RefCell<BTreeMap<u64, (ByteRange, bool)>>,
    requests: Cell<u64>,
    /// Flushes of hosts that are at the old side.
    flushes: Cell<usize>,
    /// Memory for what is copied, on the shard that copies.
    reserved: RefCell<Option<Taken>>,
    /// Hosts get the volume by the new layout, under its name.
    is_over: Cell<bool>,
    changed: Signal,
}

/// A part of a host's request that is at one side. Dropping counts it out.
struct Part<'a> {
    moving: &'a Moving,
    env: Env,
    number: u64,
    range: ByteRange,
    side: Rc<Volume>,
    /// Where the range is on that side.
    place: ByteRange,
}

impl Part<'_> {
    /// The way that the side is on itself: the volume came to the side's layout, and goes to yet another one. Requests of hosts that
    /// are here since before go on through it.
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

/// A host's flush that is at the old side. Dropping counts it out.
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

/// A volume is served by two layouts from now on. Hosts get to see it by [`show_reshaped`].
///
/// # Errors
/// One sentence, if that cannot be.
pub(crate) fn begin_reshape(
    volume: &Volume,
    place: &ReshapePlace,
    to: &Rc<Volume>,
    save: &Rc<Volume>,
) -> Result<(), String> {
    let ReshapePlace { reshape, moved, .. } = place;
    if !reshape.allows(*moved) {
        return Err(format!("'{}' has not moved {} to another layout", volume.name(), moved.bytes));
    }
    if volume.geometry() != reshape.from() || to.geometry() != reshape.to() {
        return Err(format!("'{}' is not as its reshape says", volume.name()));
    }
    // A resync that has begun by now would not know.
    let end = moved.bytes + moved.saved;
    let all = volume.geometry().stripes().0;
    let live = (volume.live().start..volume.live().end.min(all), to.live());
    if live != (reshape.old_stripes(end), reshape.new_stripes(end)) {
        return Err(format!(
            "'{}' is served with stripes {live:?}, which is not as far as its reshape is",
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
        return Err(format!("'{}' is on its way already", volume.name()));
    }
    volume.moving.replace(Some(moving));
    Ok(())
}

/// Hosts get to see a volume that is served by two layouts. Done when no request is under way any more that was begun before.
pub(crate) async fn show_reshaped(volume: &Volume) {
    volume.hide(false);
    volume.others_left().await;
}

/// Nothing has moved, and all is open: the volume is served by the old layout alone from now on. Requests that are on their way through both find all of
/// it there.
pub(crate) fn take_back_reshape(volume: &Volume) {
    volume.set_live(0..u64::MAX);
    volume.moving.take();
}

/// All is moved: hosts that come from now on get the volume by the new layout, under its name, as the caller takes the old one out of the
/// shard's table at once. Those that are here go on by the old one, are counted as hosts, and are passed on.
///
/// # Errors
/// One sentence, if not all is moved.
pub(crate) fn end_reshape(volume: &Volume) -> Result<(), String> {
    let not_over = || format!("'{}' has not come to its new layout", volume.name());
    let moving = volume.moving().filter(|moving| moving.is_all_moved()).ok_or_else(not_over)?;
    moving.to.rename(&volume.name());
    moving.to.set_live(0..u64::MAX);
    moving.to.hide(false);
    moving.is_over.set(true);
    Ok(())
}

impl Moving {
    /// The volume that hosts get in the old one's place: that has come to another layout.
    pub(super) fn successor(&self) -> Option<&Rc<Volume>> {
        self.is_over.get().then_some(&self.to)
    }

    /// Takes memory for what is copied until something is opened. No host waits for what is closed yet: those who do hold memory themselves.
    pub(crate) async fn reserve(&self, old: &Volume, len: ByteCount) {
        if self.reserved.borrow().is_none() {
            let taken = old.shard().reserve_payload(len).await;
            *self.reserved.borrow_mut() = Some(taken);
        }
    }

    /// Whether there is memory for what is copied.
    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved.borrow().is_some()
    }

    /// Has hosts wait that ask for a window. Done when no request to it is under way.
    pub(crate) async fn close(&self, env: &Env, window: &Window) {
        self.shut.set(Shut::Moves);
        self.closed.set(window.bytes);
        // What is saved next lies over what was saved before.
        let is_at = |(range, is_saved): &(ByteRange, bool)| *is_saved || range.overlaps(window.bytes);
        self.changed.wait_until(env, || !self.under_way.borrow().values().any(is_at)).await;
    }

    /// So many bytes are served by the new layout.
    pub(crate) fn moved(&self) -> ByteCount {
        self.moved.get()
    }

    /// What hosts may use at most until all is moved.
    pub(super) fn most(&self) -> ByteCount {
        self.reshape.bytes()
    }

    fn is_all_moved(&self) -> bool {
        self.moved.get() >= self.reshape.bytes() && self.closed.get().is_empty()
    }

    /// Nothing is closed any more, and so many bytes are served by the new layout. Where that is all, done when no flush is at the old side.
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

    /// A flush asks the old side. `None`: nothing is there any more.
    fn begin_old_flush<'a>(&'a self, env: &'a Env) -> Option<OldFlush<'a>> {
        if self.is_all_moved() {
            return None;
        }
        self.flushes.set(self.flushes.get() + 1);
        Some(OldFlush { moving: self, env })
    }

    /// Nobody goes on with what is closed for now: hosts do not wait for it. `is_saved`: it is read where it is saved, or else by the old layout.
    pub(crate) fn leave(&self, env: &Env, is_saved: bool) {
        self.shut.set(Shut::Left { is_saved });
        self.reserved.take();
        self.changed.notify(env);
    }

    /// The volume goes away: nobody waits any more for what is closed.
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
    /// When the volume goes away before that, or nobody goes on with what is closed.
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
            // It has other bytes by now than were moved.
            () if self.is_over.get() => (range.end(), &self.to),
            () if begins(by_new) => (by_new.end(), &self.to),
            () if begins(closed) && is_saved => (closed.end(), &self.save),
            () if begins(closed) => (closed.end(), old),
            () => {
                let next =
                    [by_new, closed].map(|of| of.start).into_iter().filter(|start| *start > range.start);
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

/// What is left of a range behind its first part.
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
        // A drive that did not answer in time keeps some of it.
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
            Some(onward) => Box::pin(write(&part.side, &onward, part.place, data, durability)).await?,
        }
        left = rest(left, part.range);
    }
    Ok(())
}

/// See [`Volume::trim`].
pub(super) async fn trim(old: &Rc<Volume>, moving: &Moving, range: ByteRange) -> Result<(), IoError> {
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
