//! Threads for blocking calls: opening drives, resolving names, durable state, device commands.

use crate::errno::system_error;
use platform::{Error, ErrorKind, Result};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::task::{Poll, Waker};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs its jobs in order, and ends when the worker and its jobs are gone.
pub(crate) struct Worker {
    jobs: mpsc::Sender<Job>,
}

struct JobResult<T> {
    state: Mutex<JobState<T>>,
}

enum JobState<T> {
    Working(Option<Waker>),
    Done(T),
    /// The job ended without a result: it panicked.
    Lost,
}

impl<T> JobResult<T> {
    fn state(&self) -> MutexGuard<'_, JobState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: JobState<T>) {
        let before = std::mem::replace(&mut *self.state(), state);
        if let JobState::Working(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The job's side: notifies the waiter in any case, also if the job panics.
struct Reporter<T>(Arc<JobResult<T>>);

impl<T> Drop for Reporter<T> {
    fn drop(&mut self) {
        if matches!(*self.0.state(), JobState::Working(_)) {
            self.0.set(JobState::Lost);
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

    /// Runs `job` on the worker's thread, without blocking the task's thread. The job runs even if
    /// the waiter is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let place = Arc::new(JobResult { state: Mutex::new(JobState::Working(None)) });
        let reporter = Reporter(place.clone());
        let lost = || Error::new(ErrorKind::System, "a worker thread failed");
        self.jobs
            .send(Box::new(move || {
                let done = job();
                reporter.0.set(JobState::Done(done));
            }))
            .map_err(|_| lost())?;
        poll_fn(|context| {
            let mut state = place.state();
            match std::mem::replace(&mut *state, JobState::Lost) {
                JobState::Working(_) => {
                    *state = JobState::Working(Some(context.waker().clone()));
                    Poll::Pending
                }
                JobState::Done(done) => Poll::Ready(Ok(done)),
                JobState::Lost => Poll::Ready(Err(lost())),
            }
        })
        .await
    }

    /// The same on a separate thread.
    pub(crate) async fn run_alone<T: Send + 'static>(
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        Worker::start()?.run(job).await
    }
}
