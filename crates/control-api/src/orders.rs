//! Orders that are carried out here and not by the controller: they are recorded in its audit trail before they are answered.

use crate::desk::Desk;
use access::{Action, Caller};
use controller::{ControllerHandle, OrderGiven, Result};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long an order waits until the controller says that it is recorded, or why not. The controller takes a second at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// An order, for the audit trail.
pub(crate) fn given(by: &controller::Caller, order: &str, subject: &str, fields: Value) -> OrderGiven {
    OrderGiven { by: Some(by.clone()), order: order.to_owned(), subject: subject.to_owned(), fields }
}

/// Records what became of an order; gives that back when it is stored, or cannot be.
pub(crate) async fn recorded<T>(
    controller: &ControllerHandle,
    given: OrderGiven,
    done: Result<T>,
) -> Result<T> {
    let (sender, stored) = oneshot::channel();
    let order = given.order.clone();
    controller.record(given, done.as_ref().err().cloned(), move |note| {
        if sender.send(note).is_err() {
            tracing::debug!("the client went away before its order was recorded");
        }
    });
    // The controller reports it, too, unless it is gone.
    match timeout(PATIENCE, stored).await {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(note))) => tracing::error!("'{order}': {note}"),
        Ok(Err(_)) => tracing::error!("'{order}' is not recorded: the controller is gone"),
        Err(_) => tracing::error!("'{order}' is not recorded yet: the controller does not answer"),
    }
    done
}

impl Desk {
    /// Whether somebody may do that. That they may not is counted in the audit trail.
    ///
    /// # Errors
    /// `Denied`.
    pub(crate) fn may(&self, caller: &Caller, action: Action, subject: &str) -> Result<()> {
        let may = caller.may(action);
        if let Err(why) = &may {
            let given = given(&caller.named(), action.name(), subject, Value::Null);
            self.controller.refused(given, why.clone());
        }
        may
    }

    /// Carries an order out for somebody who may give it, and records it.
    ///
    /// # Errors
    /// `Denied`, and those of the work.
    pub(crate) async fn order<T>(
        &self,
        (caller, action): (&Caller, Action),
        (order, subject): (&str, &str),
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.may(caller, action, subject)?;
        let done = work.await;
        recorded(&self.controller, given(&caller.named(), order, subject, Value::Null), done).await
    }
}
