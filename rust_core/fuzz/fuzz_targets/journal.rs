//! The journal of events: the headers of its segments and its frames, and the files of a journal with changed bytes, cut
//! short or removed. What is read is what was written, in its order, and events that are gone are told, unless a checksum
//! was made good.
#![cfg_attr(fuzzing, no_main)]

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::block::field;
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{SimDisk, SimRandom};
use orcas_fuzz::{Input, bounded, fuzz_target};
use orcas_journal::{
    Journal, JournalCursor, JournalFiles, JournalOptions, JournalReader, MARK, Place, Start, StoredEvent, examine,
};

#[allow(dead_code, reason = "the journal uses more of it")]
#[path = "../../crates/journal/src/format.rs"]
mod format;

use format::{FRAME_HEADER, Frame, FrameKind, HEADER, Header, PAYLOAD_MAX};

const STORE: &str = "/store";
const SEGMENTS: u64 = 3;
/// Events of one segment, in two batches.
const EVENTS: u64 = 6;
const CHANGES_MAX: usize = 8;
const STATE: &[u8] = b"state";

/// A journal as it was written.
struct Written {
    disk: SimDisk,
    events: Vec<StoredEvent>,
    files: Vec<PathBuf>,
}

thread_local! {
    static WRITTEN: OnceCell<Written> = const { OnceCell::new() };
}

fn dir() -> PathBuf {
    Path::new(STORE).join(orcas_journal::DIRECTORY)
}

fn files(disk: &SimDisk) -> JournalFiles {
    JournalFiles::new(JournalOptions {
        fs: Arc::new(disk.clone()),
        dir: dir(),
        store_id: [7; 16],
        random: Arc::new(SimRandom::new(3)),
        retention_ms: 1 << 40,
        max_bytes: 1 << 20,
    })
}

fn start(last: Place) -> Start {
    Start { after: last, mark: [last.sequence as u8; MARK], sequence: last.sequence, now_ms: last.sequence * 10 }
}

fn write() -> Written {
    let disk = SimDisk::new();
    disk.create_dir(Path::new(STORE)).expect("the disk has room");
    let of_journal = files(&disk);
    let (mut journal, resumed) = Journal::open(&of_journal, None).expect("a new journal");
    assert_eq!(resumed, None);
    let mut events: Vec<StoredEvent> = Vec::new();
    for segment in 0..SEGMENTS {
        let begun = start(events.last().map_or(Place::default(), |last| last.place));
        let states = [STATE].into_iter();
        let done = if segment == 0 { journal.begin(&begun, states) } else { journal.roll(&begun, states) };
        done.expect("the disk works");
        for at in 1..=EVENTS {
            let sequence = segment * EVENTS + at;
            let event = StoredEvent {
                place: Place { sequence: sequence.div_ceil(2), ordinal: ((sequence + 1) % 2) as u16 },
                time_ms: sequence * 10,
                payload: vec![sequence as u8; 10 * at as usize],
            };
            assert!(journal.push_event(event.place, event.time_ms, |out| out.extend(&event.payload)));
            events.push(event);
            if at % 3 == 0 {
                journal.write(&[sequence as u8; MARK], sequence, sequence * 10).expect("the disk works");
            }
        }
        journal.sync().expect("the disk works");
    }
    drop(journal);
    let names = disk.list(&dir()).expect("it is there");
    Written { files: names.iter().map(|name| dir().join(name)).collect(), disk: disk.kill(), events }
}

fn read(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let Ok(file) = fs.open(path, Open::Read) else { return Vec::new() };
    let mut bytes = vec![0; file.len().expect("it is open") as usize];
    file.read_at(0, &mut bytes).expect("as long as it says");
    bytes
}

/// Makes the checksum of the header, or of the frame at a place among the frames, hold again.
fn reseal(fs: &dyn FileSystem, path: &Path, which: u8) {
    let bytes = read(fs, path);
    let Some(header) = bytes.get(..HEADER) else { return };
    let salt = u32::from_le_bytes(field(header, 12));
    let (mut offset, crc) = (HEADER, |bytes: &[u8]| orcas_base::block::block_crc(bytes));
    let Ok(file) = fs.open(path, Open::Write) else { return };
    if which == 0 {
        file.write_at(140, &crc(&header[..140]).to_le_bytes()).expect("the disk works");
        return;
    }
    for _ in 1..which {
        let Some(frame) = bytes.get(offset..).and_then(Frame::decode) else { return };
        offset += frame.total();
    }
    let frame = bytes.get(offset..).and_then(|rest| rest.get(..Frame::decode(rest)?.total()));
    if let Some(frame) = frame {
        file.write_at(offset as u64, &(crc(&frame[4..]) ^ salt).to_le_bytes()).expect("the disk works");
    }
}

/// Applies one change; whether it made a checksum good.
fn change(fs: &dyn FileSystem, written: &Written, input: &mut Input<'_>) -> bool {
    let how = input.u8() % 6;
    let path = &written.files[usize::from(input.u8()) % written.files.len()];
    let offset = u64::from(input.u16()) % 2048;
    let Ok(file) = fs.open(path, Open::Write) else { return false };
    match how {
        0 | 1 => {
            let mut byte = [0];
            if file.read_at(offset, &mut byte).is_ok() {
                file.write_at(offset, &[byte[0] ^ input.u8()]).expect("the disk works");
            }
        }
        2 => {
            let length = usize::from(input.u8());
            let bytes = input.take(length);
            file.write_at(offset, bytes).expect("the disk works");
        }
        3 => file.set_len(offset).expect("the disk works"),
        4 => fs.remove(path).expect("the disk works"),
        _ => {
            reseal(fs, path, input.u8() % 24);
            return true;
        }
    }
    false
}

/// Reads all events there are, in looks of a few bytes each.
fn read_all(of_journal: &JournalFiles) -> (Vec<StoredEvent>, bool) {
    let mut reader = JournalReader::new(of_journal.clone(), JournalCursor::After(Place::default()));
    let (mut found, mut lost) = (Vec::new(), false);
    for _ in 0..1000 {
        let stored = |place, time_ms, payload: &[u8]| Ok(StoredEvent { place, time_ms, payload: payload.to_vec() });
        let Ok(look) = reader.read(64, stored) else { return (found, true) };
        lost |= look.lost;
        if look.events.is_empty() && !look.lost {
            return (found, lost);
        }
        found.extend(look.events);
    }
    panic!("reading does not end");
}

fn damaged(mut input: Input<'_>) {
    WRITTEN.with(|cell| {
        let written = cell.get_or_init(write);
        let disk = written.disk.kill();
        let (mut changes, mut resealed) = (0, false);
        while !input.is_empty() && changes < CHANGES_MAX {
            resealed |= change(&disk, written, &mut input);
            changes += 1;
        }
        let examined = examine(&disk, Path::new(STORE), &mut |_, _, _| true);
        assert!(examined.unreadable.is_empty());
        let of_journal = files(&disk);
        // An error is one of the disk, which works.
        let (journal, resumed) = Journal::open(&of_journal, None).expect("damage is no error");
        let (found, lost) = read_all(&of_journal);
        assert!(resealed || found.iter().all(|event| written.events.contains(event)), "nothing else was written");
        assert!(resealed || found.windows(2).all(|two| two[0].place < two[1].place), "in order");
        if let Some(resumed) = resumed.filter(|_| !resealed) {
            let before: Vec<_> = written.events.iter().filter(|event| event.place <= resumed.last).collect();
            assert!(lost || found.iter().collect::<Vec<_>>() == before, "what is gone is told");
            assert_eq!(resumed.states, [STATE]);
        }
        drop(journal);
        // What was opened once is opened again, and says the same.
        let again = files(&disk);
        drop(Journal::open(&again, None).expect("it was opened before"));
        assert_eq!(read_all(&again), (found, lost));
    });
}

fn formats(mut input: Input<'_>) {
    let salt = input.u32();
    let kind = [FrameKind::Event, FrameKind::State, FrameKind::Mark][usize::from(input.u8() % 3)];
    let place = Place { sequence: input.u64(), ordinal: input.u16() };
    let (time_ms, at, flip) = (input.u64(), usize::from(input.u16()), input.u8().max(1));
    let header = Header {
        number: input.u64(),
        store_id: input.array(),
        journal: input.u64(),
        after: place,
        sequence: input.u64(),
        began_ms: time_ms,
        salt,
        mark: input.array(),
    };
    let mut encoded = header.encode();
    assert_eq!(Header::decode(&encoded).as_ref(), Some(&header));
    encoded[at % HEADER] ^= flip;
    assert_eq!(Header::decode(&encoded), None);

    let payload = input.rest();
    let mut out = Vec::new();
    assert_eq!(
        Frame::push(&mut out, salt, kind, place, time_ms, |out| out.extend(payload)),
        payload.len() <= PAYLOAD_MAX
    );
    if let Some(frame) = Frame::decode(&out) {
        assert_eq!((frame.kind, frame.place, frame.time_ms, frame.total()), (kind, place, time_ms, out.len()));
        assert!(frame.is_intact(&out, salt));
        let end = out.len();
        out[at % end] ^= flip;
        let changed = Frame::decode(&out).filter(|frame| frame.total() == out.len());
        assert!(changed.is_none_or(|frame| !frame.is_intact(&out, salt)));
    }
    // And any bytes.
    if let Some(frame) = Frame::decode(payload) {
        assert!(frame.total() <= FRAME_HEADER + PAYLOAD_MAX);
    }
    if let Some(found) = payload.first_chunk().and_then(Header::decode) {
        assert_eq!(Header::decode(&found.encode()), Some(found));
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    if input.u8() & 1 == 0 { damaged(input) } else { bounded(4 * (data.len() + PAYLOAD_MAX), || formats(input)) }
});
