//! Configuration documents of buckets, in the model and in its text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use orcas_decide::Refusal;
use orcas_fs_testing::SimRng;
use orcas_record::{BucketId, DocumentKind};

use super::{Bucket, Op, OperationEffect, done};

/// Those that were written; an empty one was removed.
pub type Documents = BTreeMap<DocumentKind, Bytes>;

pub fn random(rng: &mut SimRng, bucket: BucketId) -> Op {
    let kind = [DocumentKind::Cors, DocumentKind::Tagging, DocumentKind::Lifecycle][rng.below(3) as usize];
    // Few, so that some are written again as they are.
    let document = match rng.below(4) {
        0 => Bytes::new(),
        n => format!("<A>{n}</A>").into(),
    };
    Op::PutDocument { bucket, kind, document }
}

pub fn put(bucket: &mut Bucket, kind: DocumentKind, document: &Bytes) -> Result<OperationEffect, Refusal> {
    let former = bucket.documents.insert(kind, document.clone());
    done(former.as_ref() != Some(document), None)
}

pub fn lines<'a>(out: &mut String, documents: impl Iterator<Item = (DocumentKind, &'a [u8])>) {
    for (kind, document) in documents {
        writeln!(out, "  document {kind:?} {}", String::from_utf8_lossy(document)).unwrap();
    }
}
