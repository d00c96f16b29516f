//! Multipart uploads: which parts make an object, and the rules for their checksums.

use super::*;

pub struct Multipart {
    pub state: TestView,
    pub upload: UploadId,
    pub named: Vec<CompletePart>,
}

impl Multipart {
    pub fn begin(checksum: Option<(ChecksumAlgorithm, ChecksumType)>) -> Self {
        let mut state = TestView::with_bucket();
        let headers = ObjectHeaders::default();
        let create = Intent::CreateUpload {
            bucket: BUCKET,
            key: "k".into(),
            headers: Box::new(headers),
            attributes: Default::default(),
            checksum,
        };
        let Ok(Outcome::Upload(upload)) = state.run(create) else { panic!("no upload") };
        Self { state, upload, named: Vec::new() }
    }

    pub fn part(&mut self, number: u16, size: u64, checksum: Option<Checksum>) -> Result<Outcome, Failure> {
        self.part_with(number, size, checksum, None)
    }

    fn part_with(
        &mut self,
        number: u16,
        size: u64,
        checksum: Option<Checksum>,
        computed: Option<Checksum>,
    ) -> Result<Outcome, Failure> {
        let Intent::PutObject(put) = put("k", size) else { unreachable!("put makes a PutObject") };
        let (upload, body, md5) = (self.upload, put.body, [number as u8; 16]);
        let (bucket, key) = (BUCKET, "k".into());
        let part = PutPart { bucket, key, upload, number, size, md5, checksum, computed, body };
        let answer = self.state.run(Intent::PutPart(Box::new(part)));
        self.named.push(CompletePart { number, md5, checksum: None });
        answer
    }

    pub fn complete(&mut self, parts: Vec<CompletePart>, checksum: Option<ObjectChecksum>) -> Result<Outcome, Failure> {
        let complete = Complete { checksum, ..self.request(parts) };
        self.state.run(Intent::CompleteUpload(Box::new(complete)))
    }

    fn request(&self, parts: Vec<CompletePart>) -> Complete {
        Complete {
            bucket: BUCKET,
            key: "k".into(),
            upload: self.upload,
            parts,
            checksum_type: None,
            checksum: None,
            size: None,
            modified_ms: None,
            precondition: Precondition::default(),
        }
    }

    /// Two parts whose checksums the client declares.
    fn of_two(algorithm: ChecksumAlgorithm, kind: ChecksumType) -> (Self, Vec<CompletePart>) {
        let mut multipart = Self::begin(Some((algorithm, kind)));
        for (number, body) in (1..).zip(bodies()) {
            let digest = Hasher::digest(algorithm, &body);
            multipart.part(number, body.len() as u64, Some(digest)).unwrap();
        }
        let with = |(part, body): (&CompletePart, Vec<u8>)| CompletePart {
            checksum: Some(Hasher::digest(algorithm, &body)),
            ..part.clone()
        };
        let named = multipart.named.iter().zip(bodies()).map(with).collect();
        (multipart, named)
    }
}

fn bodies() -> [Vec<u8>; 2] {
    [vec![1u8; PART_SIZE_MIN as usize], vec![2u8; 10]]
}

fn of_algorithm(algorithm: ChecksumAlgorithm) -> [Checksum; 2] {
    bodies().each_ref().map(|body| Hasher::digest(algorithm, body))
}

fn checksum_refusal(result: Result<Outcome, Failure>) -> ChecksumRefusal {
    match refused(result) {
        Refusal::Checksum(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn completion_names_existing_parts_in_order_and_of_size() {
    let mut multipart = Multipart::begin(None);
    for (number, size) in [(1, PART_SIZE_MIN), (2, 5), (9, 5)] {
        multipart.part(number, size, None).unwrap();
    }
    let [one, two, nine] = [0, 1, 2].map(|at| multipart.named[at].clone());
    let mut refusal =
        |parts: &[&CompletePart]| refused(multipart.complete(parts.iter().copied().cloned().collect(), None));
    assert_eq!(refusal(&[&two, &one]), Refusal::InvalidPartOrder);
    assert_eq!(refusal(&[&one, &one]), Refusal::InvalidPartOrder);
    assert_eq!(refusal(&[&one, &two, &nine]), Refusal::EntityTooSmall { number: 2, size: 5 });
    let other = CompletePart { md5: [0; 16], ..one.clone() };
    assert_eq!(refusal(&[&other]), Refusal::InvalidPart { number: 1 });
    assert!(matches!(refusal(&[]), Refusal::InvalidRequest { .. }));
    let Ok(Outcome::Completed(done, _)) = multipart.complete(vec![one.clone(), nine.clone()], None) else {
        panic!("not completed");
    };
    assert_eq!(done.etag, Etag::multipart([&[1; 16], &[9; 16]]).unwrap());
    assert_eq!(multipart.state.version("k").size, PART_SIZE_MIN + 5);
    // The same request again has the same answer; another one finds no upload.
    assert!(
        matches!(multipart.complete(vec![one.clone(), nine], None), Ok(Outcome::Completed(again, _)) if again == done)
    );
    assert_eq!(refused(multipart.complete(vec![one], None)), Refusal::NoSuchUpload);
}

/// What S3 says about the part of an upload with CRC32C as its algorithm.
fn part_refusal(kind: ChecksumType, declared: Option<Checksum>) -> ChecksumRefusal {
    let computed = Hasher::digest(ChecksumAlgorithm::Crc32c, b"");
    let mut multipart = Multipart::begin(Some((ChecksumAlgorithm::Crc32c, kind)));
    checksum_refusal(multipart.part_with(1, 5, declared, Some(computed)))
}

#[test]
fn parts_have_checksums_in_the_algorithm_of_their_upload() {
    let expected = ChecksumAlgorithm::Crc32c;
    let other = Hasher::digest(ChecksumAlgorithm::Sha1, b"");
    for kind in [ChecksumType::FullObject, ChecksumType::Composite] {
        let refusal = part_refusal(kind, Some(other));
        assert_eq!(refusal, ChecksumRefusal::Algorithm { expected, actual: Some(ChecksumAlgorithm::Sha1) });
    }
    let refusal = part_refusal(ChecksumType::Composite, None);
    assert_eq!(refusal, ChecksumRefusal::Algorithm { expected, actual: None });
    // Of a full object, the server computes what the client leaves out.
    let computed = Hasher::digest(expected, b"");
    let mut multipart = Multipart::begin(Some((expected, ChecksumType::FullObject)));
    let answer = multipart.part_with(1, 5, None, Some(computed)).unwrap();
    assert!(matches!(answer, Outcome::Part(put) if put.checksum == Some(ObjectChecksum::full(computed))));
}

#[test]
fn checksums_of_parts_give_the_checksum_of_the_object() {
    for algorithm in ChecksumAlgorithm::ALL {
        for kind in
            [ChecksumType::FullObject, ChecksumType::Composite].into_iter().filter(|kind| algorithm.allows(*kind))
        {
            let (mut multipart, named) = Multipart::of_two(algorithm, kind);
            let whole = match kind {
                ChecksumType::FullObject => ObjectChecksum::full(Hasher::digest(algorithm, &bodies().concat())),
                ChecksumType::Composite => ObjectChecksum::composite(algorithm, &of_algorithm(algorithm)).unwrap(),
            };
            let wrong = ObjectChecksum::full(Hasher::digest(algorithm, b"something else"));
            let refusal = checksum_refusal(multipart.complete(named.clone(), Some(wrong)));
            assert_eq!(refusal, ChecksumRefusal::Object { algorithm });
            let miscounted = ObjectChecksum { parts: 3, ..whole };
            let refusal = checksum_refusal(multipart.complete(named.clone(), Some(miscounted)));
            assert_eq!(refusal, ChecksumRefusal::Object { algorithm });
            // A composite value may be sent without the number of parts.
            multipart.complete(named, Some(ObjectChecksum::full(whole.checksum))).unwrap();
            assert_eq!(multipart.state.version("k").checksum, Some(whole));
        }
    }
}

#[test]
fn completion_compares_what_the_client_states_of_parts() {
    let algorithm = ChecksumAlgorithm::Crc32;
    for kind in [ChecksumType::FullObject, ChecksumType::Composite] {
        let (mut multipart, named) = Multipart::of_two(algorithm, kind);
        let with = |checksum| vec![named[0].clone(), CompletePart { checksum, ..named[1].clone() }];
        let sha1 = Hasher::digest(ChecksumAlgorithm::Sha1, b"");
        let refusal = checksum_refusal(multipart.complete(with(Some(sha1)), None));
        assert_eq!(refusal, ChecksumRefusal::Part { algorithm: ChecksumAlgorithm::Sha1, number: 2 });
        let wrong = with(Some(Hasher::digest(algorithm, b"")));
        assert_eq!(refused(multipart.complete(wrong.clone(), None)), Refusal::InvalidPart { number: 2 });
        let parts = of_algorithm(algorithm);
        let expected = match kind {
            ChecksumType::FullObject => ObjectChecksum::full(Hasher::digest(algorithm, &bodies().concat())),
            ChecksumType::Composite => ObjectChecksum::composite(algorithm, &parts).unwrap(),
        };
        let both = refused(multipart.complete(wrong, Some(expected)));
        match kind {
            ChecksumType::FullObject => {
                assert_eq!(both, Refusal::InvalidPart { number: 2 });
                multipart.complete(with(None), None).unwrap();
            }
            ChecksumType::Composite => {
                assert_eq!(both, ChecksumRefusal::Object { algorithm }.into());
                let missing = checksum_refusal(multipart.complete(with(None), None));
                assert_eq!(missing, ChecksumRefusal::Missing { algorithm, number: 2 });
                let second = vec![named[1].clone()];
                assert_eq!(refused(multipart.complete(second, None)), Refusal::InvalidPartOrder);
            }
        }
    }
}

#[test]
fn without_an_algorithm_the_parts_give_a_crc64nvme() {
    let mut multipart = Multipart::begin(None);
    let default = of_algorithm(ChecksumAlgorithm::DEFAULT);
    let [crc32, _] = of_algorithm(ChecksumAlgorithm::Crc32);
    let [first, second] = bodies().map(|body| body.len() as u64);
    let answer = multipart.part_with(1, first, Some(crc32), Some(default[0])).unwrap();
    assert!(matches!(answer, Outcome::Part(put) if put.checksum == Some(ObjectChecksum::full(crc32))));
    multipart.part_with(2, second, None, Some(default[1])).unwrap();
    let named = multipart.named.clone();
    let stated = vec![CompletePart { checksum: Some(crc32), ..named[0].clone() }, named[1].clone()];
    assert_eq!(refused(multipart.complete(stated, None)), Refusal::InvalidPart { number: 1 });
    let request = Complete { checksum_type: Some(ChecksumType::FullObject), ..multipart.request(named.clone()) };
    let refusal = checksum_refusal(multipart.state.run(Intent::CompleteUpload(Box::new(request))));
    assert_eq!(refusal, ChecksumRefusal::Type { of_upload: None });
    let wrong = ObjectChecksum::full(default[0]);
    let refusal = checksum_refusal(multipart.complete(named.clone(), Some(wrong)));
    assert_eq!(refusal, ChecksumRefusal::Object { algorithm: ChecksumAlgorithm::DEFAULT });
    // A value in another algorithm is not compared.
    multipart.complete(named, Some(ObjectChecksum::full(crc32))).unwrap();
    let whole = ObjectChecksum::full(Hasher::digest(ChecksumAlgorithm::DEFAULT, &bodies().concat()));
    assert_eq!(multipart.state.version("k").checksum, Some(whole));
}

#[test]
fn completion_compares_type_and_size() {
    let (mut multipart, named) = Multipart::of_two(ChecksumAlgorithm::Crc32, ChecksumType::Composite);
    let computed = PART_SIZE_MIN + 10;
    let other = Complete { checksum_type: Some(ChecksumType::FullObject), ..multipart.request(named.clone()) };
    let refusal = checksum_refusal(multipart.state.run(Intent::CompleteUpload(Box::new(other))));
    assert_eq!(refusal, ChecksumRefusal::Type { of_upload: Some(ChecksumType::Composite) });
    let other = Complete { size: Some(5), ..multipart.request(named.clone()) };
    let refusal = refused(multipart.state.run(Intent::CompleteUpload(Box::new(other))));
    assert_eq!(refusal, Refusal::ObjectSize { expected: 5, computed });
    let checksum_type = Some(ChecksumType::Composite);
    let right = Complete { checksum_type, size: Some(computed), ..multipart.request(named) };
    multipart.state.run(Intent::CompleteUpload(Box::new(right))).unwrap();
}

/// Completes an upload of `parts` parts with this manifest each.
fn put_together(parts: u16, manifest: &[Extent]) -> Result<Vec<Extent>, Failure> {
    let mut multipart = Multipart::begin(None);
    let upload = multipart.upload;
    for number in 1..=parts {
        let (md5, manifest) = ([number as u8; 16], manifest.to_vec());
        let part = Part { upload, number, size: PART_SIZE_MIN, md5, modified_ms: 0, checksum: None, manifest };
        multipart.state.apply(Record::PutPart(part));
        multipart.named.push(CompletePart { number, md5, checksum: None });
    }
    multipart.complete(multipart.named.clone(), None)?;
    Ok(multipart.state.version("k").manifest)
}

#[test]
fn parts_of_other_objects_fit_into_a_record_or_are_refused() {
    let blob = |blob| Extent::Blob { blob, start: 0, length: 300 };
    let inline = Extent::Inline(Bytes::from_static(&[7; 200]));
    let length = |extents: &[Extent]| extents.iter().map(Extent::length).sum::<u64>();
    // What stands in the way of one long segment stays between two.
    let part: Vec<Extent> = (0..50).map(blob).chain([inline.clone()]).collect();
    let manifest = put_together(10, &part).unwrap();
    assert_eq!((manifest.len(), length(&manifest)), (20, 10 * length(&part)));
    let segments = manifest.iter().filter(|extent| matches!(extent, Extent::Segment { .. })).count();
    assert_eq!(segments, 10);
    // A single blob is no segment.
    let manifest = put_together(40, &[blob(1), inline.clone()]).unwrap();
    assert!(manifest.iter().all(|extent| !matches!(extent, Extent::Segment { .. })));
    assert_eq!(manifest.len(), 80);
    let too_large: Vec<Extent> = (0..100).flat_map(|at| [blob(at), inline.clone()]).collect();
    assert!(matches!(put_together(500, &too_large), Err(Failure::Refused(Refusal::InvalidRequest { .. }))));
    let too_many: Vec<Extent> = (0..1_000).map(blob).collect();
    assert!(matches!(put_together(1_100, &too_many), Err(Failure::Refused(Refusal::InvalidRequest { .. }))));
    assert_eq!(put_together(1_000, &too_many).unwrap().len(), 1_000_000usize.div_ceil(16_384));
}
