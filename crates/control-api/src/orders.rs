//! Orders that are executed here instead of by the controller: the audit trail has them before the
//! response.

use crate::desk::AppState;
use access::{Action, Caller};
use controller::{ControllerHandle, OrderGiven, Result};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Time limit for recording an order. The controller needs at most a second.
const PATIENCE: Duration = Duration::from_secs(5);

/// An order, for the audit trail.
pub(crate) fn given(
    by: &controller::Caller,
    order: &str,
    subject: &str,
    fields: Value,
) -> OrderGiven {
    OrderGiven {
        by: Some(by.clone()),
        order: order.to_owned(),
        subject: subject.to_owned(),
        fields,
    }
}

/// Records the result of an order; returns the result when it is stored, or cannot be.
pub(crate) async fn recorded<T>(
    controller: &ControllerHandle,
    given: OrderGiven,
    done: Result<T>,
) -> Result<T> {
    let (sender, stored) = oneshot::channel();
    let order = given.order.clone();
    controller.record(given, done.as_ref().err().cloned(), move |note| {
        if sender.send(note).is_err() {
            tracing::debug!(
                "the client disconnected before its command was recorded in the audit trail"
            );
        }
    });
    // The controller reports it too, unless it has stopped.
    match timeout(PATIENCE, stored).await {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(note))) => tracing::error!("'{order}': {note}"),
        Ok(Err(_)) => tracing::error!(
            "the command '{order}' is not recorded in the audit trail: the controller has stopped"
        ),
        Err(_) => tracing::error!(
            "the command '{order}' is not recorded in the audit trail yet: the controller does not \
             respond"
        ),
    }
    done
}

impl AppState {
    /// Whether the caller has the permission. A refusal is counted in the audit trail.
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

    /// Executes an order of a caller with the permission, and records it.
    ///
    /// # Errors
    /// `Denied`, and the errors of the order.
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
