//! Waiting for a condition, with a deadline.

use platform::sync::Signal;
use platform::{Env, Instant};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Waits until `condition` holds or `deadline` passes; it is evaluated after every notification.
/// Returns whether it holds.
pub(crate) async fn wait_or(
    env: &Env,
    signal: &Signal,
    mut condition: impl FnMut() -> bool,
    deadline: Instant,
) -> bool {
    let mut held = pin!(signal.wait_until(env, &mut condition));
    let mut late = pin!(env.sleep_until(deadline));
    let held = poll_fn(|context| {
        if held.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        late.as_mut().poll(context).map(|()| false)
    });
    held.await
}

/// Waits until the condition holds; it is evaluated when either signal is notified.
pub(crate) async fn wait_on_both(
    env: &Env,
    signals: (&Signal, &Signal),
    condition: impl Fn() -> bool,
) {
    let mut one = pin!(signals.0.wait_until(env, &condition));
    let mut other = pin!(signals.1.wait_until(env, &condition));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => other.as_mut().poll(context),
    })
    .await;
}
