//! Bodies in `aws-chunked` framing: flags, cuts and a declared length, then the body. However the body is cut, the same
//! comes out; never more than was declared; and what this crate signed decodes, unless a byte of it changes.
#![cfg_attr(fuzzing, no_main)]

use orcas_fuzz::{ACCESS_KEY, Input, NOW_S, SECRET, bounded, fuzz_target};
use orcas_http::{Headers, RequestHead};
use orcas_sigv4::{
    ChunkMode, ChunkedDecoder, Credential, Requirements, SKEW_MAX_MS, SignatureError, Signer, SigningKeys, Trailers,
    authenticate,
};

const ANNOUNCED: [&[u8]; 3] = [b"", b"x-amz-checksum-crc32", b"x-amz-checksum-crc32, x-amz-meta-a"];
/// The limits of the decoder: bytes of trailers, and how many.
const TRAILER_BYTES_MAX: usize = 4096;
const TRAILERS_MAX: usize = 16;
/// Allocated bytes, whatever arrives: lines, trailers, and the texts of signatures of small chunks.
const GROWTH_MAX: usize = 64;
const ANY_MAX: usize = 64 * 1024;

/// Bytes of a chunk and of a body that is signed here: signatures take the most time.
const CHUNK_MIN: usize = 16;
const SIGNED_MAX: usize = 600;

/// What a body decodes to, and how that ended.
type Decoded = (Vec<u8>, Result<Trailers, SignatureError>);

fn decode(mode: &ChunkMode, length: u64, announced: &[u8], pieces: &[&[u8]]) -> Decoded {
    let mut decoder = ChunkedDecoder::new(mode.clone(), length, announced).with_small_chunks();
    let mut out = Vec::new();
    for piece in pieces {
        let pushed = decoder.push(piece, &mut |bytes| out.extend_from_slice(bytes));
        if let Err(error) = pushed {
            let again = decoder.push(b"0\r\n", &mut |_| panic!("bytes after a failure"));
            assert_eq!(again, Err(error.clone()), "a failure is final");
            return (out, Err(error));
        }
    }
    (out, decoder.finish())
}

/// Signs a request with such a payload; its chunks can be signed and verified.
fn signed(payload: &str) -> (ChunkMode, orcas_sigv4::ChunkSigner) {
    let signer = Signer::new(ACCESS_KEY, SECRET, "us-east-1", NOW_S).expect("a year of four digits");
    let mut list: Vec<(&[u8], &[u8])> = vec![(b"host", b"localhost")];
    let head = RequestHead { method: b"PUT", path: b"/b/k", query: b"", headers: Headers::new(&list) };
    let added = signer.sign_request(&head, payload).expect("it can be signed");
    list.extend(added.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    let head = RequestHead { method: b"PUT", path: b"/b/k", query: b"", headers: Headers::new(&list) };
    let requirements = Requirements {
        presign_max_s: orcas_sigv4::PRESIGN_EXPIRES_S_MAX,
        any_signature: false,
        region: None,
        may_lack_region: false,
        now_unix_ms: NOW_S * 1000,
        skew_max_ms: SKEW_MAX_MS,
        service: "s3",
        body: None,
        session_token: None,
        version_two: None,
    };
    let credential = |_: &str| Some(Credential { secret: SECRET.into(), generation: 1 });
    let verified = authenticate(&head, &requirements, &SigningKeys::new(), &credential).expect("it was just signed");
    let chunks = signer.chunks(&added[2].1).expect("the last header is the signature");
    (ChunkMode::of(&verified.payload).expect("a streamed payload"), chunks)
}

fn check(mode: &ChunkMode, length: u64, announced: &[u8], body: &[u8], cuts: &[usize]) -> Decoded {
    let growth = GROWTH_MAX * body.len() + ANY_MAX;
    let whole = bounded(growth, || decode(mode, length, announced, &[body]));
    assert!(whole.0.len() as u64 <= length && whole.0.len() <= body.len());
    let mut pieces = Vec::new();
    let mut rest = body;
    for cut in cuts {
        let (piece, behind) = rest.split_at((*cut).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    assert_eq!(decode(mode, length, announced, &pieces), whole, "cut at {cuts:?}");
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(decode(mode, length, announced, &bytes), whole, "byte by byte");
    if let Ok(trailers) = &whole.1 {
        assert_eq!(whole.0.len() as u64, length);
        let bytes: usize = trailers.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(trailers.len() <= TRAILERS_MAX && bytes <= TRAILER_BYTES_MAX);
        let names: Vec<&[u8]> = announced.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
        assert!(trailers.iter().all(|(name, _)| names.contains(&&name[..])));
    }
    whole
}

/// A body that was signed chunk by chunk, and then changed in one byte.
fn encoded(mut input: Input<'_>, cuts: &[usize]) {
    let with_trailer = input.u8() & 1 == 1;
    let payload = match with_trailer {
        true => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        false => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    };
    let (mode, mut signer) = signed(payload);
    let (changed, how) = (usize::from(input.u16()), input.u8());
    let size = usize::from(input.u8()).max(CHUNK_MIN);
    let content = input.take(SIGNED_MAX);
    let mut body = Vec::new();
    for chunk in content.chunks(size).chain([&b""[..]]) {
        body.extend_from_slice(&signer.header(chunk));
        body.extend_from_slice(chunk);
        if !(chunk.is_empty() && with_trailer) {
            body.extend_from_slice(b"\r\n");
        }
    }
    let mut announced = ANNOUNCED[0];
    if with_trailer {
        announced = ANNOUNCED[1];
        body.extend_from_slice(&signer.trailers(&[("x-amz-checksum-crc32", "AAAAAA==")]));
    }
    let length = content.len() as u64;
    let (out, end) = check(&mode, length, announced, &body, cuts);
    let trailers = end.expect("it was just signed");
    assert_eq!((&out[..], trailers.len()), (content, usize::from(with_trailer)));

    let at = changed % body.len();
    body[at] ^= how;
    let (out, end) = check(&mode, length, announced, &body, cuts);
    // The digits of a size and the name of a trailer may be of either case.
    assert!(end.is_err() || (&out[..], end) == (content, Ok(trailers)), "a changed body was believed");
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (how, announced) = (input.u8() % 4, ANNOUNCED[usize::from(input.u8()) % ANNOUNCED.len()]);
    let cuts = [input.u8(), input.u8(), input.u8()].map(usize::from);
    let length = u64::from(input.u16());
    match how {
        0 => drop(check(&ChunkMode::Unsigned, length, announced, input.rest(), &cuts)),
        1 => {
            let (mode, _) = signed("STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
            drop(check(&mode, length, announced, input.rest(), &cuts));
        }
        2 => {
            let (mode, _) = signed("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER");
            drop(check(&mode, length, announced, input.rest(), &cuts));
        }
        _ => encoded(input, &cuts),
    }
});
