//! Why requests were refused, for as long as somebody watches. Bounded. Requests that succeed do not come here.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use orcas_responses::response::ErrorNote;
use orcas_s3::ErrorCode;

/// Refusals that are kept.
const KEPT_MAX: usize = 1000;
/// Time between two refused signatures that are analysed, which costs processor time.
const DIAGNOSIS_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Default)]
pub struct Causes(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The time from which nobody watches any more.
    until: Option<Instant>,
    diagnosed: Option<Instant>,
    newest: VecDeque<ErrorNote>,
}

impl Causes {
    /// Keeps them for so long from now on.
    pub fn watch(&self, time: Duration) {
        self.0.lock().until = Instant::now().checked_add(time);
    }

    /// The newest refusals.
    pub fn newest(&self) -> Vec<ErrorNote> {
        self.0.lock().newest.iter().cloned().collect()
    }

    /// Whether a refusal is kept, and whether its signature is to be analysed first.
    pub fn wants(&self, note: &ErrorNote, now: Instant) -> Option<bool> {
        use ErrorCode::{InvalidAccessKeyId, RequestTimeTooSkewed, SignatureDoesNotMatch};
        let mut kept = self.0.lock();
        if kept.until.is_none_or(|until| until <= now) {
            kept.newest.clear();
            return None;
        }
        let wants = note.likely_cause.is_none()
            && matches!(note.code, SignatureDoesNotMatch | InvalidAccessKeyId | RequestTimeTooSkewed)
            && kept.diagnosed.is_none_or(|last| now.saturating_duration_since(last) >= DIAGNOSIS_INTERVAL);
        if wants {
            kept.diagnosed = Some(now);
        }
        Some(wants)
    }

    pub fn add(&self, note: ErrorNote) {
        let mut kept = self.0.lock();
        kept.newest.push_back(note);
        if kept.newest.len() > KEPT_MAX {
            kept.newest.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: u64, code: ErrorCode) -> ErrorNote {
        let mut request_id = [0; 16];
        request_id[..8].copy_from_slice(&number.to_be_bytes());
        ErrorNote { request_id, code, cause: "why".into(), likely_cause: None, at_fault: false }
    }

    #[test]
    fn diagnoses_are_rare_and_nothing_is_wanted_unless_somebody_watches() {
        let (causes, now) = (Causes::default(), Instant::now());
        let wrong = note(0, ErrorCode::SignatureDoesNotMatch);
        assert_eq!(causes.wants(&wrong, now), None);
        causes.watch(Duration::from_secs(3600));
        assert_eq!(causes.wants(&note(0, ErrorCode::AccessDenied), now), Some(false));
        let known = ErrorNote { likely_cause: Some("known".into()), ..wrong.clone() };
        let after = [Duration::ZERO, DIAGNOSIS_INTERVAL / 2, DIAGNOSIS_INTERVAL];
        assert_eq!(causes.wants(&known, now), Some(false));
        assert_eq!(after.map(|after| causes.wants(&wrong, now + after)), [Some(true), Some(false), Some(true)]);
        causes.add(wrong.clone());
        assert_eq!(causes.wants(&wrong, now + Duration::from_secs(7200)), None);
        assert_eq!(causes.newest(), []);
    }

    #[test]
    fn the_newest_are_kept() {
        let causes = Causes::default();
        (0..KEPT_MAX as u64 + 2).for_each(|number| causes.add(note(number, ErrorCode::AccessDenied)));
        let newest = causes.newest();
        assert_eq!(newest.len(), KEPT_MAX);
        assert_eq!(newest[0], note(2, ErrorCode::AccessDenied));
    }
}
