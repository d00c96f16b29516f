//! Object Lock: which locks new versions get, what a locked version permits, and how its lock may change. Time is the
//! context's.

use crate::outcome::Refusal;
use orcas_record::{Attributes, Bucket, DefaultRetention, Period, Retention, RetentionMode, Version};

const DAY_MS: u64 = 86_400_000;
/// Days of a year, as S3 counts.
const DAYS_PER_YEAR: u64 = 365;

/// Whether `attributes` may be given to an object of this bucket.
pub(crate) fn check_new(bucket: &Bucket, attributes: &Attributes, now_ms: u64) -> Result<(), Refusal> {
    if let Some(retention) = attributes.retention {
        check_future(retention, now_ms)?;
    }
    if attributes.retention.is_some() || attributes.legal_hold.is_some() {
        check_object_lock(bucket)?;
    }
    Ok(())
}

/// Gives a version that has no retention of its own the default of its bucket.
pub(crate) fn apply_default(bucket: &Bucket, attributes: &mut Attributes, now_ms: u64) {
    if attributes.retention.is_none()
        && let Some(DefaultRetention { mode, period }) = bucket.object_lock.and_then(|lock| lock.default)
    {
        let days = match period {
            Period::Days(days) => u64::from(days),
            Period::Years(years) => u64::from(years) * DAYS_PER_YEAR,
        };
        attributes.retention = Some(Retention { mode, until_ms: now_ms.saturating_add(days.saturating_mul(DAY_MS)) });
    }
}

/// Whether the versions of a bucket can be locked.
///
/// # Errors
/// [`Refusal::InvalidRequest`].
pub fn check_object_lock(bucket: &Bucket) -> Result<(), Refusal> {
    match bucket.object_lock {
        Some(_) => Ok(()),
        None => Err(Refusal::InvalidRequest { reason: "Bucket is missing Object Lock Configuration" }),
    }
}

/// Whether `version` may be removed or replaced. Whoever bypasses governance is still bound by a legal hold and by
/// retention in compliance mode.
pub(crate) fn check_removal(version: &Version, bypass: bool, now_ms: u64) -> Result<(), Refusal> {
    if version.attributes.legal_hold == Some(true) {
        return Err(Refusal::ObjectLocked);
    }
    match in_force(version.attributes.retention, now_ms) {
        Some(Retention { mode: RetentionMode::Governance, .. }) if bypass => Ok(()),
        Some(_) => Err(Refusal::ObjectLocked),
        None => Ok(()),
    }
}

/// Whether the retention of a version may become `new`. One in force can be extended in its mode by everybody. In
/// governance mode, whoever bypasses it may change it in every way; in compliance mode, nobody.
pub(crate) fn check_retention(
    current: Option<Retention>,
    new: Option<Retention>,
    bypass: bool,
    now_ms: u64,
) -> Result<(), Refusal> {
    if let Some(new) = new {
        check_future(new, now_ms)?;
    }
    let Some(current) = in_force(current, now_ms) else { return Ok(()) };
    let extends = new.is_some_and(|new| new.mode == current.mode && new.until_ms >= current.until_ms);
    let bypassed = bypass && current.mode == RetentionMode::Governance;
    if extends || bypassed { Ok(()) } else { Err(Refusal::ObjectLocked) }
}

fn in_force(retention: Option<Retention>, now_ms: u64) -> Option<Retention> {
    retention.filter(|retention| retention.until_ms > now_ms)
}

fn check_future(retention: Retention, now_ms: u64) -> Result<(), Refusal> {
    if retention.until_ms > now_ms { Ok(()) } else { Err(Refusal::RetentionInPast) }
}
