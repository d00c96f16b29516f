//! Every metric there is: name, kind, unit, labels and meaning. `docs/metrics.md` is made of this table, and every page
//! has all of it.

use orcas_metrics::{Family, Kind};

macro_rules! families {
    ($($family:ident $kind:ident $name:literal $unit:literal [$($label:literal),*] $help:literal;)+) => {
        $(pub static $family: Family = Family {
            name: $name, kind: Kind::$kind, unit: $unit, labels: &[$($label),*], help: $help,
        };)+

        pub static ALL: &[&Family] = &[$(&$family),+];
    };
}

families! {
    BUILD Info "orcas_build" "" ["version"] "The version that runs.";
    REQUESTS Counter "orcas_requests" "" ["operation", "result"]
        "S3 requests that are done, by operation (none: a preflight, or refused before it was known) and result: \
         2xx to 5xx, incomplete if the client left, or broken if the content could not be read to its end.";
    REQUEST_TIME Histogram "orcas_request_duration_seconds" "seconds" ["operation"]
        "From the head of a request to the last byte of its response that was handed to the socket.";
    FIRST_BYTE_TIME Histogram "orcas_request_first_byte_seconds" "seconds" ["operation"]
        "From the head of a request to the first byte of its response.";
    REQUESTS_IN_FLIGHT Gauge "orcas_requests_in_flight" "" []
        "S3 requests whose head has arrived and that are not done.";
    RECEIVED Counter "orcas_request_body_bytes" "bytes" ["operation"] "Bytes of request bodies that were taken in.";
    SENT Counter "orcas_response_body_bytes" "bytes" ["operation"] "Bytes of response bodies that were sent.";
    ERRORS Counter "orcas_errors" "" ["code"] "S3 requests that were answered with an error, by error code.";
    REFUSED_CONNECTIONS Counter "orcas_connection_refusals" "" ["code"]
        "Connections that were ended because of what came before any S3 request, by error code: broken HTTP, \
         slow senders, lack of memory.";
    LOCKOUTS Counter "orcas_lockouts" "" []
        "How often an address was locked out for a while after many wrong signatures (ORCAS_LOCKOUT_FAILURES).";
    ACCESS_DROPPED Counter "orcas_access_log_dropped_lines" "" []
        "Lines that the access log lacks, because it was written too slowly or could not be written.";
    BUCKET_LOGS_DROPPED Counter "orcas_bucket_log_dropped_records" "" []
        "Records of requests that logged buckets lack, because memory was short or they could not be stored.";
    TRACE_SPANS Counter "orcas_trace_spans" "" ["result"]
        "Spans of traced requests that were sent to the receiver of traces, or dropped because it did not take them.";
    TRACES_DECLINED Counter "orcas_traces_declined" "" ["sender"]
        "Requests that were not traced, although their callers asked for it or they were drawn, because in that second \
         enough others of verified senders, or of others, were (ORCAS_TRACES_ASKED_PER_SEC).";
    CONNECTIONS Gauge "orcas_connections" "" [] "Open connections of clients.";
    CERTIFICATE_END Gauge "orcas_tls_certificate_expiry_timestamp_seconds" "seconds" []
        "When the certificate in use expires, of several the first to do so; none without TLS.";
    CERTIFICATE_FAILED Gauge "orcas_tls_certificate_reload_failed" "" []
        "1 while files of certificates cannot be used, or ACME gets no certificate; none without TLS.";
    BODY_BUDGET Gauge "orcas_body_budget_bytes" "bytes" []
        "Memory that bodies of requests may take (ORCAS_BODY_BUDGET).";
    BODY_BUDGET_USED Gauge "orcas_body_budget_used_bytes" "bytes" ["kind"]
        "Memory of it that is in use, by complete small bodies and by streams.";
    BODY_BUDGET_WAITING Gauge "orcas_body_budget_waiting" "" [] "Bodies that wait for memory.";
    COMMITS Histogram "orcas_commit_round_seconds" "seconds" []
        "Rounds of the committer that took intents: from taking them to the last answer.";
    COMMIT_QUEUE Histogram "orcas_commit_queue_seconds" "seconds" []
        "For each round of the committer, how long the first of the intents that it took had waited.";
    COMMIT_RECORDS Histogram "orcas_commit_batch_records" "" [] "Records that were appended to the log at once.";
    COMMIT_BYTES Histogram "orcas_commit_batch_bytes" "bytes" [] "Bytes that were appended to the log at once.";
    COMMIT_FAILURES Counter "orcas_commit_failures" "" [] "Batches that failed as a whole.";
    SYNCS Histogram "orcas_log_sync_seconds" "seconds" [] "Syncs of the log.";
    OVERLAY Gauge "orcas_overlay_keys" "" [] "Keys with published changes that the index does not have yet.";
    INDEX_LAG_BYTES Gauge "orcas_index_lag_bytes" "bytes" [] "Bytes of durable log that the index does not have yet.";
    INDEX_LAG_RECORDS Gauge "orcas_index_lag_records" "" [] "Records of durable log that the index does not have yet.";
    FILES Gauge "orcas_files" "" ["kind"] "Files of the log and packs.";
    FILE_BYTES Gauge "orcas_file_bytes" "bytes" ["kind"]
        "Lengths of the log, the packs, the index and its write-ahead log.";
    ALLOCATED_BYTES Gauge "orcas_file_allocated_bytes" "bytes" ["kind"]
        "Disk space of the log and of the packs, without the holes.";
    LOGICAL Gauge "orcas_content_logical_bytes" "bytes" []
        "What versions and uploads refer to, each content as often as it is referred to.";
    STORED Gauge "orcas_content_stored_bytes" "bytes" [] "What is stored of it, each distinct content once.";
    DEAD Gauge "orcas_content_dead_bytes" "bytes" []
        "Content that nothing refers to and that takes space until it is reclaimed.";
    SHARING Gauge "orcas_content_shared_bytes" "bytes" [] "What sharing saves: logical less stored bytes.";
    RECLAIMED Counter "orcas_reclaimed_bytes" "bytes" ["step"]
        "Bytes that reclamation condemned, freed by punching holes, or moved in order to free files.";
    RECLAIMED_FILES Counter "orcas_reclaimed_files" "" ["kind"] "Files that reclamation removed.";
    RECLAIMED_BLOBS Counter "orcas_reclaimed_blobs" "" [] "Contents and chunks that were given up.";
    RECLAIM_FAILED Gauge "orcas_reclaim_failed" "" [] "1 while the last attempt to reclaim has failed.";
    SCRUB_PASSES Counter "orcas_scrub_passes" "" [] "Passes in which the scrub has read everything.";
    SCRUB_DONE Gauge "orcas_scrub_done_bytes" "bytes" [] "Bytes that the scrub has read in this pass.";
    SCRUB_TOTAL Gauge "orcas_scrub_total_bytes" "bytes" [] "Bytes of this pass.";
    SCRUB_DAMAGED Gauge "orcas_scrub_damaged_places" "" []
        "Damaged places that this pass of the scrub and the one before have found.";
    SCRUB_FAILED Gauge "orcas_scrub_failed" "" [] "1 while the last pass of the scrub has ended early.";
    LIFECYCLE_RUNS Counter "orcas_lifecycle_runs" "" [] "Runs of the lifecycle rules of all buckets.";
    EXPIRED Counter "orcas_lifecycle_expired" "" ["kind"]
        "What lifecycle rules did: versions removed, delete markers added, uploads aborted.";
    JOURNAL_BYTES Gauge "orcas_event_journal_bytes" "bytes" [] "Bytes of the journal of events.";
    JOURNAL_LAG Gauge "orcas_event_journal_lag_records" "" []
        "Durable records of the log that the journal of events has not taken yet.";
    JOURNAL_FAILED Gauge "orcas_event_journal_failed" "" [] "1 while the journal of events cannot be written.";
    LISTENERS Gauge "orcas_event_listeners" "" [] "Streams of events that are open.";
    EVENT_LAG_RECORDS Gauge "orcas_event_lag_records" "" ["target"]
        "Records of the log that the journal has looked at, and whose events a target does not have yet. Not each \
         of them is an event for the target.";
    EVENT_LAG_SECONDS Gauge "orcas_event_lag_seconds" "seconds" ["target"]
        "How long ago the oldest event that a target does not have yet happened, at most. 0 if it has all.";
    DELIVERIES Counter "orcas_event_deliveries" "" ["target", "result"]
        "Attempts to deliver an event to a target: ok, retried if it failed and is tried again, or dead if it \
         failed and the event is a dead letter.";
    DEAD_LETTERS Gauge "orcas_event_dead_letters" "" ["target"] "Dead letters of a target that wait.";
    EVENT_GAPS Counter "orcas_event_gaps" "" ["target"]
        "How often events for a target were gone, because the journal did not keep them for long enough.";
    SEALED Counter "orcas_encrypted_bytes" "bytes" ["operation", "algorithm"]
        "Bytes of stored content that were encrypted or decrypted.";
    KEY_TIME Histogram "orcas_key_duration_seconds" "seconds" ["operation"]
        "derive: from the secret of the operator to the master key, by scrypt if it is a passphrase; unwrap: data \
         keys that the cache did not have. Nothing without a keyring.";
    TASK_RUNS Counter "orcas_task_runs" "" ["task", "result"] "Runs of periodic tasks, by result: ok or failed.";
    TASK_RUNNING Gauge "orcas_task_running" "" ["task"] "1 while a periodic task runs.";
    TASK_INTERVAL Gauge "orcas_task_interval_seconds" "seconds" ["task"]
        "Time between the beginnings of two runs of a task; none if it runs on request only.";
    TASK_SUCCESS Gauge "orcas_task_last_success_timestamp_seconds" "seconds" ["task"]
        "When a task succeeded last; until it does, when the server started.";
    TASK_DURATION Gauge "orcas_task_last_duration_seconds" "seconds" ["task"] "How long the last run of a task took.";
    TASK_NEXT Gauge "orcas_task_next_run_timestamp_seconds" "seconds" ["task"]
        "When a task is due; none if it runs on request only.";
    CACHE_HITS Counter "orcas_cache_hits" "" ["cache"] "Lookups that a cache answered.";
    CACHE_MISSES Counter "orcas_cache_misses" "" ["cache"] "Lookups that it did not.";
    CACHE_ENTRIES Gauge "orcas_cache_entries" "" ["cache"] "Entries of a cache.";
    CACHE_BYTES Gauge "orcas_cache_bytes" "bytes" ["cache"] "Memory of a cache.";
    BUFFERS_OUT Gauge "orcas_buffers_used_bytes" "bytes" [] "Pooled memory in use.";
    INDEX_CONNECTIONS Gauge "orcas_index_connections" "" ["state"]
        "Read connections of the index that are open, and those of them that are idle.";
    INDEX_WAITS Counter "orcas_index_connection_waits" "" [] "Lookups that waited for a read connection of the index.";
    STATE Gauge "orcas_store_state" "" ["state"]
        "1 for the state that the store is in: ok, full, read-only or damaged.";
    WRITABLE Gauge "orcas_store_writable" "" [] "1 while new content is accepted.";
    DISK_FREE Gauge "orcas_disk_free_bytes" "bytes" [] "Free space of the file system of the store.";
    DISK_RESERVE Gauge "orcas_disk_reserve_bytes" "bytes" []
        "Free space below which no content is accepted (ORCAS_DISK_RESERVE).";
    BUCKETS Gauge "orcas_buckets" "" [] "Buckets.";
    BUCKET_OBJECTS Gauge "orcas_bucket_objects" "" ["bucket"]
        "Current objects of a bucket; _other stands for all buckets beyond ORCAS_METRICS_BUCKETS.";
    BUCKET_BYTES Gauge "orcas_bucket_bytes" "bytes" ["bucket"] "The sum of the sizes of these objects.";
    USAGE_FAILED Gauge "orcas_usage_failed" "" []
        "1 if the index or a directory could not be read, so that buckets, contents and files are missing here.";
    HTTP_REQUESTS Counter "http_requests" "" ["status"]
        "S3 requests by status of the response, under the name that many dashboards expect.";
    HTTP_REQUEST_TIME Histogram "http_request_duration_seconds" "seconds" []
        "The durations of all S3 requests, under the name that many dashboards expect.";
    CRYPTO_TIME Histogram "crypto_encryption_duration_seconds" "seconds" ["operation"]
        "Encrypting and decrypting stored content: up to 256 KiB of a large body at a time, other content at once.";
    CRYPTO_HIT_RATE Gauge "crypto_cache_hit_rate" "" []
        "Share of the lookups of data keys that the cache answered; 1 before the first.";
    SERIALIZATION_TIME Histogram "serialization_duration_seconds" "seconds" ["operation"]
        "serialize: pages of lists, each read from the index and written as XML in one pass; deserialize: XML \
         documents of requests.";
    PROCESS_START Gauge "process_start_time_seconds" "seconds" [] "When the process started, since 1970.";
    PROCESS_CPU Counter "process_cpu_seconds" "seconds" [] "Processor time of all threads of the process.";
    PROCESS_MEMORY Gauge "process_resident_memory_bytes" "bytes" []
        "Memory that the process takes. Nothing where the operating system does not tell.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_the_rules_and_occur_once() {
        for (place, family) in ALL.iter().enumerate() {
            assert_eq!(family.flaw(), None, "{}", family.name);
            assert!(ALL[..place].iter().all(|other| other.name != family.name), "{}", family.name);
        }
    }
}
