//! The stages of a request that was slow or is traced. The steps that its stopwatch has timed belong to two of them:
//! to `execute`, or, if they read a body that leaves in pieces, to `send`.

use std::time::Instant;

use crate::accounting::traced::Stages;
use crate::finish::{Admission, Done};
use crate::gateway::Gateway;
use orcas_telemetry::metrics::requests::Finished;
use orcas_telemetry::stopwatch::{Step, StepTime};

impl Gateway {
    /// How long each stage of a request took that is done, if it was slow or is traced.
    pub fn stages(&self, done: &Done<'_>, finished: &Finished) -> Option<Stages> {
        let slow = self.services.watch.slow.is_some_and(|slow| finished.time >= slow);
        let trace = done.admission.trace();
        if !slow && trace.is_none() {
            return None;
        }
        let (began, accepted, ended, steps) = match done.admission {
            Admission::Request(request) => {
                let tally = request.tally();
                let steps = tally.stopwatch.as_ref().map(|stopwatch| stopwatch.steps());
                (Some(tally.began), tally.accepted, tally.ended(), steps.unwrap_or_default())
            }
            Admission::Form(_) | Admission::Postponed(_) => (None, None, None, Vec::new()),
            Admission::Refusal(refusal) => (refusal.began, Some(refusal.ready), None, Vec::new()),
        };
        let seconds = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
            (Some(from), Some(to)) => to.saturating_duration_since(from).as_secs_f64(),
            _ => 0.0,
        };
        let ready = done.response.map(|response| response.ready);
        let in_pieces = done.response.is_some_and(|response| response.delivery.is_some());
        let in_stage = |time: StepTime| {
            let sends = in_pieces && matches!(time.step, Step::Read | Step::Verify);
            let stage = if sends { "send" } else { "execute" };
            (stage, time.step.name(), seconds(began, Some(time.began)), time.took.as_secs_f64())
        };
        let (total, authenticate) = (finished.time.as_secs_f64(), seconds(began, accepted));
        let receive = seconds(accepted.or(began), ended);
        let execute = seconds(ended.or(accepted).or(began), ready);
        Some(Stages {
            total,
            authenticate,
            receive,
            execute,
            send: if ready.is_some() { (total - authenticate - receive - execute).max(0.0) } else { 0.0 },
            steps: steps.into_iter().map(in_stage).collect(),
            refused: matches!(done.admission, Admission::Refusal(_)),
            verified: done.request().is_some_and(|request| !request.requester().is_anonymous()),
            status: finished.status,
            code: finished.code,
            slow,
            trace: trace.cloned(),
        })
    }
}
