//! The event journal through power cuts: what it shows after each must be what the living store shows, up to where the
//! log goes on, in order and without a gap; and what the living store shows has every acknowledged change.

use bytes::Bytes;
use orcas_engine::{Change, ChangeKind, EngineOptions, EventOptions, Handle, JournalCursor, Stepper};
use orcas_fs_testing::SimRng;
use orcas_record::Durability;

use super::run::{Run, is_fault};
use super::steps::Phase;
use crate::model::{Model, Op};

/// Bytes of the journal that are read at once.
const PIECE: usize = 10_000;

/// Longer than any life.
const RETENTION_MS: u64 = 3_600_000;

/// Turns events on for some seeds. Without syncs nothing is promised, so there they stay off.
pub fn choose(seed: u64, options: &mut EngineOptions) {
    let mut rng = SimRng::new(seed ^ 0xe7e4);
    if seed % 5 < 2 {
        turn_on(&mut rng, options);
    }
}

/// The same for seeds of failing disks, half of which it concerns whatever fails.
pub fn choose_beside_faults(seed: u64, options: &mut EngineOptions) {
    let mut rng = SimRng::new(seed ^ 0xfa17);
    if rng.below(2) == 0 {
        turn_on(&mut rng, options);
    }
}

fn turn_on(rng: &mut SimRng, options: &mut EngineOptions) {
    if options.durability != Durability::UnsafeNone {
        // Some are short enough that segments end and expire meanwhile.
        let retention_ms = [RETENTION_MS, 8_000, 1_600][rng.below(3) as usize];
        options.events = Some(EventOptions { retention_ms, max_bytes: 64 << 20 });
    }
}

/// What the journal of an image showed, to be compared when the living store knows as much.
struct Pending {
    place: String,
    end: u64,
    changes: Vec<Change>,
}

/// An event that an operation must bring: the state of the model that has it, and one of some kinds.
type Expected = (usize, &'static [ChangeKind], Bytes, Bytes);

/// The journal of one run.
pub struct Followed {
    /// Random, made with the journal; 0 before.
    id: u64,
    /// What the living store has shown of it.
    known: Vec<Change>,
    /// The log was looked at up to this record.
    reached: u64,
    pending: Vec<Pending>,
    /// A batch failed: images may show it, and the living store others in its place.
    doubtful: bool,
    /// Of operations that were acknowledged in this life.
    expected: Vec<Expected>,
    /// What was known when this life began.
    before: usize,
    /// Whether events become too old meanwhile.
    expires: bool,
    /// Chooses when the journal is written, without changing the choices of the run.
    rng: SimRng,
}

impl Followed {
    pub fn new(seed: u64, options: &EngineOptions) -> Self {
        let rng = SimRng::new(seed ^ 0xf0110);
        let expires = options.events.as_ref().is_some_and(|events| events.retention_ms < RETENTION_MS);
        Self {
            expires,
            id: 0,
            known: Vec::new(),
            reached: 0,
            pending: Vec::new(),
            doubtful: false,
            expected: Vec::new(),
            before: 0,
            rng,
        }
    }

    /// An operation was acknowledged, and is in the state `at`.
    pub fn expect(&mut self, at: usize, model: &Model, op: &Op) {
        let name = |id| model.buckets.iter().find(|(_, bucket)| bucket.id == Some(id)).map(|(name, _)| name.clone());
        if let Op::CopyMany { bucket, entries, .. } = op {
            let bucket = name(*bucket).expect("the bucket is there");
            let kinds: &[_] = &[ChangeKind::Stored];
            self.expected.extend(entries.iter().map(|entry| (at, kinds, bucket.clone(), entry.key.clone())));
            return;
        }
        let (kinds, bucket, key): (&[_], _, _) = match op {
            Op::CreateBucket { name, .. } => (&[ChangeKind::BucketCreated], Some(name.clone()), &Bytes::new()),
            Op::Put { bucket, key, .. } | Op::Copy { bucket, key, .. } => (&[ChangeKind::Stored], name(*bucket), key),
            Op::Complete { bucket, key, .. } => (&[ChangeKind::Completed], name(*bucket), key),
            // From a lower layer, it is a copy and a deletion.
            Op::Move { bucket, key, .. } => (&[ChangeKind::Renamed, ChangeKind::Stored], name(*bucket), key),
            _ => return,
        };
        self.expected.push((at, kinds, bucket.expect("the bucket is there"), key.clone()));
    }

    /// What the journal of `handle` shows, after `place`. None is missing but those that are too old.
    fn read(handle: &Handle, place: &str, expires: bool) -> Vec<Change> {
        let mut reader = handle.read_events(JournalCursor::Oldest).expect("there are events");
        let mut changes: Vec<Change> = Vec::new();
        loop {
            let read = reader.read(PIECE).unwrap_or_else(|error| panic!("{place}: the event journal: {error}"));
            if read.lost {
                // Segments were too old, and a crash took the removal of older ones back.
                assert!(expires, "{place}: events are missing behind {:?}", changes.last().map(|change| change.place));
                changes.clear();
            }
            if read.events.is_empty() && !read.lost {
                assert!(changes.is_sorted_by(|one, next| one.place < next.place), "{place}: places do not ascend");
                return changes;
            }
            // What is made again from the log has the time of what was before it.
            changes.extend(read.events.into_iter().map(|change| Change { time_ms: 0, ..change }));
        }
    }

    /// An image opened; what its journal shows must fit what is known.
    pub fn check_image(&mut self, place: &str, stepper: &mut Stepper) {
        if !stepper.handle().has_events() || self.id == 0 {
            return;
        }
        stepper.follow_events(false).unwrap_or_else(|error| panic!("{place}: the event journal: {error}"));
        let handle = stepper.handle();
        assert_eq!(handle.journal_id(), self.id, "{place}: the event journal began anew");
        let (end, changes) = (handle.events_now().sequence, Self::read(handle, place, self.expires));
        self.fits(place, end, &changes);
        if end > self.reached && !self.doubtful {
            self.pending.push(Pending { place: place.to_owned(), end, changes });
        }
    }

    /// As far as both go, an image shows the same as the living store; and it has all that listeners may have heard.
    fn fits(&self, place: &str, end: u64, changes: &[Change]) {
        let heard = self.known.last().map_or(0, |change| change.place.sequence);
        assert!(end >= heard, "{place}: the log ends at {end}, and there was an event of record {heard}");
        let Some(first) = changes.first().map(|change| change.place) else {
            assert!(self.expires || self.known.is_empty(), "{place}: the journal shows nothing");
            return;
        };
        let known: Vec<_> =
            self.known.iter().filter(|known| known.place >= first && known.place.sequence <= end).collect();
        let shown: Vec<_> = changes.iter().filter(|change| change.place.sequence <= self.reached).collect();
        let oldest = known.first().map_or(first, |known| known.place);
        let shown: Vec<_> = shown.into_iter().filter(|change| change.place >= oldest).collect();
        assert!(known == shown, "{place}: the journal shows\n{shown:#?}\ninstead of\n{known:#?}");
    }

    /// What the living store shows now.
    fn learn(&mut self, handle: &Handle) {
        let changes = Self::read(handle, "the living store", self.expires);
        let last = self.known.last().map(|change| change.place);
        let fresh = changes.into_iter().filter(|change| last.is_none_or(|last| change.place > last));
        self.known.extend(fresh);
        self.reached = handle.events_reached().sequence;
        let (due, later) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.end <= self.reached);
        self.pending = later;
        for Pending { place, end, changes } in due {
            let all = Pending { place, end, changes };
            let had: Vec<_> = self.known.iter().filter(|known| known.place.sequence <= all.end).collect();
            let Some(oldest) = all.changes.first().map(|change| change.place) else {
                // All of them may have been too old.
                assert!(
                    self.expires || had.is_empty(),
                    "{}: the journal showed nothing instead of\n{had:#?}",
                    all.place
                );
                continue;
            };
            let had: Vec<_> = had.into_iter().filter(|known| known.place >= oldest).collect();
            let shown: Vec<_> = all.changes.iter().collect();
            let from = had.first().map_or(0, |first| shown.partition_point(|change| change.place < first.place));
            assert!(had == shown[from..], "{}: the journal showed\n{shown:#?}\ninstead of\n{had:#?}", all.place);
        }
    }

    /// Every operation up to the state `must` has had its event, in order.
    fn check_expected(&self, must: usize) {
        let mut shown = self.known[self.before..].iter();
        for (_, kinds, bucket, key) in self.expected.iter().filter(|(at, ..)| *at <= must) {
            let is_it =
                |change: &Change| kinds.contains(&change.kind) && (&change.bucket_name, &change.key) == (bucket, key);
            assert!(shown.any(is_it), "no event of {kinds:?} of {key:?} in {bucket:?}");
        }
    }

    /// A batch failed. Until the next life, only what the living store has shown is compared.
    pub fn doubt(&mut self) {
        self.pending.clear();
        self.doubtful = true;
    }

    /// Another life has begun: what was heard is still there, and what was not durable is forgotten.
    fn begin(&mut self, handle: &Handle) {
        self.pending.clear();
        self.doubtful = false;
        self.expected.clear();
        let id = handle.journal_id();
        assert!(self.id == 0 || self.id == id, "the event journal began anew");
        self.id = id;
    }
}

impl Run {
    /// Now and then the thread of events has its turn.
    pub fn maybe_follow(&mut self) {
        if self.handle().has_events() && self.followed.rng.below(3) == 0 {
            let hurry = self.followed.rng.below(3) == 0;
            self.follow_events(hurry);
        }
    }

    fn follow_events(&mut self, hurry: bool) {
        self.recorder.enter(Phase::Events);
        match self.stepper.follow_events(hurry) {
            // Looking at the journal would meet the fault as well.
            Ok(()) if self.failing => {}
            Ok(()) => self.followed.learn(self.stepper.handle()),
            Err(error) => assert!(self.failing && is_fault(&error), "{error}"),
        }
        self.cut(self.must);
    }

    /// A life ends: everything acknowledged has had its event.
    pub fn follow_to_the_end(&mut self) {
        if self.handle().has_events() {
            self.follow_events(false);
            self.followed.check_expected(self.must);
        }
    }

    /// A life begins.
    pub fn begin_following(&mut self) {
        if self.handle().has_events() {
            self.followed.begin(self.stepper.handle());
            self.follow_events(false);
            self.followed.before = self.followed.known.len();
        }
    }
}
