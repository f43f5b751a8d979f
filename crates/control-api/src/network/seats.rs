//! The connection slots of a port: which connection is closed for a new one.
//!
//! Invariants: at most `most` connections, and at most `most_of_a_source` of one source. A source
//! at its limit displaces its own connections. Connections without sign-in are closed first, the
//! oldest of the source with the most of them; then idle signed-in clients, which reconnect
//! transparently. A signed-in connection with an outstanding request is never closed: then the new
//! one is refused.

use super::link::Link;
use access::Source;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    pub(crate) in_all: usize,
    pub(crate) of_a_source: usize,
}

impl ConnectionLimits {
    /// For the management port. All programs of one address are one source.
    pub(crate) const MANAGEMENT: ConnectionLimits =
        ConnectionLimits { in_all: 256, of_a_source: 64 };

    /// For a metrics port.
    pub(crate) const METRICS: ConnectionLimits = ConnectionLimits { in_all: 32, of_a_source: 8 };
}

/// See the module.
pub(super) struct ConnectionSlots {
    most: ConnectionLimits,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// By number, oldest first.
    by_number: BTreeMap<u64, (Source, Arc<Link>)>,
    next: u64,
}

/// A slot, which is freed when this is dropped.
pub(super) struct ConnectionSlot {
    seats: Arc<ConnectionSlots>,
    number: u64,
}

impl ConnectionSlots {
    pub(super) fn new(most: ConnectionLimits) -> Arc<ConnectionSlots> {
        Arc::new(ConnectionSlots { most, taken: Mutex::default() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a new connection, if necessary that of another one, which is closed. `None`: no
    /// connection can be closed.
    pub(super) fn take(
        self: &Arc<ConnectionSlots>,
        source: Source,
        link: &Arc<Link>,
    ) -> Option<ConnectionSlot> {
        let mut taken = self.taken();
        if taken.of(source) >= self.most.of_a_source {
            taken.make_room(Some(source))?;
        }
        if taken.by_number.len() >= self.most.in_all {
            taken.make_room(None)?;
        }
        let number = taken.next;
        taken.next += 1;
        taken.by_number.insert(number, (source, link.clone()));
        Some(ConnectionSlot { seats: self.clone(), number })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.seats.taken().by_number.remove(&self.number);
    }
}

impl Taken {
    fn of(&self, source: Source) -> usize {
        self.by_number.values().filter(|(of, _)| *of == source).count()
    }

    /// Closes a connection of a source, or of any.
    fn make_room(&mut self, source: Option<Source>) -> Option<()> {
        let number = self.stranger(source).or_else(|| self.idle(source))?;
        let (_, link) = self.by_number.remove(&number)?;
        link.end();
        Some(())
    }

    /// The oldest connection without sign-in, of the source with the most of them.
    fn stranger(&self, source: Option<Source>) -> Option<u64> {
        let mut by_source: BTreeMap<Source, (usize, u64)> = BTreeMap::new();
        for (number, (of, link)) in &self.by_number {
            if source.is_none_or(|source| source == *of) && !link.is_signed_in() {
                by_source.entry(*of).or_insert((0, *number)).0 += 1;
            }
        }
        let oldest = |(count, number): &&(usize, u64)| (*count, std::cmp::Reverse(*number));
        by_source.values().max_by_key(oldest).map(|(_, number)| *number)
    }

    /// The signed-in client that is idle for the longest time.
    fn idle(&self, source: Option<Source>) -> Option<u64> {
        let own =
            self.by_number.iter().filter(|(_, (of, _))| source.is_none_or(|source| source == *of));
        let idle = own.filter_map(|(number, (_, link))| Some((link.idle_since()?, *number)));
        idle.min().map(|(_, number)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::Deadlines;
    use super::*;
    use std::net::Ipv4Addr;

    const MOST: ConnectionLimits = ConnectionLimits { in_all: 12, of_a_source: 4 };

    fn source(number: u8) -> Source {
        Source::V4(Ipv4Addr::new(10, 0, 0, number))
    }

    struct Connection {
        link: Arc<Link>,
        seat: Option<ConnectionSlot>,
    }

    fn connect(seats: &Arc<ConnectionSlots>, number: u8) -> Connection {
        let link = Link::new(Deadlines::MANAGEMENT, true);
        let seat = seats.take(source(number), &link);
        Connection { link, seat }
    }

    fn sign_in(connection: &Connection) {
        connection.link.asked();
        connection.link.heard();
        connection.link.sign_in();
    }

    /// The request is processed, and the response sent.
    fn be_answered(connection: &Connection) {
        connection.link.answered();
        connection.link.flushed();
    }

    /// Whether the connection still has its slot.
    fn stays(seats: &Arc<ConnectionSlots>, connection: &Connection) -> bool {
        let number = connection.seat.as_ref().map(|seat| seat.number);
        number.is_some_and(|number| seats.taken().by_number.contains_key(&number))
    }

    #[test]
    fn a_thousand_strangers_of_one_source_take_no_place_of_another_source() {
        let seats = ConnectionSlots::new(MOST);
        let quiet = connect(&seats, 1);
        let strangers: Vec<Connection> = (0..1000).map(|_| connect(&seats, 2)).collect();
        assert!(stays(&seats, &quiet), "it is not signed in, and older than all of them");
        let left: Vec<usize> = (0..1000).filter(|at| stays(&seats, &strangers[*at])).collect();
        assert_eq!(
            left,
            [996, 997, 998, 999],
            "the oldest make room, as many as are of their source"
        );
        drop(strangers);
        assert_eq!(seats.taken().by_number.len(), 1, "places are free again");
    }

    #[test]
    fn strangers_of_many_sources_make_room_for_each_other_and_never_a_signed_in_client() {
        let seats = ConnectionSlots::new(MOST);
        let [busy, idle] = [1, 1].map(|number| connect(&seats, number));
        sign_in(&busy);
        sign_in(&idle);
        be_answered(&idle);
        let alone = connect(&seats, 2);
        let crowd: Vec<Connection> =
            (0..1000).map(|number| connect(&seats, 10 + (number % 3) as u8)).collect();
        assert!(stays(&seats, &busy) && stays(&seats, &idle));
        assert!(stays(&seats, &alone), "its source has fewer than the others");
        assert_eq!(seats.taken().by_number.len(), MOST.in_all);
        assert!(stays(&seats, &crowd[999]));
        let more: Vec<Connection> = (20..120).map(|number| connect(&seats, number)).collect();
        assert!(
            stays(&seats, &busy)
                && stays(&seats, &idle)
                && more.iter().all(|one| one.seat.is_some())
        );
        assert_eq!(seats.taken().by_number.len(), MOST.in_all);
    }

    #[test]
    fn of_signed_in_clients_those_between_two_requests_make_room_and_a_full_port_refuses() {
        let seats = ConnectionSlots::new(MOST);
        let own: Vec<Connection> = (0..MOST.of_a_source).map(|_| connect(&seats, 1)).collect();
        own.iter().for_each(sign_in);
        assert!(connect(&seats, 1).seat.is_none(), "all of them are being answered");
        let other = connect(&seats, 2);
        assert!(other.seat.is_some(), "another source has its own places");
        be_answered(&own[2]);
        assert!(connect(&seats, 1).seat.is_some());
        let stay: Vec<bool> = own.iter().map(|one| stays(&seats, one)).collect();
        assert_eq!(stay, [true, true, false, true]);
    }
}
