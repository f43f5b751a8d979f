//! What every request is answered with: the controller, and who may ask it what.

use crate::gate::Users;
use crate::holdings::Holdings;
use crate::keeper::Keeper;
use crate::notify::Office;
use crate::redfish_routes::Machine;
use crate::subscriptions::Subscriptions;
use crate::told_once::ToldOnce;
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
pub(crate) struct Desk {
    pub(crate) controller: ControllerHandle,
    pub(crate) options: MetricsOptions,
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) users: Users,
    pub(crate) machine: Machine,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) office: Arc<Office>,
    pub(crate) traffic: Arc<Traffic>,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) told_once: Arc<ToldOnce>,
    pub(crate) workbench: Arc<dyn Workbench>,
    pub(crate) history: Arc<History>,
    /// Questions about the history that may be asked, beyond those that are.
    pub(crate) asking: Arc<Semaphore>,
    /// A restore of the configuration: one at a time.
    pub(crate) restoring: Arc<Semaphore>,
    /// Pages of the console that may be open at a time, beyond those that are.
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) stopped_controller: Arc<dyn Fn() + Send + Sync>,
}

const GONE: &str = "the controller is gone; start it again";

impl Desk {
    /// What the controller answers a question, whoever asks: what of it is told is for the caller to say.
    ///
    /// # Errors
    /// Those of the command.
    pub(crate) async fn look(&self, question: Command) -> Result<Reply> {
        let (answer, receiver) = answer();
        self.controller.ask(question, answer);
        receiver.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Stopping, GONE)))
    }

    /// What the controller answers somebody, if they may ask that.
    ///
    /// # Errors
    /// `Denied`, and those of the command.
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

/// Takes an answer, and where it can be waited for.
fn answer() -> (impl FnOnce(Result<Reply>) + Send + 'static, oneshot::Receiver<Result<Reply>>) {
    let (sender, receiver) = oneshot::channel();
    let answer = move |result| {
        if sender.send(result).is_err() {
            tracing::debug!("the client went away before its answer");
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
