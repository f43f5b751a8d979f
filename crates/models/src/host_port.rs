//! A volume as a host sees it: behind the host link, with the controller's processor time, and with no more commands
//! at a time than the controller takes.

use crate::server::Core;
use env::{Completion, Drive, DriveInfo, Env, Instant, IoOutcome, IoRequest, Member};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Hosts may have so many commands under way where the controller sets no limit.
const RUNNERS: u64 = 1024;
/// A saturated array may take its time; the engine has time limits of its own for drives.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

struct Inner {
    env: Env,
    core: Rc<Core>,
    volume: Member,
    requests: RefCell<VecDeque<(IoRequest, Completion)>>,
    waiting: env::sync::Signal,
}

/// See the [module](self).
pub(crate) struct HostPort {
    inner: Rc<Inner>,
}

impl HostPort {
    pub fn new(env: &Env, core: &Rc<Core>, volume: Rc<dyn Drive>) -> HostPort {
        let inner = Rc::new(Inner {
            env: env.clone(),
            core: core.clone(),
            volume: Member::with_time_limit(env, volume, TIME_LIMIT),
            requests: RefCell::default(),
            waiting: env::sync::Signal::default(),
        });
        let most = core.controller.most_outstanding;
        for _ in 0..if most == 0 { RUNNERS } else { most.min(RUNNERS) } {
            env.spawn("host port", run(inner.clone()));
        }
        HostPort { inner }
    }
}

impl Drive for HostPort {
    fn info(&self) -> &DriveInfo {
        self.inner.volume.info()
    }

    fn start(&self, request: IoRequest, completion: Completion) {
        self.inner.requests.borrow_mut().push_back((request, completion));
        self.inner.waiting.notify_one(&self.inner.env);
    }
}

async fn run(inner: Rc<Inner>) {
    loop {
        inner.waiting.wait_until(&inner.env, || !inner.requests.borrow().is_empty()).await;
        let next = inner.requests.borrow_mut().pop_front();
        if let Some((request, completion)) = next {
            completion.complete(serve(&inner, request).await);
        }
    }
}

async fn serve(inner: &Inner, request: IoRequest) -> IoOutcome {
    let (env, core) = (&inner.env, &inner.core);
    let bytes = request.range().len.0;
    let (read, written) = match &request {
        IoRequest::Read { .. } => (bytes, 0),
        IoRequest::Write { .. } => (0, bytes),
        _ => (0, 0),
    };
    let began = core.host_command(env.now().ns, written);
    wait_until(env, began).await;
    let io = inner.volume.start(request);
    let outcome = io.await;
    let ended = core.host_answer(env.now().ns, read);
    wait_until(env, ended).await;
    outcome
}

async fn wait_until(env: &Env, ns: u64) {
    if ns > env.now().ns {
        env.sleep_until(Instant { ns }).await;
    }
}
