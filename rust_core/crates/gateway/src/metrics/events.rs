//! Events in numbers: the journal, who listens, and how far each target is behind.

use super::families as of;
use super::page::{Around, DELIVERY_RESULTS, one};
use crate::events::StreamId;
use crate::lane::{Lane, now_ms};
use orcas_engine::EventsState;
use orcas_metrics::{Family, Page};

/// A target of events, as its deliveries are known to the process.
#[derive(Clone, Debug, Default)]
pub struct TargetState {
    pub name: String,
    /// The id of the place behind everything that it has. `None` before the first look at the journal.
    pub after: Option<String>,
    /// No event that it lacks is older, in milliseconds since 1970.
    pub since_ms: u64,
    /// Attempts that it accepted, that are to be repeated, and that were the last for their event.
    pub ok: u64,
    pub retried: u64,
    pub dead: u64,
    /// Dead letters that wait.
    pub waiting: u64,
    /// How often events were gone before they were read.
    pub gaps: u64,
}

impl Lane {
    pub(super) fn add_events(&self, page: &mut Page, around: &Around) {
        let state = self.engine.events_state();
        let reached = self.engine.events_reached().sequence;
        if let Some(EventsState { bytes, log, failed, .. }) = &state {
            one(page, &of::JOURNAL_BYTES, *bytes);
            one(page, &of::JOURNAL_LAG, log.saturating_sub(reached));
            one(page, &of::JOURNAL_FAILED, failed.is_some());
            one(page, &of::LISTENERS, self.events.listeners() as u64);
        } else {
            for family in [&of::JOURNAL_BYTES, &of::JOURNAL_LAG, &of::JOURNAL_FAILED, &of::LISTENERS] {
                page.family(family);
            }
        }
        let oldest = state.and_then(|state| state.oldest).map_or(0, |place| place.sequence);
        let behind: Vec<_> = around.targets.iter().map(|target| self.behind(target, reached, oldest)).collect();
        let mut samples = page.family(&of::EVENT_LAG_RECORDS);
        for (target, behind) in around.targets.iter().zip(&behind) {
            if let Some(records) = behind {
                samples.value(&[&target.name], *records);
            }
        }
        let now = now_ms().unsigned_abs();
        let mut samples = page.family(&of::EVENT_LAG_SECONDS);
        for (target, behind) in around.targets.iter().zip(&behind) {
            if let Some(records) = behind {
                let age_ms = if *records == 0 { 0 } else { now.saturating_sub(target.since_ms) };
                samples.value(&[&target.name], age_ms as f64 / 1000.0);
            }
        }
        let mut samples = page.family(&of::DELIVERIES);
        for TargetState { name, ok, retried, dead, .. } in &around.targets {
            for (result, count) in DELIVERY_RESULTS.into_iter().zip([*ok, *retried, *dead]) {
                samples.value(&[name, result], count);
            }
        }
        each_target(page, &of::DEAD_LETTERS, &around.targets, |target| target.waiting);
        each_target(page, &of::EVENT_GAPS, &around.targets, |target| target.gaps);
    }

    /// Records of the log that the journal has looked at and the target has not.
    fn behind(&self, target: &TargetState, reached: u64, oldest: u64) -> Option<u64> {
        let StreamId { journal, place } = target.after.as_deref()?.parse().ok()?;
        let is_of_this = journal.is_none_or(|journal| journal == self.engine.journal_id());
        Some(reached.saturating_sub(if is_of_this { place.sequence } else { oldest }))
    }
}

fn each_target(page: &mut Page, family: &'static Family, targets: &[TargetState], number: fn(&TargetState) -> u64) {
    let mut samples = page.family(family);
    for target in targets {
        samples.value(&[&target.name], number(target));
    }
}
