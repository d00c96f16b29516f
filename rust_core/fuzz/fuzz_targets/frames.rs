//! Headers of log frames, commit records, chunk frames and packs. Arbitrary bytes get the checksum that they need to be
//! believed, so the fields behind it are what is tested: limits hold, what decodes encodes to the same, and nothing is
//! believed at another offset or after another change.
#![cfg_attr(fuzzing, no_main)]

use orcas_base::block::{BLOCK_SIZE, CHUNK_LENGTH_MAX, block_crc, field};
use orcas_fuzz::{Input, fuzz_target};
use orcas_log::LogPosition;

#[allow(dead_code, reason = "the packs use more of it")]
#[path = "../../crates/chunks/src/format.rs"]
mod chunk;
#[allow(dead_code, reason = "the log uses more of it")]
#[path = "../../crates/log/src/encoding/format.rs"]
mod frame;

use chunk::{CHUNK_HEADER, ChunkHeader, PackHeader};
use frame::{COMMIT_FRAME, Commit, FRAME_HEADER, FRAME_PAYLOAD_MAX, FileContext, FrameClass, FrameHeader, LogKeys};

/// Differs from `offset` in one byte: such a difference no CRC-32C misses.
fn elsewhere(offset: u64, input: &mut Input<'_>) -> u64 {
    offset ^ (u64::from(input.u8().max(1)) << (8 * (input.u8() % 8)))
}

fn frame_header(mut input: Input<'_>) {
    let context = FileContext::new(&input.array(), input.u64(), &input.array());
    let offset = input.u64();
    let mut bytes: [u8; FRAME_HEADER] = input.array();
    if field::<4>(&bytes, 0) != context.header_crc(&bytes, offset).to_le_bytes() {
        assert_eq!(FrameHeader::decode(&bytes, &context, offset), None);
    }
    let crc = context.header_crc(&bytes, offset);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    let Some(header) = FrameHeader::decode(&bytes, &context, offset) else { return };
    assert_eq!(FrameHeader::decode(&bytes, &context, elsewhere(offset, &mut input)), None);
    let table = match header.class {
        FrameClass::Record => 4 * (header.length as usize).div_ceil(BLOCK_SIZE),
        FrameClass::Commit => 0,
    };
    assert!(header.length as usize <= FRAME_PAYLOAD_MAX);
    assert_eq!(header.payload_start(), FRAME_HEADER + table);
    let least = header.payload_start() + header.length as usize;
    assert!((least..least + 8).contains(&header.frame_length()) && header.frame_length() % 8 == 0);

    let mut encoded = header.encode();
    let crc = context.header_crc(&encoded, offset);
    encoded[..4].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(FrameHeader::decode(&encoded, &context, offset), Some(header));
    assert!(FrameHeader::is_likely(&encoded));
    assert_eq!(FrameHeader::is_likely(&bytes), bytes == encoded);
}

fn commit(mut input: Input<'_>) {
    let keys = LogKeys::derive(&input.array());
    let context = FileContext::new(&input.array(), input.u64(), &input.array());
    let offset = input.u64();
    let commit = Commit {
        start: input.u64(),
        durable: input.u64(),
        records: input.u32(),
        chain: input.array(),
        sequence: input.u64(),
    };
    let encoded: [u8; COMMIT_FRAME] = commit.encode(&keys, &context, offset);
    assert_eq!(Commit::decode(&encoded, &keys, &context, offset).as_ref(), Some(&commit));
    assert_eq!(Commit::decode(&encoded, &keys, &context, elsewhere(offset, &mut input)), None);
    // A change anywhere, under a checksum that holds.
    let mut changed = encoded;
    changed[4 + usize::from(input.u8()) % (COMMIT_FRAME - 4)] ^= input.u8().max(1);
    let crc = context.header_crc(&field(&changed, 0), offset);
    changed[..4].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Commit::decode(&changed, &keys, &context, offset), None);
    // Bytes that nobody with the keys wrote.
    let forged: [u8; COMMIT_FRAME] = input.array();
    assert!(forged == encoded || Commit::decode(&forged, &keys, &context, offset).is_none());
}

fn chunk_header(mut input: Input<'_>) {
    let offset = input.u64();
    let bytes: [u8; CHUNK_HEADER] = input.array();
    let salt = ChunkHeader::salt_for(&bytes, offset);
    if let Some(header) = ChunkHeader::decode(&bytes, salt, offset) {
        assert!(header.length <= CHUNK_LENGTH_MAX);
        assert!(chunk::frame_length(header.length) >= chunk::content_start(header.length) + u64::from(header.length));
        assert_eq!(chunk::frame_length(header.length) % 4096, 0);
        assert_eq!(ChunkHeader::decode(&bytes, salt, elsewhere(offset, &mut input)), None);
        assert_eq!(ChunkHeader::decode(&bytes, salt ^ input.u32().max(1), offset), None);
    }
}

fn chunk_frame(mut input: Input<'_>) {
    let (offset, salt, fingerprint) = (input.u64(), input.u32(), input.array());
    let content = input.rest();
    let crcs: Vec<u32> = content.chunks(BLOCK_SIZE).map(block_crc).collect();
    let mut encoded = ChunkHeader::encode(content.len() as u32, &fingerprint, &crcs, salt, offset);
    assert_eq!(encoded.len() as u64, chunk::content_start(content.len() as u32));
    let header = ChunkHeader::decode(&field(&encoded, 0), salt, offset).expect("it was just encoded");
    assert_eq!((header.length as usize, header.fingerprint), (content.len(), fingerprint));
    let table = header.decode_table(&encoded[CHUNK_HEADER..], salt).expect("its table too");
    assert!(chunk::blocks_match(&table, content, salt));
    let mut changed = content.to_vec();
    if let Some(byte) = changed.last_mut() {
        *byte ^= 1;
        assert!(!chunk::blocks_match(&table, &changed, salt));
        *encoded.last_mut().expect("there is a table") ^= 1;
        assert_eq!(header.decode_table(&encoded[CHUNK_HEADER..], salt), None);
    }
}

fn pack_header(mut input: Input<'_>) {
    let header = PackHeader { store_id: input.array(), number: input.u64(), salt: input.array() };
    let good = header.encode();
    let mut bytes = good;
    // One copy or the other is written over, the first with a checksum that holds.
    let (at, how) = (usize::from(input.u16()) % bytes.len(), input.u8());
    let over = input.rest();
    let end = (at + over.len()).min(bytes.len());
    bytes[at..end].copy_from_slice(&over[..end - at]);
    if how & 1 == 1 {
        let crc = block_crc(&bytes[..56]);
        bytes[56..60].copy_from_slice(&crc.to_le_bytes());
    }
    if let Some(any) = PackHeader::decode_any(&bytes) {
        assert_eq!(PackHeader::decode(&bytes, &any.store_id, any.number).as_ref(), Ok(&any));
        assert_eq!(PackHeader::decode_any(&any.encode()).as_ref(), Some(&any));
    }
    if let Ok(found) = PackHeader::decode(&bytes, &header.store_id, header.number) {
        assert_eq!((found.store_id, found.number), (header.store_id, header.number));
    } else {
        assert_ne!(bytes, good);
    }
}

fn position(mut input: Input<'_>) {
    let bytes: [u8; LogPosition::ENCODED] = input.array();
    let decoded = LogPosition::decode(&bytes).expect("any bytes of this length are a position");
    assert_eq!(decoded.encode(), bytes);
    assert_eq!(LogPosition::decode(input.rest()).is_some(), input.rest().len() == LogPosition::ENCODED);
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    match input.u8() % 6 {
        0 => frame_header(input),
        1 => commit(input),
        2 => chunk_header(input),
        3 => chunk_frame(input),
        4 => pack_header(input),
        _ => position(input),
    }
});
