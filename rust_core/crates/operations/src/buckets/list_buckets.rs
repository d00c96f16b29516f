//! ListBuckets: from memory, on the event loop.

use std::sync::Arc;

use crate::resources::pages::{name_of, owner, time};
use orcas_admission::request_context::RequestContext;
use orcas_bodies::problem::Problem;
use orcas_requests::request::{Operation, Progress, TypedRequest};
use orcas_responses::response::HeaderBlock;
use orcas_s3::query::ListBucketsQuery;
use orcas_s3::xml::lists::BucketList;

pub struct ListBuckets {
    query: ListBucketsQuery,
    owner: String,
}

impl Operation for ListBuckets {
    fn parse(context: &RequestContext<'_>) -> Result<Self, Problem> {
        Ok(Self { query: ListBucketsQuery::parse(&context.query)?, owner: context.requester.owner.clone() })
    }

    fn begin(request: &Arc<TypedRequest<Self>>) -> Result<Progress, Problem> {
        let (services, Self { query, owner: caller }) = (&request.services, &request.input);
        let after = query.continuation.as_ref().map(|token| token.after.as_slice());
        let (identities, options) = (services.access.identities(), &services.access.options);
        let owner = owner(caller, &identities);
        let mut document = BucketList::begin(query, &owner);
        let all = services.engine.buckets();
        let mut matching = all.iter().filter(|bucket| {
            bucket.owner == caller.as_bytes()
                && bucket.name.starts_with(&query.prefix)
                && after.is_none_or(|after| bucket.name.as_ref() > after)
                && query.region.as_ref().is_none_or(|region| options.region_of(bucket).as_bytes() == region)
        });
        let mut last = None;
        for bucket in matching.by_ref().take(query.max.map_or(usize::MAX, usize::from)) {
            document.entry(name_of(bucket), time(bucket.created_ms), options.region_of(bucket));
            last = Some(bucket);
        }
        let next = last.filter(|_| matching.next().is_some()).map(|bucket| name_of(bucket));
        Ok(request.envelope.document(200, HeaderBlock::new(), document.end(next)).into())
    }
}
