//! One value for each of a few groups of threads: what every request counts or locks, and few ever read as a whole.
//! Threads that run at the same time seldom have the same value, so they seldom wait for each other's processor cache.

use std::ops::Deref;

/// Groups of threads. Threads are assigned to them in turn.
const GROUPS: usize = 16;

/// On cache lines of its own; processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Apart<T>(T);

/// The value of a group, and its place among those of all groups.
pub struct Mine<'a, T> {
    value: &'a T,
    pub group: usize,
}

impl<T> Deref for Mine<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

pub struct PerThread<T>([Apart<T>; GROUPS]);

impl<T: Default> Default for PerThread<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T> PerThread<T> {
    pub fn new(make: impl Fn() -> T) -> Self {
        Self(std::array::from_fn(|_| Apart(make())))
    }

    /// The value of this thread's group.
    pub fn mine(&self) -> Mine<'_, T> {
        let group = current_group();
        Mine { value: &self.0[group].0, group }
    }

    /// The value of the group `group`, as [`Mine`] named it.
    pub fn of(&self, group: usize) -> &T {
        &self.0[group % GROUPS].0
    }

    /// The values of all groups.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|Apart(value)| value)
    }
}

#[cfg(not(feature = "shuttle"))]
fn current_group() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static GROUP: usize = NEXT.fetch_add(1, Ordering::Relaxed) % GROUPS;
    }
    // A thread that is ending has lost its group, and any will do.
    GROUP.try_with(|group| *group).unwrap_or(0)
}

/// Under the scheduler, the same schedule must find the same groups.
#[cfg(feature = "shuttle")]
fn current_group() -> usize {
    usize::from(shuttle::current::me()) % GROUPS
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn threads_that_follow_each_other_have_values_of_their_own() {
        let (values, barrier) = (PerThread::<u8>::default(), Barrier::new(GROUPS));
        let groups: BTreeSet<usize> = std::thread::scope(|scope| {
            let group = || {
                barrier.wait();
                let (once, again) = (values.mine().group, values.mine().group);
                assert!(once == again && std::ptr::eq(values.of(once), &raw const *values.mine()));
                once
            };
            let running: Vec<_> = (0..GROUPS).map(|_| scope.spawn(group)).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // Other tests may have threads that begin in between.
        assert!(groups.len() > 1, "{groups:?}");
        assert_eq!(values.all().count(), GROUPS);
    }
}
