//! Tasks that process queued items, with a maximum number of tasks.

use crate::sync::Signal;
use crate::world::Env;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

type SpawnTask<T> = Box<dyn Fn(&Rc<Inner<T>>)>;

struct Inner<T> {
    env: Env,
    name: &'static str,
    most: usize,
    items: RefCell<VecDeque<T>>,
    waiting: Signal,
    hired: Cell<usize>,
    /// Starts one more task. `None` before [`Runners::run`] and after [`Runners::close`].
    hire: RefCell<Option<SpawnTask<T>>>,
    closed: Cell<bool>,
}

/// Runs an async function on items. A task is reused for the next item, so that an item needs no
/// allocation. Items queue in order while all tasks are busy. Idle tasks are used last in, first
/// out, so that few are used and their memory is in the processor's cache.
pub struct Runners<T> {
    inner: Rc<Inner<T>>,
}

impl<T: 'static> Runners<T> {
    /// At most `most` tasks of that name, started by [`Runners::run`].
    pub fn new(env: &Env, name: &'static str, most: usize) -> Runners<T> {
        Runners {
            inner: Rc::new(Inner {
                env: env.clone(),
                name,
                most,
                items: RefCell::default(),
                waiting: Signal::default(),
                hired: Cell::new(0),
                hire: RefCell::default(),
                closed: Cell::new(false),
            }),
        }
    }

    /// Sets the function for items. `work` is dropped at [`Runners::close`], or with this.
    pub fn run(&self, work: impl AsyncFn(T) + 'static) {
        let work = Rc::new(work);
        *self.inner.hire.borrow_mut() = Some(Box::new(move |inner| {
            inner.env.spawn(inner.name, run(inner.clone(), work.clone()));
        }));
        let early = self.inner.items.borrow().len();
        (0..early).for_each(|_| self.hire());
    }

    /// Gives an item to an idle task, or queues it.
    pub fn give(&self, item: T) {
        let inner = &self.inner;
        inner.items.borrow_mut().push_back(item);
        if !inner.waiting.notify_one(&inner.env) {
            self.hire();
        }
    }

    /// The same, but an idle task starts at once, inside the caller's task
    /// ([`Executor::go_on`](crate::Executor::go_on)).
    pub fn hand(&self, item: T) {
        let inner = &self.inner;
        inner.items.borrow_mut().push_back(item);
        if !inner.waiting.pass_to_one(&inner.env) {
            self.hire();
        }
    }

    fn hire(&self) {
        let inner = &self.inner;
        if inner.hired.get() < inner.most
            && let Some(hire) = &*inner.hire.borrow()
        {
            inner.hired.set(inner.hired.get() + 1);
            hire(inner);
        }
    }

    /// Ends the tasks once the queue is empty.
    pub fn close(&self) {
        self.inner.closed.set(true);
        self.inner.waiting.notify(&self.inner.env);
        // Dropped without a borrow: it may hold the owner of this.
        let hire = self.inner.hire.take();
        drop(hire);
    }
}

impl<T> Drop for Runners<T> {
    fn drop(&mut self) {
        self.inner.closed.set(true);
        self.inner.waiting.notify(&self.inner.env);
    }
}

async fn run<T, W: AsyncFn(T)>(inner: Rc<Inner<T>>, work: Rc<W>) {
    loop {
        let has_more = || !inner.items.borrow().is_empty() || inner.closed.get();
        inner.waiting.wait_until(&inner.env, has_more).await;
        let next = inner.items.borrow_mut().pop_front();
        match next {
            Some(item) => work(item).await,
            None if inner.closed.get() => return,
            None => {}
        }
    }
}
