//! Events in numbers: the journal, who listens, and how far each target is behind.

use super::families as of;
use super::page::{DELIVERY_RESULTS, Sources, one};
use super::process::{ProcessMetrics, TargetState};
use orcas_engine::EventsState;
use orcas_event_streams::StreamId;
use orcas_metrics::{Family, Page};

impl Sources<'_> {
    pub(super) fn add_events(&self, page: &mut Page, around: &ProcessMetrics) {
        let state = self.engine.events_state();
        let reached = self.engine.events_reached().sequence;
        if let Some(EventsState { bytes, log, failed, .. }) = &state {
            one(page, &of::JOURNAL_BYTES, *bytes);
            one(page, &of::JOURNAL_LAG, log.saturating_sub(reached));
            one(page, &of::JOURNAL_FAILED, failed.is_some());
            one(page, &of::LISTENERS, self.listeners as u64);
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
        let now = self.now_ms.unsigned_abs();
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
