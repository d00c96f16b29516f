//! Reads log files on several threads, verifies them, identifies the contents in them, and hands their records on in
//! order. Contents are hashed in the same pass that verifies the chain, and go no further.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::FindingKind;
use super::collect::Collector;
use super::owners::Owners;
use crate::sealed::tags::{AuthTagCheck, Waiting};
use orcas_base::error::{Error, Result};
use orcas_log::{CONTENT_PREFIX, Examined, LogFault, LogPiece, LogPosition, RecoveredRecord, Seen};
use orcas_record::{self as record, BlobLocation, BucketId, LogLocation, Record, Sequence};

/// Records, and bytes of them, that are handed over at a time.
const PARCEL_RECORDS: usize = 1_024;
const PARCEL_BYTES: usize = 256 * 1024;
/// Groups of entries of one file that wait.
const PARCELS_MAX: usize = 16;
/// Contents at most whose owner is not known yet.
const SUSPECTS_MAX: usize = 1 << 20;

/// A record on its way into an index. The bytes of a content are not in it.
pub(super) struct Entry {
    pub sequence: Sequence,
    pub kind: u8,
    pub payload: Bytes,
    pub record: Record,
    pub location: Option<BlobLocation>,
}

/// The entries of whole batches, read together.
pub(super) struct EntryGroup {
    pub entries: Vec<Entry>,
    /// Where the last of the batches ends.
    pub position: LogPosition,
}

enum Message {
    Entries(EntryGroup),
    Done(Result<Examined>),
}

/// A content that fits into the scope of no owner known when it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspect {
    pub blob: Sequence,
    pub at: LogLocation,
    pub length: u32,
}

pub(super) struct LogCheck<'a> {
    pub collector: &'a Collector<'a>,
    pub owners: &'a Owners,
    pub read_content: bool,
    pub tags: &'a AuthTagCheck<'a>,
    /// The last record that is known to have been durable.
    pub applied: Sequence,
    pub suspects: Mutex<Vec<Suspect>>,
}

impl LogCheck<'_> {
    /// Reads all pieces and shows their records in order to `take`; `begin` is told before each piece with the last
    /// sequence so far. Returns the last sequence.
    ///
    /// # Errors
    /// What reading ran into and what `take` returns; damage is no error.
    pub fn run(
        &self,
        pieces: &[LogPiece],
        threads: usize,
        begin: &mut dyn FnMut(&LogPiece, Sequence),
        take: &mut dyn FnMut(EntryGroup) -> Result<()>,
    ) -> Result<Sequence> {
        let (senders, receivers): (Vec<_>, Vec<_>) = pieces.iter().map(|_| bounded(PARCELS_MAX)).unzip();
        let senders: Vec<Mutex<Option<Sender<Message>>>> = senders.into_iter().map(|s| Mutex::new(Some(s))).collect();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(pieces.len()) {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let (Some(piece), Some(sender)) = (pieces.get(index), senders.get(index)) else { return };
                        let Some(sender) = sender.lock().take() else { return };
                        let done = self.examine(piece, &mut |group| {
                            // Nobody listens any more after an error.
                            sender.send(Message::Entries(group)).map_err(|_| Error::Closed)
                        });
                        let _ = sender.send(Message::Done(done));
                    }
                });
            }
            let mut last = 0;
            for (piece, receiver) in pieces.iter().zip(receivers) {
                begin(piece, last);
                let examined = receive(&receiver, take);
                // What other threads hold must not wait for ever.
                drop(receiver);
                match examined {
                    Ok(examined) => last = last.max(examined.last),
                    Err(error) => {
                        next.store(pieces.len(), Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
            Ok(last)
        })
    }

    /// Verifies one file. Its records go to `send`.
    pub fn examine(&self, piece: &LogPiece, send: &mut dyn FnMut(EntryGroup) -> Result<()>) -> Result<Examined> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        let mut end = None;
        let mut hint = 0;
        let path = piece.path();
        let examined = piece.examine(self.applied, &|bytes| self.collector.read(bytes), &mut |seen| {
            let batch = match seen {
                Seen::Fault(fault) => {
                    let kind = if fault.concerns_file() { FindingKind::LogFile } else { FindingKind::LogRecord };
                    self.collector.fault(kind, &fault);
                    return Ok(());
                }
                Seen::Batch(batch) => batch,
            };
            let decoded = batch.records.iter().map(decode).collect::<Vec<_>>();
            for (at, (recovered, entry)) in batch.records.iter().zip(&decoded).enumerate() {
                match entry {
                    Ok(entry) => {
                        if let Record::Content { fingerprint, seal: None, .. } = &entry.record
                            && self.read_content
                        {
                            let home = decoded.get(at + 1).and_then(|next| next.as_ref().ok()).and_then(bucket_of);
                            let content = recovered.payload.get(CONTENT_PREFIX..).unwrap_or_default();
                            if !self.owners.fits(fingerprint, content, home, &mut hint) {
                                self.suspect(recovered, content.len() as u32);
                            }
                        }
                        self.sealed(recovered, entry);
                        if let Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) = &entry.record {
                            self.owners.learn(bucket);
                        }
                    }
                    Err(_) => self.collector.fault(
                        FindingKind::LogRecord,
                        &LogFault::of_record(recovered.at, path.clone(), "a record cannot be read", recovered.sequence),
                    ),
                }
            }
            self.count(&decoded);
            bytes += decoded.iter().flatten().map(|entry| entry.payload.len()).sum::<usize>();
            entries.extend(decoded.into_iter().flatten().map(without_content));
            end = Some(batch.position);
            if entries.len() >= PARCEL_RECORDS || bytes >= PARCEL_BYTES {
                bytes = 0;
                if let Some(position) = end.take() {
                    send(EntryGroup { entries: std::mem::take(&mut entries), position })?;
                }
            }
            Ok(())
        })?;
        if let Some(position) = end {
            send(EntryGroup { entries, position })?;
        }
        Ok(examined)
    }

    fn count(&self, decoded: &[Result<Entry>]) {
        let contents = decoded.iter().flatten().filter(|entry| entry.location.is_some()).count();
        self.collector.count_blobs(contents as u64);
    }

    /// Verifies the authentication tags of a sealed content.
    fn sealed(&self, recovered: &RecoveredRecord, entry: &Entry) {
        if let Record::Content { seal: Some(seal), bytes, .. } = &entry.record
            && self.read_content
            && let Some(mut opening) = self.tags.opening(seal, bytes.len() as u32)
        {
            opening.take_tags(bytes);
            opening.update(bytes);
            let location = BlobLocation::Log { at: recovered.at, length: bytes.len() as u32 };
            self.tags.judge(recovered.sequence, Waiting { location, seal: *seal }, opening);
        }
    }

    fn suspect(&self, recovered: &RecoveredRecord, length: u32) {
        let mut suspects = self.suspects.lock();
        if suspects.len() < SUSPECTS_MAX {
            suspects.push(Suspect { blob: recovered.sequence, at: recovered.at, length });
            return;
        }
        drop(suspects);
        self.collector.find(FindingKind::Blob, recovered.at.to_string(), "the content fits the scope of no owner");
    }
}

fn receive(receiver: &Receiver<Message>, take: &mut dyn FnMut(EntryGroup) -> Result<()>) -> Result<Examined> {
    loop {
        match receiver.recv() {
            Ok(Message::Entries(group)) => take(group)?,
            Ok(Message::Done(done)) => return done,
            Err(_) => return Err(Error::Record { reason: "a thread of the check ended early" }),
        }
    }
}

/// The payload of all records but contents is copied, so that nothing holds on to the block it was read with.
fn decode(recovered: &RecoveredRecord) -> Result<Entry> {
    let RecoveredRecord { sequence, kind, ref payload, at } = *recovered;
    let is_content = record::is_content(kind);
    let payload = if is_content { payload.clone() } else { Bytes::copy_from_slice(payload) };
    let record = record::decode(kind, &payload)?;
    let location = match &record {
        Record::Content { bytes, .. } => Some(BlobLocation::Log { at, length: bytes.len() as u32 }),
        _ => None,
    };
    Ok(Entry { sequence, kind, payload: if is_content { Bytes::new() } else { payload }, record, location })
}

fn without_content(mut entry: Entry) -> Entry {
    if let Record::Content { bytes, .. } = &mut entry.record {
        *bytes = Bytes::new();
    }
    entry
}

/// Where the version of a record is: a small body is followed by the version that names it.
fn bucket_of(entry: &Entry) -> Option<BucketId> {
    match &entry.record {
        Record::PutVersion(version) | Record::MoveVersion { version, .. } | Record::CompleteUpload { version, .. } => {
            Some(version.bucket)
        }
        _ => None,
    }
}
