//! Compares the bytes of segments with the tables in `docs/format.md`: every field at its place, and no other.

use orcas_base::block::block_crc;

use super::format::{FRAME_HEADER, Frame, FrameKind, HEADER, Header, MARK, PAYLOAD_MAX, VERSION};
use orcas_events::Place;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/format.md");

/// Offset, length and text of the rows of the table that follows a line of the document.
fn table(line: &str) -> Vec<(usize, Option<usize>, String)> {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let (_, after) = document.split_once(line).expect("the document has the line");
    let rows = after.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [offset, length, field] = cells[..] else { panic!("a row of three cells: {line}") };
        (offset.parse().unwrap(), length.parse().ok(), field.to_owned())
    };
    rows.skip(2).map(row).collect()
}

/// Compares stored bytes with a table: `fields` has how the text of each row begins, and what is stored.
fn compare(stored: &[u8], line: &str, fields: &[(String, Vec<u8>)]) {
    let rows = table(line);
    assert_eq!(rows.len(), fields.len());
    let mut end = 0;
    for ((offset, length, text), (begins, expected)) in rows.iter().zip(fields) {
        assert!(text.starts_with(begins), "{text:?} instead of {begins:?}");
        assert_eq!((*offset, length.unwrap_or(expected.len())), (end, expected.len()), "{text}");
        end += expected.len();
        assert_eq!(stored[*offset..end], **expected, "{text}");
    }
    assert_eq!(end, stored.len());
}

fn field(begins: &str, stored: &[u8]) -> (String, Vec<u8>) {
    (begins.to_owned(), stored.to_vec())
}

#[test]
fn the_header_of_a_segment_is_as_documented() {
    let header = Header {
        number: 0x0102_0304_0506_0708,
        store_id: [0x11; 16],
        journal: 0x2122_2324_2526_2728,
        after: Place::after(0x3132_3334_3536_3738),
        sequence: 0x4142_4344_4546_4748,
        began_ms: 0x5152_5354_5556_5758,
        salt: 0x6162_6364,
        mark: [0x71; MARK],
    };
    let bytes = header.encode();
    let fields = [
        field("magic `ORCASEVT`", b"ORCASEVT"),
        field(&format!("version: {VERSION}"), &VERSION.to_le_bytes()),
        field("salt", &header.salt.to_le_bytes()),
        field("number of the segment", &header.number.to_le_bytes()),
        field("store id", &header.store_id),
        field("id of the journal", &header.journal.to_le_bytes()),
        field("sequence of the last event before", &header.after.sequence.to_le_bytes()),
        field("its ordinal; 65535", &65_535u64.to_le_bytes()),
        field("sequence up to which", &header.sequence.to_le_bytes()),
        field("when the segment was begun, in milliseconds", &header.began_ms.to_le_bytes()),
        field("the [position]", &header.mark),
        field("0", &[0; 4]),
        field("CRC-32C of bytes 0 to 139", &block_crc(&bytes[..HEADER - 4]).to_le_bytes()),
    ];
    compare(&bytes, "A segment begins with a header:", &fields);
    assert_eq!(Header::decode(&bytes), Some(header));
}

#[test]
fn a_frame_is_as_documented() {
    const SALT: u32 = 0x0102_0304;
    let (place, time_ms, payload) =
        (Place { sequence: 0x1112_1314_1516_1718, ordinal: 0x2122 }, 0x3132_3334_3536_3738u64, [0x41; 77]);
    let [event, state, mark] = [FrameKind::Event, FrameKind::State, FrameKind::Mark].map(|kind| kind as u8);
    for kind in [FrameKind::Event, FrameKind::State, FrameKind::Mark] {
        let mut bytes = Vec::new();
        assert!(Frame::push(&mut bytes, SALT, kind, place, time_ms, |out| out.extend_from_slice(&payload)));
        let fields = [
            field("CRC-32C of everything after it in the frame, XOR the salt", &{
                (block_crc(&bytes[4..]) ^ SALT).to_le_bytes()
            }),
            field("length of the payload, at most ", &(payload.len() as u32).to_le_bytes()),
            field("sequence", &place.sequence.to_le_bytes()),
            field("time, in milliseconds", &time_ms.to_le_bytes()),
            field("ordinal", &place.ordinal.to_le_bytes()),
            field(&format!("kind: {event} event, {state} state, {mark} mark"), &[kind as u8]),
            field("0", &[0; FRAME_HEADER - 27]),
            field("payload", &payload),
        ];
        compare(&bytes, "Frames follow without gaps:", &fields);
    }
    let (_, _, length) = &table("Frames follow without gaps:")[1];
    let digits: String = length.chars().filter(char::is_ascii_digit).collect();
    assert_eq!(digits.parse(), Ok(PAYLOAD_MAX));
}
