//! Opens a journal: what its last segment holds up to the last mark counts, the rest of it is cut off.

use std::sync::Arc;

use orcas_base::error::Result;
use orcas_fs::{FileSystem, Open};

use super::format::{FrameKind, HEADER, Header, Mark};
use super::scan::{Scanner, read_header};
use super::segments::Segment;
use super::shared::JournalFiles;
use super::writer::{Active, Journal};
use super::{JournalOptions, segment_names, segment_number};
use orcas_events::Place;

/// Where the writer goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    pub mark: Mark,
    /// The sequence of the record that the mark stands for.
    pub sequence: u64,
    /// The last event.
    pub last: Place,
    /// The time of the event, or that of the beginning of its segment.
    pub time_ms: u64,
    /// The states that were pushed, in order, since the last segment began.
    pub states: Vec<Vec<u8>>,
}

/// The contents of the last segment up to its last mark.
struct Intact {
    resumed: Resumed,
    end: u64,
    /// The bytes up to its first mark.
    began: u64,
}

impl Journal {
    /// Opens what there is, and makes it durable. `None` if there is nothing to go on from: then the writer begins with
    /// `begin`. `distrusted` is the number of a segment, and the bytes of it that count.
    ///
    /// # Errors
    /// What reading and writing the files ran into.
    pub fn open(files: &JournalFiles, distrusted: Option<(u64, u64)>) -> Result<(Self, Option<Resumed>)> {
        let options = &*files.options;
        if files.is_absent()? {
            if options.fs.list(&options.dir).is_ok() {
                tracing::warn!(path = %options.dir.display(), "The event journal is missing: its events are lost");
            }
            options.fs.create_dir(&options.dir)?;
            options.fs.sync_dir(options.dir.parent().unwrap_or(&options.dir))?;
        }
        let mut headers = headers(options)?;
        let (mut resumed, mut active) = (None, None);
        while let Some(last) = headers.last() {
            let path = options.path(last.number);
            let file = options.fs.open(&path, Open::Write)?;
            let length = file.len()?;
            let counts = distrusted.filter(|(number, _)| *number == last.number).map_or(length, |(_, end)| end);
            let mut scanner = Scanner::new(Arc::clone(&file), last.salt, HEADER as u64, counts.min(length));
            let Some(Intact { resumed: found, end, began }) = intact(last, &mut scanner)? else {
                // Without its first mark it does not have the whole state: a crash may leave it so. The one before has.
                tracing::warn!(path = %path.display(), "A segment of the event journal is damaged and is removed");
                options.fs.remove(&path)?;
                headers.pop();
                continue;
            };
            file.set_len(end)?;
            file.sync_data()?;
            active = Some(Active::resumed(file, Segment::new(last, end), found.sequence, began));
            resumed = Some(found);
            break;
        }
        let journal = headers.last().map_or(0, |last| last.journal);
        let mut list = Vec::with_capacity(headers.len());
        for header in &headers {
            let end = match &active {
                Some(active) if active.number() == header.number => active.end(),
                _ => options.fs.open(&options.path(header.number), Open::Read)?.len()?,
            };
            list.push(Segment::new(header, end));
        }
        files.segments.replace(journal, list);
        Ok((Self::new(files.clone(), active), resumed))
    }
}

/// The headers of the segments of one journal, oldest first. Removes files that are none.
fn headers(options: &JournalOptions) -> Result<Vec<Header>> {
    let mut numbers: Vec<u64> =
        segment_names(&*options.fs, &options.dir)?.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    let mut headers: Vec<Header> = Vec::new();
    for number in numbers.into_iter().rev() {
        let path = options.path(number);
        let header = read_header(&*options.fs, &path)?;
        let journal = headers.first().map(|last: &Header| last.journal);
        let fits = |header: &Header| {
            header.number == number
                && header.store_id == options.store_id
                && journal.is_none_or(|journal| journal == header.journal)
        };
        match header.filter(fits) {
            Some(header) => headers.push(header),
            None => {
                tracing::warn!(path = %path.display(), "A segment of the event journal is damaged and is removed");
                options.fs.remove(&path)?;
            }
        }
    }
    headers.reverse();
    Ok(headers)
}

/// `None` without a mark.
fn intact(header: &Header, scanner: &mut Scanner) -> Result<Option<Intact>> {
    let mut resumed = Resumed {
        mark: header.mark,
        sequence: header.sequence,
        last: header.after,
        time_ms: header.began_ms,
        states: Vec::new(),
    };
    let (mut end, mut began) = (None, None);
    // Since the last mark.
    let (mut last, mut time_ms, mut states) = (resumed.last, resumed.time_ms, Vec::new());
    while let Some(frame) = scanner.next()? {
        match frame.kind {
            FrameKind::Event if frame.place <= last => break,
            FrameKind::Event => (last, time_ms) = (frame.place, frame.time_ms),
            FrameKind::State => states.push(frame.payload.to_vec()),
            FrameKind::Mark => {
                let Ok(mark) = frame.payload.try_into() else { break };
                resumed.states.append(&mut states);
                resumed = Resumed { mark, sequence: frame.place.sequence, last, time_ms, ..resumed };
                end = Some(scanner.offset());
                began = began.or(end);
            }
        }
    }
    Ok(end.zip(began).map(|(end, began)| Intact { resumed, end, began }))
}

/// Removes the journal of a store, with its directory's files. What is not there is removed.
///
/// # Errors
/// What removing the files ran into.
pub fn discard(fs: &dyn FileSystem, store: &std::path::Path) -> Result<bool> {
    let dir = store.join(super::DIRECTORY);
    let segments = segment_names(fs, &dir)?;
    for name in &segments {
        fs.remove(&dir.join(name))?;
    }
    if !segments.is_empty() {
        fs.sync_dir(&dir)?;
    }
    Ok(!segments.is_empty())
}
