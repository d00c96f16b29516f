//! The fixed values of labels, to which alerts and dashboards may refer. A test compares the two.

use super::families as of;
use super::page::{DELIVERY_RESULTS, OTHER_BUCKETS, SENDERS, SPAN_RESULTS};
use super::requests::{RESULTS, operation_names};
use orcas_engine::Condition;
use orcas_metrics::Family;
use orcas_s3::ErrorCode;

/// A metric, one of its labels, and every value that this label can have; for buckets, those that are no name.
pub fn of_labels() -> Vec<(&'static Family, &'static str, Vec<&'static str>)> {
    let by_operation = [&of::REQUESTS, &of::REQUEST_TIME, &of::FIRST_BYTE_TIME, &of::RECEIVED, &of::SENT];
    let codes = || ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    let mut all: Vec<(&Family, _, Vec<_>)> = vec![
        (&of::REQUESTS, "result", RESULTS.to_vec()),
        (&of::ERRORS, "code", codes()),
        (&of::STATE, "state", Condition::NAMES.to_vec()),
        (&of::TRACE_SPANS, "result", SPAN_RESULTS.to_vec()),
        (&of::TRACES_DECLINED, "sender", SENDERS.to_vec()),
        (&of::DELIVERIES, "result", DELIVERY_RESULTS.to_vec()),
        (&of::BUCKET_OBJECTS, "bucket", vec![OTHER_BUCKETS]),
        (&of::BUCKET_BYTES, "bucket", vec![OTHER_BUCKETS]),
    ];
    all.extend(by_operation.map(|family| (family, "operation", operation_names().collect())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_their_metrics_and_values_occur_once() {
        for (family, label, mut values) in of_labels() {
            assert!(family.labels.contains(&label), "{} {label}", family.name);
            let count = values.len();
            values.sort_unstable();
            values.dedup();
            assert_eq!(values.len(), count, "{} {label}", family.name);
        }
    }
}
