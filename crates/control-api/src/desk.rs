//! The state of the HTTP application: the controller, and access control.

use crate::gate::Users;
use crate::holdings::ScanCache;
use crate::keeper::AccountStore;
use crate::notify::Notifier;
use crate::redfish_routes::Machine;
use crate::subscriptions::Subscriptions;
use crate::told_once::PendingNotes;
use crate::traffic::Traffic;
use crate::workbench::Workbench;
use crate::{MetricsOptions, Refusal};
use ::history::History;
use access::{Action, Caller};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use controller::{Command, ControllerHandle, Error, ErrorKind, Reply, Result};
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// See the module.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) controller: ControllerHandle,
    pub(crate) options: MetricsOptions,
    pub(crate) keeper: Arc<AccountStore>,
    pub(crate) users: Users,
    pub(crate) machine: Machine,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) office: Arc<Notifier>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) holdings: Arc<ScanCache>,
    pub(crate) told_once: Arc<PendingNotes>,
    pub(crate) workbench: Arc<dyn Workbench>,
    pub(crate) history: Arc<History>,
    /// Limits concurrent history queries.
    pub(crate) asking: Arc<Semaphore>,
    /// Serialises restores of the configuration.
    pub(crate) restoring: Arc<Semaphore>,
    /// Limits open console pages.
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) stopped_controller: Arc<dyn Fn() + Send + Sync>,
}

const GONE: &str = "the controller has stopped; start it again";

impl AppState {
    /// The controller's reply to a query, without an access check: the caller restricts the output.
    ///
    /// # Errors
    /// Errors of the command.
    pub(crate) async fn look(&self, question: Command) -> Result<Reply> {
        let (answer, receiver) = answer();
        self.controller.ask(question, answer);
        receiver.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Stopping, GONE)))
    }

    /// The controller's reply to a command, if the caller has the permission.
    ///
    /// # Errors
    /// `Denied`, and the errors of the command.
    pub(crate) async fn ask(&self, caller: &Caller, command: Command) -> Result<Reply> {
        if let Err(denied) = caller.may(Action::of(&command)) {
            if !command.only_looks() {
                let given = controller::order_of(&command, Some(&caller.named()));
                self.controller.refused(given, denied.clone());
            }
            return Err(denied);
        }
        let stops = command == Command::Shutdown {};
        let (answer, receiver) = answer();
        self.controller.ask_as(Some(caller.named()), command, answer);
        let reply = receiver.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Stopping, GONE)));
        if stops && reply.is_ok() {
            (self.stopped_controller)();
        }
        reply
    }
}

/// A reply callback, and the receiver of the reply.
fn answer() -> (impl FnOnce(Result<Reply>) + Send + 'static, oneshot::Receiver<Result<Reply>>) {
    let (sender, receiver) = oneshot::channel();
    let answer = move |result| {
        if sender.send(result).is_err() {
            tracing::debug!("the client disconnected before the reply");
        }
    };
    (answer, receiver)
}

pub(crate) fn refuse(kind: ErrorKind, sentence: &str) -> Response {
    refused(Error::new(kind, sentence))
}

pub(crate) fn refused(error: Error) -> Response {
    (status(error.kind), Json(Refusal { error })).into_response()
}

pub(crate) fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::NameTaken
        | ErrorKind::InUse
        | ErrorKind::HoldsData
        | ErrorKind::LosesData
        | ErrorKind::WrongState => StatusCode::CONFLICT,
        ErrorKind::Unavailable => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::OutOfSpace => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorKind::Busy | ErrorKind::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Denied => StatusCode::FORBIDDEN,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
    }
}
