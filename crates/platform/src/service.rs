//! What answers requests with an async function, and such a thing as a drive.

use crate::drive::{Drive, DriveInfo, IoRequest};
use crate::ops::Completion;
use crate::outcome::IoOutcome;
use crate::runners::Runners;
use crate::world::Env;
use std::future::Future;
use std::rc::Rc;

/// What a drive does, as an async function: a volume of the engine, what stands before one.
pub trait Service {
    /// What it says of itself.
    fn info(&self) -> &DriveInfo;

    /// Carries a request out, in the caller's task.
    fn serve(&self, request: IoRequest) -> impl Future<Output = IoOutcome>;
}

/// A service behind the interface of a drive, for whoever sees only drives.
pub struct Served<S> {
    service: Rc<S>,
    requests: Runners<(IoRequest, Completion)>,
}

impl<S: Service + 'static> Served<S> {
    /// At most `most` requests are under way at a time; others wait.
    pub fn new(env: &Env, service: S, most: usize) -> Served<S> {
        let (service, requests) = (Rc::new(service), Runners::new(env, "served drive", most));
        let served = service.clone();
        requests.run(async move |(request, completion): (IoRequest, Completion)| {
            completion.complete(served.serve(request).await);
        });
        Served { service, requests }
    }
}

impl<S: Service> Drive for Served<S> {
    fn info(&self) -> &DriveInfo {
        self.service.info()
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        self.requests.hand((request, completion));
    }
}
