//! Many uploads at a time, each with pieces and an end of its own.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use orcas_requests::store_body::UploadStream;

/// How an upload ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Whole,
    /// The declared digest is that of other content.
    Wrong,
    /// The body is shorter than announced.
    Short,
    Aborted,
}

#[derive(Clone, Debug)]
struct Plan {
    length: usize,
    pieces: Vec<usize>,
    end: End,
    /// Whether it begins as others do, so that its digests may be known.
    common: bool,
    /// Bytes of each frame of aws-chunked that it comes in.
    framed: Option<usize>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let ends =
        prop_oneof![4 => Just(End::Whole), 1 => Just(End::Wrong), 1 => Just(End::Short), 1 => Just(End::Aborted)];
    let pieces = proptest::collection::vec(1..300_000usize, 1..5);
    let frames = prop_oneof![2 => Just(None), 1 => Just(Some(64 * 1024)), 1 => (8192..20_000usize).prop_map(Some)];
    (70_000..2_500_000usize, pieces, ends, any::<bool>(), frames)
        .prop_map(|(length, pieces, end, common, framed)| Plan { length, pieces, end, common, framed })
}

/// An upload as the event loop drives it; its number is its slot.
struct Upload {
    plan: Plan,
    content: Vec<u8>,
    wire: Vec<u8>,
    sent: usize,
    /// The stream; `None` once it is finished or aborted.
    stream: Option<UploadStream>,
    request: Arc<dyn Request>,
    turns: usize,
}

impl Upload {
    fn begin(fixture: &Fixture, number: usize, plan: Plan) -> Self {
        let mut content = noise(plan.length);
        if !plan.common {
            content.iter_mut().step_by(1000).for_each(|byte| *byte = byte.wrapping_add(number as u8 + 1));
        }
        let declared = if plan.end == End::Wrong { b"others' content" } else { &content[..] };
        let md5 = base64_encode(&Md5Hasher::digest(declared));
        let wire = plan.framed.map_or_else(|| content.clone(), |frame| framed(&content, frame));
        let length = content.len().to_string();
        let payload = if plan.framed.is_some() { "STREAMING-UNSIGNED-PAYLOAD-TRAILER" } else { "UNSIGNED-PAYLOAD" };
        let mut extra = vec![("x-amz-content-sha256", payload), ("content-md5", &*md5)];
        if plan.framed.is_some() {
            extra.push(("x-amz-decoded-content-length", &length));
        }
        let target = format!("/bucket/{number}");
        let request = fixture.accept("PUT", &target, &extra, &wire).map_err(|answer| code(&answer)).unwrap();
        let stream = request.open_body("127.0.0.1");
        assert!(stream.is_some());
        Self { plan, content, wire, sent: 0, stream, request, turns: 0 }
    }

    /// Sends the next piece, or ends.
    fn step(&mut self, slot: u32) -> Flow {
        let Some(stream) = &self.stream else { return Flow::Stop };
        let end = match self.plan.end {
            End::Whole | End::Wrong => self.wire.len(),
            End::Short => self.wire.len() - 1,
            End::Aborted => self.wire.len() / 2,
        };
        if self.sent < end {
            let responder = Arc::clone(self.request.responder());
            match stream.admit(Box::new(move || responder.complete(slot, Completion::Resume))) {
                Flow::More => {}
                other => return other,
            }
            let length = self.plan.pieces[self.turns % self.plan.pieces.len()].min(end - self.sent);
            stream.push(&self.wire[self.sent..self.sent + length]);
            self.turns += 1;
            self.sent += length;
            return Flow::More;
        }
        if self.plan.end != End::Aborted {
            self.request.body_read();
            stream.finish(Reply::new(self.request.clone(), slot));
        }
        self.stream = None;
        Flow::Stop
    }

    fn expected(&self) -> Option<&'static str> {
        match self.plan.end {
            End::Whole => Some(""),
            End::Wrong => Some("BadDigest"),
            End::Short => Some("IncompleteBody"),
            End::Aborted => None,
        }
    }
}

/// As chunks of so many bytes, without signatures and trailers.
fn framed(content: &[u8], frame: usize) -> Vec<u8> {
    let mut wire = Vec::new();
    for chunk in content.chunks(frame) {
        wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}

/// Drives all uploads in turn until each has its answer, and returns the answers by number.
fn drive(fixture: &Fixture, uploads: &mut [Upload]) -> HashMap<usize, Response> {
    let expected = uploads.iter().filter(|upload| upload.plan.end != End::Aborted).count();
    let mut answers = HashMap::new();
    let mut waiting = vec![false; uploads.len()];
    let deadline = Instant::now() + Duration::from_secs(60);
    while answers.len() < expected || uploads.iter().any(|upload| upload.stream.is_some()) {
        assert!(Instant::now() < deadline, "an upload waits for ever");
        for (number, upload) in uploads.iter_mut().enumerate() {
            if !waiting[number] && upload.stream.is_some() {
                waiting[number] = upload.step(number as u32) == Flow::Wait;
            }
        }
        for (slot, completion) in fixture.arrived.take() {
            let number = slot as usize;
            let answer = match completion {
                Completion::Resume => {
                    waiting[number] = false;
                    continue;
                }
                Completion::Committed(request, result) => request.committed(result),
                Completion::Answered(answer) => answer,
                Completion::Piece(_) => panic!("nobody downloads"),
            };
            assert!(answers.insert(number, answer).is_none(), "{number} is answered twice");
        }
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn each_upload_gets_the_digest_of_its_own_bytes(plans in proptest::collection::vec(plan(), 1..20)) {
        let fixture = Fixture::new();
        fixture.call("PUT", "/bucket", &[], b"");
        let mut uploads: Vec<_> =
            plans.into_iter().enumerate().map(|(number, plan)| Upload::begin(&fixture, number, plan)).collect();
        let answers = drive(&fixture, &mut uploads);
        for (number, upload) in uploads.iter().enumerate() {
            let got = fixture.call("GET", &format!("/bucket/{number}"), &[], b"");
            let told = answers.get(&number).map(code);
            prop_assert_eq!(told.as_deref(), upload.expected(), "{}: {:?}", number, &upload.plan);
            if upload.plan.end != End::Whole {
                prop_assert_eq!(code(&got), "NoSuchKey");
                continue;
            }
            let etag = format!("\"{}\"", Etag::simple(Md5Hasher::digest(&upload.content)));
            prop_assert_eq!(header(&answers[&number], "etag"), Some(etag.as_str()));
            prop_assert_eq!(header(&got, "etag"), Some(etag.as_str()));
            prop_assert!(fixture.content(got).unwrap() == upload.content, "{}: other bytes are stored", number);
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while fixture.gateway.services.bodies.budget.try_take(8 << 20).is_none() {
            prop_assert!(Instant::now() < deadline, "the budget did not come back");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
