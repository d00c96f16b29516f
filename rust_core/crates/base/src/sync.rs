//! The locks, channels and atomics of shared state: those of parking_lot, crossbeam and the standard library, or those of
//! shuttle under the feature `shuttle`, where a scheduler decides at each of them which thread runs next.
//!
//! The interface is that of parking_lot, as far as it is used. Invariant: under the scheduler no other thread runs
//! between two calls into this module, so a lock from elsewhere must not be held across such a call.

#[cfg(not(feature = "shuttle"))]
mod native {
    pub use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
    pub use std::hash::RandomState;
    use std::sync::Arc;
    pub use std::sync::atomic;

    use arc_swap::{ArcSwap, Guard};

    /// The value of a [`Snapshot`] at the moment of `load`.
    pub type Loaded<T> = Guard<Arc<T>>;

    /// A value that is replaced as a whole, and that many threads read: they write to no memory that they share.
    pub struct Snapshot<T>(ArcSwap<T>);

    impl<T> Snapshot<T> {
        pub fn new(value: Arc<T>) -> Self {
            Self(ArcSwap::new(value))
        }

        pub fn load(&self) -> Loaded<T> {
            self.0.load()
        }

        /// Whoever loads from now on gets `value`. Returns the former one.
        pub fn replace(&self, value: Arc<T>) -> Arc<T> {
            self.0.swap(value)
        }
    }

    /// A point at which the scheduler may switch threads although no lock or atomic is used.
    pub fn scheduling_point() {}
}

#[cfg(not(feature = "shuttle"))]
pub use native::*;
#[cfg(feature = "shuttle")]
pub use scheduled::*;

#[cfg(feature = "shuttle")]
mod scheduled {
    use std::ops::{Deref, DerefMut};
    use std::sync::{Arc, PoisonError, TryLockError};
    use std::time::Duration;

    use shuttle::sync;

    pub use shuttle::sync::atomic;
    pub use shuttle::sync::mpsc::{Receiver, SyncSender as Sender, sync_channel as bounded};
    pub use std::sync::mpsc::TryRecvError;

    /// The hasher that assigns keys to locks must be deterministic too.
    pub type RandomState = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

    pub fn scheduling_point() {
        atomic::AtomicBool::new(false).load(atomic::Ordering::SeqCst);
    }

    #[derive(Default)]
    pub struct Mutex<T>(sync::Mutex<T>);

    /// `inner` is `None` only while a function of this module has released the lock.
    pub struct MutexGuard<'a, T> {
        mutex: &'a Mutex<T>,
        inner: Option<sync::MutexGuard<'a, T>>,
    }

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        fn acquire(&self) -> sync::MutexGuard<'_, T> {
            // Locks of parking_lot are never poisoned.
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard { mutex: self, inner: Some(self.acquire()) }
        }
    }

    impl<'a, T> MutexGuard<'a, T> {
        pub fn unlocked<R>(guard: &mut Self, run: impl FnOnce() -> R) -> R {
            guard.inner = None;
            let done = run();
            guard.inner = Some(guard.mutex.acquire());
            done
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        #[expect(clippy::expect_used, reason = "never `None` outside this module")]
        fn deref(&self) -> &T {
            self.inner.as_ref().expect("the lock is held")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        #[expect(clippy::expect_used, reason = "never `None` outside this module")]
        fn deref_mut(&mut self) -> &mut T {
            self.inner.as_mut().expect("the lock is held")
        }
    }

    #[derive(Default)]
    pub struct Condvar(sync::Condvar);

    impl Condvar {
        pub fn new() -> Self {
            Self::default()
        }

        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            if let Some(held) = guard.inner.take() {
                guard.inner = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
            }
        }

        /// There is no clock under the scheduler. The time is over as soon as the other threads have run.
        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _at_most: Duration) {
            MutexGuard::unlocked(guard, shuttle::thread::yield_now);
        }

        pub fn wait_while_for<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            mut condition: impl FnMut(&mut T) -> bool,
            at_most: Duration,
        ) {
            if condition(guard) {
                self.wait_for(guard, at_most);
            }
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    /// As `Snapshot::load` returns it.
    pub struct Loaded<T>(Arc<T>);

    impl<T> Deref for Loaded<T> {
        type Target = Arc<T>;

        fn deref(&self) -> &Arc<T> {
            &self.0
        }
    }

    pub struct Snapshot<T>(RwLock<Arc<T>>);

    impl<T> Snapshot<T> {
        pub fn new(value: Arc<T>) -> Self {
            Self(RwLock::new(value))
        }

        pub fn load(&self) -> Loaded<T> {
            Loaded(Arc::clone(&self.0.read()))
        }

        pub fn replace(&self, value: Arc<T>) -> Arc<T> {
            std::mem::replace(&mut *self.0.write(), value)
        }
    }

    #[derive(Default)]
    pub struct RwLock<T>(sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub fn new(value: T) -> Self {
            Self(sync::RwLock::new(value))
        }

        pub fn read(&self) -> sync::RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub fn try_read(&self) -> Option<sync::RwLockReadGuard<'_, T>> {
            match self.0.try_read() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }
        }

        pub fn write(&self) -> sync::RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
