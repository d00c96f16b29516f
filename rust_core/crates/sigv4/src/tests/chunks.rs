//! The body decoder against every way in which a body can lie about itself.

use proptest::prelude::*;

use super::super::{ChunkMode, ChunkedDecoder, SignatureError, Trailers};
use super::{MAY_24_2013, Request, signer};

const CHECKSUM: (&str, &str) = ("x-amz-checksum-crc32", "DUoRhQ==");

/// A request and the pieces of its body: header line, data and CR LF of each chunk, then the end.
struct Upload {
    mode: ChunkMode,
    chunks: Vec<Vec<u8>>,
    end: Vec<u8>,
    length: u64,
    announced: &'static [u8],
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Signed,
    SignedTrailer,
    Unsigned,
}

impl Upload {
    fn new(kind: Kind, parts: &[&[u8]]) -> Self {
        let payload = match kind {
            Kind::Signed => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            Kind::SignedTrailer => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            Kind::Unsigned => "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        };
        let request = Request::new("PUT", "/b/k", &[("host", "h")]).signed(payload, MAY_24_2013);
        let mode = ChunkMode::of(&request.authenticate().expect("valid").payload).expect("chunked");
        let mut signatures = signer(MAY_24_2013).chunks(&request.header("authorization")).expect("a signature");
        let mut chunks = Vec::new();
        for data in parts.iter().copied().chain([&b""[..]]) {
            let mut chunk = match kind {
                Kind::Unsigned => format!("{:x}\r\n", data.len()).into_bytes(),
                Kind::Signed | Kind::SignedTrailer => signatures.header(data),
            };
            chunk.extend_from_slice(data);
            if !data.is_empty() {
                chunk.extend_from_slice(b"\r\n");
            }
            chunks.push(chunk);
        }
        let (end, announced) = match kind {
            Kind::Signed => (b"\r\n".to_vec(), &b""[..]),
            Kind::SignedTrailer => (signatures.trailers(&[CHECKSUM]), CHECKSUM.0.as_bytes()),
            Kind::Unsigned => (format!("{}:{}\r\n\r\n", CHECKSUM.0, CHECKSUM.1).into(), CHECKSUM.0.as_bytes()),
        };
        let length = parts.iter().map(|data| data.len() as u64).sum();
        Self { mode, chunks, end, length, announced }
    }

    fn body(&self) -> Vec<u8> {
        [self.chunks.concat(), self.end.clone()].concat()
    }

    /// Decodes `body` in pieces of `step` bytes.
    fn decode(&self, body: &[u8], step: usize) -> (Vec<u8>, Result<Trailers, SignatureError>) {
        let mut decoder = ChunkedDecoder::new(self.mode.clone(), self.length, self.announced).with_small_chunks();
        let mut decoded = Vec::new();
        for piece in body.chunks(step) {
            if let Err(error) = decoder.push(piece, &mut |data| decoded.extend_from_slice(data)) {
                assert_eq!(decoder.push(b"x", &mut |_| panic!("data after a failure")), Err(error.clone()));
                assert_eq!(decoder.finish(), Err(error.clone()));
                return (decoded, Err(error));
            }
        }
        (decoded, decoder.finish())
    }

    fn refuse(&self, body: &[u8]) -> SignatureError {
        let whole = self.decode(body, usize::MAX);
        assert_eq!(self.decode(body, 1), whole, "the result depends on how the input is cut");
        whole.1.expect_err("a lie")
    }
}

const KINDS: [Kind; 3] = [Kind::Signed, Kind::SignedTrailer, Kind::Unsigned];
const PARTS: [&[u8]; 3] = [b"hello ", b"brave ", b"world!"];

#[test]
fn whole_bodies() {
    for kind in KINDS {
        for parts in [&PARTS[..], &[], &[b"\r\n0\r\n\r\n"]] {
            let upload = Upload::new(kind, parts);
            let (decoded, trailers) = upload.decode(&upload.body(), usize::MAX);
            assert_eq!(decoded, parts.concat(), "{kind:?}");
            let expected: Trailers = match kind {
                Kind::Signed => Vec::new(),
                Kind::SignedTrailer | Kind::Unsigned => vec![(CHECKSUM.0.into(), CHECKSUM.1.into())],
            };
            assert_eq!(trailers.expect("complete"), expected, "{kind:?}");
        }
    }
    // Without an announced trailer the unsigned form ends with the empty line.
    let mut decoder = ChunkedDecoder::new(ChunkMode::Unsigned, 2, b"");
    decoder.push(b"2\r\nhi\r\n0\r\n\r\n", &mut |data| assert_eq!(data, b"hi")).expect("well-formed");
    assert_eq!(decoder.finish(), Ok(Vec::new()));
}

/// minio-go ends unsigned trailers with a bare LF, an empty line and one more line end.
#[test]
fn the_trailers_of_minio_go() {
    let upload = Upload::new(Kind::Unsigned, &PARTS);
    let end = format!("{}:{}\n\r\n\r\n", CHECKSUM.0, CHECKSUM.1);
    let body = [upload.chunks.concat(), end.into_bytes()].concat();
    assert_eq!(upload.decode(&body, 1).1.expect("complete").len(), 1);
    assert_eq!(upload.refuse(&[body.clone(), b"\r\n".to_vec()].concat()), SignatureError::MalformedChunk);
    assert_eq!(upload.refuse(&body[..body.len() - 1]), SignatureError::MalformedChunk);
}

#[test]
fn truncation_anywhere_is_refused() {
    for kind in KINDS {
        let upload = Upload::new(kind, &PARTS);
        let body = upload.body();
        for cut in 0..body.len() {
            let (_, result) = upload.decode(&body[..cut], 7);
            assert_eq!(result, Err(SignatureError::MalformedChunk), "{kind:?} cut at {cut}");
        }
    }
}

/// A chain of signatures protects each byte; the unsigned form protects only its framing.
#[test]
fn any_changed_byte_of_a_signed_body_is_refused() {
    for kind in [Kind::Signed, Kind::SignedTrailer] {
        let upload = Upload::new(kind, &PARTS);
        let body = upload.body();
        let trailer_names = body.len() - upload.end.len();
        for at in 0..body.len() {
            for flip in [1, 32, 128] {
                let mut changed = body.clone();
                changed[at] ^= flip;
                // Trailer names and hexadecimal sizes may be written in either case.
                let only_case = changed[at].eq_ignore_ascii_case(&body[at]) && at >= trailer_names;
                let (decoded, result) = upload.decode(&changed, 5);
                assert!(result.is_err() || (only_case && decoded == PARTS.concat()), "{kind:?} byte {at}");
            }
        }
    }
}

#[test]
fn reordered_replayed_and_dropped_chunks_are_refused() {
    for kind in [Kind::Signed, Kind::SignedTrailer] {
        let upload = Upload::new(kind, &PARTS);
        let assembled = |order: &[usize]| {
            let chunks: Vec<u8> = order.iter().flat_map(|&chunk| upload.chunks[chunk].clone()).collect();
            [chunks, upload.end.clone()].concat()
        };
        assert!(upload.decode(&assembled(&[0, 1, 2, 3]), 9).1.is_ok());
        for order in [[1, 0, 2, 3], [0, 2, 1, 3], [0, 0, 2, 3], [0, 1, 1, 3]] {
            assert_eq!(upload.refuse(&assembled(&order)), SignatureError::SignatureDoesNotMatch, "{order:?}");
        }
        assert_eq!(upload.refuse(&assembled(&[0, 1, 3])), SignatureError::IncompleteBody);
        assert!(matches!(upload.refuse(&assembled(&[0, 1, 2])), SignatureError::MalformedChunk));
        assert_eq!(upload.refuse(&assembled(&[0, 1, 2, 2, 3])), SignatureError::IncompleteBody);
        let other = Upload::new(kind, &[b"other "]);
        let foreign = [upload.chunks[..2].concat(), other.chunks[0].clone(), upload.chunks[3].clone()].concat();
        assert_eq!(upload.refuse(&foreign), SignatureError::SignatureDoesNotMatch);
    }
}

#[test]
fn the_declared_length_is_exact() {
    for kind in KINDS {
        let mut upload = Upload::new(kind, &PARTS);
        let body = upload.body();
        upload.length += 1;
        assert_eq!(upload.refuse(&body), SignatureError::IncompleteBody, "{kind:?}");
        upload.length -= 2;
        assert_eq!(upload.refuse(&body), SignatureError::IncompleteBody, "{kind:?}");
    }
    // Refused by its header, before a byte of it is taken.
    let upload = Upload::new(Kind::Unsigned, &PARTS);
    for size in ["13", "ffffffffffffffff", "7fffffffffffffff"] {
        assert_eq!(upload.refuse(format!("{size}\r\n").as_bytes()), SignatureError::IncompleteBody, "{size}");
    }
}

#[test]
fn broken_framing() {
    let unsigned = Upload::new(Kind::Unsigned, &[b"hello"]);
    let long_line = "0".repeat(300);
    for framing in [
        "\r\n",
        "5;x=y\r\nhello\r\n",
        "5 \r\nhello\r\n",
        "+5\r\nhello\r\n",
        "-5\r\nhello\r\n",
        "0x5\r\nhello\r\n",
        "g\r\n",
        "5\nhello\r\n",
        "5\r\rhello\r\n",
        "5\r\nhelloX\r\n",
        "5\r\nhello\n",
        "5\r\nhello\rX",
        "00000000000000005\r\nhello\r\n",
        &long_line,
    ] {
        assert_eq!(unsigned.refuse(framing.as_bytes()), SignatureError::MalformedChunk, "{framing:?}");
    }
    let signed = Upload::new(Kind::Signed, &[b"hello"]);
    assert_eq!(signed.refuse(b"5\r\nhello\r\n"), SignatureError::MalformedChunk, "a signature left out");
    assert_eq!(signed.refuse(b"5;chunk-signatur=00\r\n"), SignatureError::MalformedChunk);
    assert_eq!(signed.refuse(b"5;chunk-signature=00\r\n"), SignatureError::MalformedChunk);
    let foreign = format!("5;chunk-signature={}\r\n", "g".repeat(64));
    assert_eq!(signed.refuse(foreign.as_bytes()), SignatureError::SignatureDoesNotMatch);
    let after = [signed.body(), b"x".to_vec()].concat();
    assert_eq!(signed.refuse(&after), SignatureError::MalformedChunk, "bytes after the end");
}

#[test]
fn broken_trailers() {
    let upload = Upload::new(Kind::Unsigned, &[b"hello"]);
    let ended = |end: &str| [upload.chunks.concat(), end.as_bytes().to_vec()].concat();
    let (name, value) = CHECKSUM;
    let many: String = (0..200).map(|n| format!("x-amz-checksum-{n}:{value}\r\n")).collect();
    let long = format!("{name}:{}", "x".repeat(5000));
    for end in [
        "\r\n",
        "no colon\r\n\r\n",
        ":empty\r\n\r\n",
        &format!("{name}:{value}\r\n{name}:{value}\r\n\r\n"),
        &format!("{name}:{value}\r\nx-amz-meta-evil:1\r\n\r\n"),
        &format!("{name} :{value}\r\n\r\n"),
        &format!(" {name}:{value}\r\n\r\n"),
        &format!("{name}:{value}\rX\r\n\r\n"),
        &format!("{name}:{value}\0\r\n\r\n"),
        &many,
        &long,
    ] {
        assert_eq!(upload.refuse(&ended(end)), SignatureError::MalformedTrailer, "{end:.60}");
    }
    let signed = Upload::new(Kind::SignedTrailer, &[b"hello"]);
    for (end, expected) in [
        ("x-amz-meta-evil:1\r\n".to_owned(), SignatureError::MalformedTrailer),
        (format!("{name}:{value}\r\nx-amz-trailer-signatur:0\r\n"), SignatureError::MalformedChunk),
        (format!("{name}:{value}\rX\r\n"), SignatureError::MalformedChunk),
        (format!("{name}:{value}\r\nx-amz-trailer-signature:00\r\n"), SignatureError::MalformedChunk),
    ] {
        assert_eq!(signed.refuse(&[signed.chunks.concat(), end.clone().into()].concat()), expected, "{end}");
    }
    let unsigned_end = [signed.chunks.concat(), format!("{name}:{value}\r\n\r\n").into()].concat();
    assert_eq!(signed.refuse(&unsigned_end), SignatureError::MalformedChunk, "the signature of the trailers left out");
    let mut exchanged = String::from_utf8(signed.end.clone()).expect("text");
    exchanged = exchanged.replace(value, "AAAAAA==");
    let exchanged = [signed.chunks.concat(), exchanged.into()].concat();
    assert_eq!(signed.refuse(&exchanged), SignatureError::SignatureDoesNotMatch);
}

/// Clients may cut a body into chunks of 8 KiB and more; the last one with content may be smaller.
#[test]
fn small_chunks_come_last() {
    let refused = |sizes: &[usize]| {
        let chunk = |size: &usize| format!("{size:x}\r\n{}\r\n", "x".repeat(*size));
        let body: String = sizes.iter().map(chunk).chain(["0\r\n\r\n".to_owned()]).collect();
        let mut decoder = ChunkedDecoder::new(ChunkMode::Unsigned, sizes.iter().sum::<usize>() as u64, b"");
        decoder.push(body.as_bytes(), &mut |_| {}).and_then(|()| decoder.finish()).err()
    };
    for sizes in [&[][..], &[1], &[8191], &[8192, 8192, 100], &[10_000, 9500, 20]] {
        assert_eq!(refused(sizes), None, "{sizes:?}");
    }
    for (sizes, chunk, size) in [(&[10, 10][..], 2, 10), (&[8192, 8191, 8192], 3, 8191), (&[100, 8192, 1], 2, 100)] {
        assert_eq!(refused(sizes), Some(SignatureError::InvalidChunkSize { chunk, size }), "{sizes:?}");
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(KINDS.to_vec())
}

proptest! {
    /// Valid bodies, damaged bodies and noise: the outcome is the same however the network cuts the input.
    #[test]
    fn the_outcome_does_not_depend_on_the_cuts(
        kind in kinds(),
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..4),
        damage in prop::option::of((0usize..600, any::<u8>())),
        cuts in prop::collection::vec(0usize..600, 0..12),
    ) {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let upload = Upload::new(kind, &parts);
        let mut body = upload.body();
        if let Some((at, byte)) = damage {
            let at = at % body.len();
            body[at] = byte;
        }
        let whole = upload.decode(&body, usize::MAX);
        if damage.is_none() {
            prop_assert_eq!(&whole.0, &parts.concat());
            prop_assert!(whole.1.is_ok());
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (body.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(body.len());
        let mut decoder = ChunkedDecoder::new(upload.mode.clone(), upload.length, upload.announced).with_small_chunks();
        let (mut decoded, mut from, mut failure) = (Vec::new(), 0, None);
        for cut in cuts {
            failure = failure.or(decoder.push(&body[from..cut], &mut |data| decoded.extend_from_slice(data)).err());
            from = cut;
        }
        prop_assert_eq!((decoded, failure.map_or_else(|| decoder.finish(), Err)), whole);
    }

    #[test]
    fn noise_never_panics(kind in kinds(), noise in prop::collection::vec(any::<u8>(), 0..400), length in any::<u64>()) {
        let mut upload = Upload::new(kind, &PARTS);
        upload.length = length;
        prop_assert_eq!(upload.decode(&noise, 3), upload.decode(&noise, usize::MAX));
    }

    #[test]
    fn text_like_a_body_never_panics(kind in kinds(), text in "([0-9a-f]{1,3}(;chunk-signature=[0-9a-f]{60,66})?\r\n[a-z]{0,9}\r\n){0,4}0\r\n(x-amz-[a-z]{1,9}:[a-z]{0,5}\r?\n){0,3}\r\n", length in 0u64..40) {
        let mut upload = Upload::new(kind, &PARTS);
        upload.length = length;
        prop_assert_eq!(upload.decode(text.as_bytes(), 1), upload.decode(text.as_bytes(), usize::MAX));
    }
}
