//! Pending orders: recorded in the audit trail before they are executed and before the reply. A
//! change without an event of its own gets one here.

use super::Commands;
use super::handle::{Answer, Note};
use crate::audit::{Open, order_of};
use crate::events::EventCode;
use crate::interface::{Caller, Command, Error, OrderGiven, Reply, Result};
use platform::mailbox;
use std::rc::Rc;

/// A command without a reply yet.
pub(super) struct Unanswered {
    /// Its record in the audit trail; `None` for a query.
    order: Option<(OrderGiven, Open)>,
    answer: Answer,
}

impl Unanswered {
    /// Whether it is an order rather than a query.
    pub(super) fn is_order(&self) -> bool {
        self.order.is_some()
    }
}

impl Commands {
    /// Accepts a command.
    pub(super) fn asked(
        &self,
        command: &Command,
        by: Option<&Caller>,
        answer: Answer,
    ) -> Unanswered {
        let order = (!command.only_looks()).then(|| {
            let given = order_of(command, by);
            let open = self.audit.open(given.clone());
            (given, open)
        });
        Unanswered { order, answer }
    }

    /// Records an order that is about to be executed, and waits until the record is stored or has
    /// failed.
    pub(super) async fn begin(&self, asked: &Unanswered) {
        if let Some((_, open)) = &asked.order {
            // The reply reports whether it is recorded.
            self.audit.stored(self.audit.begin(open)).await;
        }
    }

    /// Records the outcome of an order, then sends the reply; the reply to a query is sent at once.
    /// `told`: whether an event reports the order.
    pub(super) async fn end(
        &self,
        Unanswered { order, answer }: Unanswered,
        told: bool,
        mut reply: Result<Reply>,
    ) {
        if let Some((given, open)) = order {
            if !told && reply.is_ok() {
                self.note_asked(&given);
            }
            let record = self.audit.end(open, reply.as_ref().err());
            if let (Some(note), Ok(reply)) = (self.audit.stored(record).await, &mut reply) {
                reply.add_note(note);
            }
        }
        answer(reply);
    }

    /// The same in a separate task.
    pub(super) fn end_apart(self: &Rc<Self>, asked: Unanswered, told: bool, reply: Result<Reply>) {
        if !asked.is_order() {
            return (asked.answer)(reply);
        }
        let this = self.clone();
        self.env.spawn("order answered", async move { this.end(asked, told, reply).await });
    }

    /// Reports a change that has no event of its own.
    fn note_asked(&self, given: &OrderGiven) {
        let OrderGiven { by: Some(caller), order, subject, fields } = given else { return };
        let text = format!("{caller} ran '{order}': {fields}");
        let cause = format!("{caller} requested it");
        let tell =
            || self.events.report(EventCode::ControllerCommand, subject, &cause, order, text);
        self.events.doing(Some(caller), tell);
    }

    /// Receives reports of interfaces. Their mailbox is separate, so waiting commands cannot block
    /// them.
    pub(super) async fn take_notes(self: Rc<Self>, mut notes: mailbox::Receiver<Note>) {
        while let Some(note) = notes.receive().await {
            match note {
                Note::Occurrence(one) => {
                    let report = || {
                        self.events.report(
                            one.code,
                            &one.subject,
                            &one.cause,
                            &one.effect,
                            one.text,
                        );
                    };
                    match &one.by {
                        Some(by) => self.events.doing(Some(by), report).0,
                        None => report(),
                    }
                }
                Note::Refused(given, why) => self.audit.refused(given, &why),
                Note::Order(given, refused, answer) => self.take_record(given, refused, answer),
            }
        }
    }

    /// Records an order that an interface executed.
    fn take_record(
        self: &Rc<Self>,
        given: OrderGiven,
        refused: Option<Error>,
        answer: Box<dyn FnOnce(Option<String>) + Send>,
    ) {
        let record = self.audit.end(self.audit.open(given), refused.as_ref());
        let this = self.clone();
        self.env.spawn("order recorded", async move { answer(this.audit.stored(record).await) });
    }
}
