//! What a check has found so far, shared by its threads, and the pace at which it may read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{AFFECTED_MAX, CheckOptions, CheckProgress, FINDINGS_MAX, Finding, FindingKind, GROUPS_MAX, Group};
use orcas_base::error::{Error, Result};
use orcas_log::LogFault;
use orcas_record::Sequence;

/// Findings of one kind that are listed of those that come by the row: they must not crowd out all others.
const ROWS_MAX: usize = FINDINGS_MAX / 4;
/// The longest sleep between two looks at whether the check was cancelled.
const NAP: Duration = Duration::from_millis(50);

pub(super) struct Collector<'a> {
    progress: &'a CheckProgress,
    data: PathBuf,
    rate: u64,
    started: Instant,
    bytes: AtomicU64,
    blobs: AtomicU64,
    found: Mutex<Collected>,
    damage: Mutex<Damage>,
}

#[derive(Default)]
struct Collected {
    listed: Vec<Finding>,
    total: u64,
    groups: BTreeMap<(FindingKind, String, String), Group>,
    affected: Vec<String>,
    affected_total: u64,
}

/// What a check has found.
#[derive(Default)]
pub(super) struct Findings {
    pub listed: Vec<Finding>,
    pub total: u64,
    pub groups: Vec<Group>,
    pub affected: Vec<String>,
    pub affected_total: u64,
}

/// What cannot be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Damage {
    /// Blobs whose bytes are damaged or missing, with the reason.
    blobs: BTreeMap<Sequence, &'static str>,
    /// Records that are gone from the log, first to last.
    records: Vec<(Sequence, Sequence)>,
    /// Versions and uploads whose headers do not open.
    headers: BTreeSet<Sequence>,
    /// The log has a fault of any kind.
    pub log: bool,
}

impl Damage {
    /// Why the blob cannot be read, if it cannot.
    pub fn blob(&self, blob: Sequence) -> Option<&'static str> {
        self.blobs.get(&blob).copied().or_else(|| self.record(blob))
    }

    /// What is wrong with the record itself.
    pub fn record(&self, sequence: Sequence) -> Option<&'static str> {
        let gone = self.records.iter().any(|(first, last)| (*first..=*last).contains(&sequence));
        gone.then_some("its record in the log is damaged or gone")
    }

    /// Whether the headers of this version or upload do not open.
    pub fn in_headers(&self, record: Sequence) -> bool {
        self.headers.contains(&record)
    }

    /// Blobs that cannot be read. Of the records that are gone, those that are alone: how many others there were is a
    /// guess where a file ends.
    pub fn blobs(&self) -> impl Iterator<Item = Sequence> {
        let alone = self.records.iter().filter(|(first, last)| first == last).map(|(first, _)| *first);
        self.blobs.keys().copied().chain(alone)
    }

    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty() && self.records.is_empty() && self.headers.is_empty()
    }

    /// Ascending and disjoint.
    fn lost(&mut self, first: Sequence, last: Sequence) {
        self.records.push((first, last));
        self.records.sort_unstable();
        let mut merged: Vec<(Sequence, Sequence)> = Vec::with_capacity(self.records.len());
        for (first, last) in self.records.drain(..) {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        self.records = merged;
    }
}

impl<'a> Collector<'a> {
    pub fn new(options: &CheckOptions, progress: &'a CheckProgress, data: PathBuf) -> Self {
        Self {
            progress,
            data,
            rate: options.bytes_per_sec,
            started: Instant::now(),
            bytes: AtomicU64::new(0),
            blobs: AtomicU64::new(0),
            found: Mutex::default(),
            damage: Mutex::default(),
        }
    }

    pub fn progress(&self) -> &CheckProgress {
        self.progress
    }

    /// To be called before so many bytes are read.
    ///
    /// # Errors
    /// `Io` of the kind `Interrupted` when the check was cancelled.
    pub fn read(&self, bytes: u64) -> Result<()> {
        self.progress.done_bytes.fetch_add(bytes, Ordering::Relaxed);
        let all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.go_on()?;
        if self.rate == 0 {
            return Ok(());
        }
        let due = Duration::from_secs_f64(all as f64 / self.rate as f64);
        while let Some(left) = due.checked_sub(self.started.elapsed()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left.min(NAP));
            self.go_on()?;
        }
        Ok(())
    }

    /// # Errors
    /// As `read`.
    pub fn go_on(&self) -> Result<()> {
        if self.progress.cancelled.load(Ordering::Relaxed) {
            return Err(Error::io("check", &self.data, ErrorKind::Interrupted.into()));
        }
        Ok(())
    }

    pub fn count_blobs(&self, blobs: u64) {
        self.blobs.fetch_add(blobs, Ordering::Relaxed);
    }

    pub fn find(&self, kind: FindingKind, place: impl Into<String>, detail: impl Into<String>) {
        let detail = detail.into();
        self.find_by(kind, place.into(), detail.clone(), detail);
    }

    /// One of many findings that have this cause.
    pub fn find_by(&self, kind: FindingKind, place: String, detail: String, cause: String) {
        let found = &mut *self.found.lock();
        found.total += 1;
        let area = area(&place);
        let at = (kind, without_numbers(&area), without_numbers(&cause));
        if found.groups.len() < GROUPS_MAX || found.groups.contains_key(&at) {
            let first = place.clone();
            found.groups.entry(at).or_insert_with(|| Group { kind, area, cause, first, count: 0 }).count += 1;
        }
        let by_row = matches!(kind, FindingKind::Index | FindingKind::Counts | FindingKind::Manifest);
        let alike = || found.listed.iter().filter(|finding| finding.kind == kind).count();
        if found.listed.len() < FINDINGS_MAX && !(by_row && alike() >= ROWS_MAX) {
            found.listed.push(Finding { kind, place, detail });
        }
    }

    /// The index says something else of this object than the log.
    pub fn affects(&self, object: String) {
        let mut found = self.found.lock();
        found.affected_total += 1;
        if found.affected.len() < AFFECTED_MAX {
            found.affected.push(object);
        }
    }

    /// A fault of a log file.
    pub fn fault(&self, kind: FindingKind, fault: &LogFault) {
        let detail = match fault.lost {
            None => fault.reason.to_owned(),
            Some((first, last)) => format!("{}; {}", fault.reason, gone(first, last)),
        };
        self.find(kind, fault.place(), detail);
        let mut damage = self.damage.lock();
        damage.log = true;
        if let Some((first, last)) = fault.lost {
            damage.lost(first, last);
        }
    }

    /// A blob that cannot be read.
    pub fn damaged(&self, blob: Sequence, reason: &'static str) {
        self.damage.lock().blobs.entry(blob).or_insert(reason);
    }

    /// A version or an upload whose headers do not open.
    pub fn damaged_headers(&self, record: Sequence) {
        self.damage.lock().headers.insert(record);
    }

    pub fn damage(&self) -> Damage {
        self.damage.lock().clone()
    }

    pub fn blobs(&self) -> u64 {
        self.blobs.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// What was found so far, the findings ordered by place within their kinds.
    pub fn findings(&self) -> Findings {
        let found = self.found.lock();
        let mut listed = found.listed.clone();
        listed.sort_by(|one, other| (one.kind, in_order(&one.place)).cmp(&(other.kind, in_order(&other.place))));
        Findings {
            listed,
            total: found.total,
            groups: found.groups.values().cloned().collect(),
            affected: found.affected.clone(),
            affected_total: found.affected_total,
        }
    }
}

/// Places of one file follow each other by their numbers, such as that of the byte.
fn in_order(place: &str) -> (&str, u64) {
    let numbered = place.rsplit_once(' ').and_then(|(before, number)| Some((before, number.parse().ok()?)));
    numbered.unwrap_or((place, 0))
}

/// What kind of place it is.
fn area(place: &str) -> String {
    let place =
        [", row ", ", byte ", ", pages "].iter().fold(place, |place, end| place.split(end).next().unwrap_or(place));
    match std::path::Path::new(place).extension().and_then(|extension| extension.to_str()) {
        Some("log") => "log".to_owned(),
        Some("pack") => "chunks".to_owned(),
        _ => place.to_owned(),
    }
}

/// A detail without its numbers: the same for everything that differs in them alone.
fn without_numbers(detail: &str) -> String {
    let mut out = String::with_capacity(detail.len());
    let mut in_number = false;
    for character in detail.chars() {
        if !(character.is_ascii_digit() && in_number) {
            out.push(if character.is_ascii_digit() { '#' } else { character });
        }
        in_number = character.is_ascii_digit();
    }
    out
}

/// Says which records are gone.
pub fn gone(first: Sequence, last: Sequence) -> String {
    match last {
        Sequence::MAX => format!("every record from {first} on is gone"),
        last if first == last => format!("record {first} is gone"),
        last => format!("records {first} to {last} are gone"),
    }
}
