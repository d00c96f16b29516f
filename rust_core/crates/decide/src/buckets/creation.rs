//! Buckets: a name is free or taken, and what their documents may become.

use std::sync::Arc;

use bytes::Bytes;

use crate::decision::{Context, Decision};
use crate::limits::{BUCKETS_MAX, DOCUMENTS_LEN_MAX};
use crate::outcome::{Failure, Outcome, Refusal};
use crate::view::View;
use orcas_base::error::Error;
use orcas_record::{Bucket, BucketId, BucketRole, BucketSettings, DocumentKind, ObjectLock, Record, Versioning};

pub(crate) struct NewBucket {
    pub name: Bytes,
    pub owner: Bytes,
    pub location: Bytes,
    pub settings: BucketSettings,
    pub object_lock: bool,
    pub documents: Vec<(DocumentKind, Bytes)>,
}

pub(crate) fn create(view: &dyn View, context: &Context, new: NewBucket) -> Result<Decision, Failure> {
    check_name_is_free(view, &new.name, &new.owner)?;
    let added: usize = new.documents.iter().map(|(_, document)| document.len()).sum();
    if view.documents_len() + added > DOCUMENTS_LEN_MAX {
        return Err(Refusal::TooManyDocuments.into());
    }
    let bucket = Bucket {
        // Sequences are never reused, so neither is the id of a bucket.
        id: BucketId(context.next_sequence),
        name: new.name,
        owner: new.owner,
        created_ms: context.now_ms,
        location: new.location,
        versioning: if new.object_lock { Versioning::Enabled } else { Versioning::Unversioned },
        object_lock: new.object_lock.then(ObjectLock::default),
        settings: new.settings,
        role: BucketRole::Bucket,
        layers: Vec::new(),
    };
    let outcome = Outcome::Bucket(Arc::new(bucket.clone()));
    let id = bucket.id;
    let documents = new.documents.into_iter();
    let documents = documents.map(|(kind, document)| Record::PutDocument { bucket: id, kind, document });
    Ok(Decision { outcome, records: [Record::CreateBucket(bucket)].into_iter().chain(documents).collect() })
}

/// Whether `owner` may create a bucket of this name.
pub(crate) fn check_name_is_free(view: &dyn View, name: &[u8], owner: &Bytes) -> Result<(), Refusal> {
    if let Some(existing) = view.bucket_by_name(name) {
        let mine = existing.owner == *owner;
        return Err(if mine { Refusal::BucketAlreadyOwnedByYou } else { Refusal::BucketAlreadyExists });
    }
    if view.bucket_count() >= BUCKETS_MAX { Err(Refusal::TooManyBuckets) } else { Ok(()) }
}

/// Writes nothing if the document is that already. The first removal is written even if there is no document: that of
/// a bucket without one may have a meaning of its own.
pub(crate) fn put_document(
    view: &dyn View,
    bucket: BucketId,
    kind: DocumentKind,
    document: Bytes,
) -> Result<Decision, Failure> {
    let live = live_bucket(view, bucket)?;
    if kind == DocumentKind::Replication && !document.is_empty() && live.versioning != Versioning::Enabled {
        let reason = "Versioning must be 'Enabled' on the bucket to apply a replication configuration";
        return Err(Refusal::InvalidRequest { reason }.into());
    }
    let current = view.document(bucket, kind);
    if current.as_ref() == Some(&document) {
        return Ok(Decision { outcome: Outcome::Done, records: Vec::new() });
    }
    let others = view.documents_len() - current.map_or(0, |current| current.len());
    if others + document.len() > DOCUMENTS_LEN_MAX {
        return Err(Refusal::TooManyDocuments.into());
    }
    Ok(Decision { outcome: Outcome::Done, records: vec![Record::PutDocument { bucket, kind, document }] })
}

/// The bucket an intent was authorised for, unless it has gone meanwhile.
pub(crate) fn live_bucket(view: &dyn View, id: BucketId) -> Result<Arc<Bucket>, Failure> {
    let bucket = view.bucket(id).filter(|bucket| bucket.role == BucketRole::Bucket);
    let bucket = bucket.ok_or(Failure::Refused(Refusal::NoSuchBucket))?;
    // What were written to a layer that damage has taken would be lost with the next rebuild of the index.
    if !bucket.layers.is_empty() && bucket.written().iter().any(|layer| view.bucket(*layer).is_none()) {
        return Err(Error::Record { reason: "a layer that takes the writes of a bucket is missing" }.into());
    }
    Ok(bucket)
}
