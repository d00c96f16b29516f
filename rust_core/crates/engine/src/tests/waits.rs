//! Who waits for what, and who does not wait for them.

use std::sync::Arc;
use std::time::Duration;

use super::steps::Steps;
use orcas_decide::{Intent, Outcome};

/// Whoever holds all connections may want the overlay next, and the applier wants it too.
#[test]
fn whoever_waits_for_a_connection_to_the_index_keeps_nobody_from_the_overlay() {
    let mut steps = Steps::with(|options| options.db_max_open_conns = 1);
    let bucket = steps.bucket("b");
    steps.apply();
    let shared = Arc::clone(steps.shared());
    let held = shared.catalog.index.read().unwrap();
    let before = shared.catalog.index.connections().waits;
    std::thread::scope(|scope| {
        let deleted = scope.spawn(|| steps.run(Intent::DeleteBucket { bucket: bucket.id }));
        while shared.catalog.index.connections().waits == before {
            std::thread::sleep(Duration::from_millis(1));
        }
        let taken = shared.catalog.overlay.try_write_for(Duration::from_secs(5)).is_some();
        drop(held);
        assert!(matches!(deleted.join().unwrap(), Ok(Outcome::Done)));
        assert!(taken);
    });
}
