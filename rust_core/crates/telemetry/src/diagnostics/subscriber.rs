//! The subscriber of `tracing`, which makes diagnostics of events: one queue for the process. Spans are not used.

use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber, callsite};

use super::format::{Diagnostic, Value, kind};
use super::queue::Queue;

static QUEUE: OnceLock<Queue> = OnceLock::new();
/// Of `LEVELS`, the last one that is collected.
static DETAIL: AtomicU8 = AtomicU8::new(0);
const LEVELS: [Level; 4] = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG];

/// Collects diagnostics from `level` on, from now on and for good; panics as well. Called again, it changes the level.
pub fn collect(level: Level) {
    let detail = LEVELS.iter().position(|known| *known == level).unwrap_or(LEVELS.len() - 1);
    DETAIL.store(detail as u8, Ordering::Relaxed);
    let mut first = false;
    QUEUE.get_or_init(|| {
        first = true;
        Queue::default()
    });
    if !first {
        return callsite::rebuild_interest_cache();
    }
    // Whoever embeds this library may have a subscriber of its own, which then gets the diagnostics.
    if tracing::subscriber::set_global_default(Collector).is_ok() {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name().is_some_and(|name| name.starts_with("orcas-")) {
                report_panic(info);
            } else {
                // Of a call from Python, which gets it as an exception.
                others(info);
            }
        }));
    }
}

/// Waits until `take` has something. False: it has ended, or nothing is collected.
pub fn wait() -> bool {
    QUEUE.get().is_some_and(Queue::wait)
}

/// The diagnostics that nobody has taken yet, in order.
pub fn take() -> Vec<Diagnostic> {
    QUEUE.get().map_or_else(Vec::new, |queue| queue.take(Instant::now()))
}

/// Frees who waits.
pub fn end() {
    if let Some(queue) = QUEUE.get() {
        queue.end();
    }
}

fn report_panic(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let reason = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    // With the queue's own lines, `orcas.diagnostics` in the log.
    tracing::error!(target: "orcas_diagnostics", place, reason, "A thread of the engine panicked: report this as a bug");
}

struct Collector;

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with("orcas")
            && *metadata.level() <= LEVELS[usize::from(DETAIL.load(Ordering::Relaxed))]
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::from_level(LEVELS[usize::from(DETAIL.load(Ordering::Relaxed))]))
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let Some(queue) = QUEUE.get() else { return };
        let Some(suppressed) = queue.admit(kind(event), Instant::now()) else { return };
        let mut line = Diagnostic::new(event.metadata());
        event.record(&mut line);
        line.add_thread();
        if suppressed > 0 {
            line.fields.push(("suppressed", Value::Unsigned(suppressed)));
        }
        queue.push(line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::{debug, warn};

    #[test]
    fn events_panics_and_levels() {
        warn!("before anybody collects");
        collect(Level::WARN);
        tracing::info!("below the level");
        warn!(target: "elsewhere", "of another library");
        warn!(bytes = 7_u64, whole = false, error = %std::fmt::Error, "Damage");
        let [diagnostic] = &take()[..] else { panic!("one diagnostic") };
        assert_eq!(
            (diagnostic.level, diagnostic.part, diagnostic.message.as_str()),
            (Level::WARN, "telemetry", "Damage")
        );
        let text = |text: &str| Value::Text(text.to_owned());
        let error = std::fmt::Error.to_string();
        assert_eq!(
            diagnostic.fields[..3],
            [("bytes", Value::Unsigned(7)), ("whole", Value::Flag(false)), ("error", text(&error))]
        );
        assert_eq!(diagnostic.fields[3].0, "thread");

        collect(Level::DEBUG);
        debug!("a detail");
        assert_eq!(take().len(), 1);

        let thread = std::thread::Builder::new().name("orcas-test".into()).spawn(|| panic!("on purpose")).unwrap();
        thread.join().unwrap_err();
        let diagnostics = take();
        assert_eq!(diagnostics[0].part, "diagnostics");
        assert_eq!(diagnostics[0].fields[1..], [("reason", text("on purpose")), ("thread", text("orcas-test"))]);

        for _ in 0..60 {
            warn!("of one kind");
        }
        assert_eq!(take().len(), 50);
        assert!(!std::thread::scope(|scope| {
            let waiting = scope.spawn(wait);
            end();
            waiting.join().unwrap()
        }));
        assert_eq!(take()[0].message, "10 more like 'of one kind' were not logged");
    }
}
