//! Threads for what may block: opening drives, resolving names, durable state, asking devices.

use crate::errno::system_error;
use platform::{Error, ErrorKind, Result};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Poll, Waker};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does its jobs one after the other, and ends when the worker and its jobs are gone.
pub(crate) struct Worker {
    jobs: mpsc::Sender<Job>,
}

struct Place<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    Working(Option<Waker>),
    Done(T),
    /// The job ended without a result: it panicked.
    Lost,
}

impl<T> Place<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State<T>) {
        let before = std::mem::replace(&mut *self.state(), state);
        if let State::Working(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The job's side of a place: whatever becomes of the job, whoever waits is told.
struct Reporter<T>(Arc<Place<T>>);

impl<T> Drop for Reporter<T> {
    fn drop(&mut self) {
        if matches!(*self.0.state(), State::Working(_)) {
            self.0.set(State::Lost);
        }
    }
}

impl Worker {
    pub(crate) fn start() -> Result<Worker> {
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("worker".to_owned())
            .spawn(move || queue.into_iter().for_each(|job| job()))
            .map_err(|error| system_error(error, "cannot start a worker thread"))?;
        Ok(Worker { jobs })
    }

    /// Does `job` on the worker's thread; the task that waits leaves its own thread free. The job is done
    /// even if nobody waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let place = Arc::new(Place { state: Mutex::new(State::Working(None)) });
        let reporter = Reporter(place.clone());
        let lost = || Error::new(ErrorKind::System, "a worker thread failed");
        self.jobs
            .send(Box::new(move || {
                let done = job();
                reporter.0.set(State::Done(done));
            }))
            .map_err(|_| lost())?;
        poll_fn(|context| {
            let mut state = place.state();
            match std::mem::replace(&mut *state, State::Lost) {
                State::Working(_) => {
                    *state = State::Working(Some(context.waker().clone()));
                    Poll::Pending
                }
                State::Done(done) => Poll::Ready(Ok(done)),
                State::Lost => Poll::Ready(Err(lost())),
            }
        })
        .await
    }

    /// The same on a thread of its own.
    pub(crate) async fn run_alone<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        Worker::start()?.run(job).await
    }
}
