//! Async functions that serve drive requests, and their adapter to the drive interface.

use crate::drive::{Drive, DriveInfo};
use crate::ops::Completion;
use crate::outcome::IoOutcome;
use crate::request::IoRequest;
use crate::runners::Runners;
use crate::world::Env;
use std::future::Future;
use std::rc::Rc;

/// A drive as an async function: a volume of the engine, or a layer in front of one.
pub trait Service {
    /// The drive's properties.
    fn info(&self) -> &DriveInfo;

    /// Performs a request, in the caller's task.
    fn serve(&self, request: IoRequest) -> impl Future<Output = IoOutcome>;
}

/// Adapts a service to the drive interface.
pub struct Served<S> {
    service: Rc<S>,
    requests: Runners<(IoRequest, Completion)>,
}

impl<S: Service + 'static> Served<S> {
    /// At most `most` requests run concurrently; others wait.
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
