//! Options of a gateway that clients of S3 find as they expect it. The benchmarks include this file, and name what they
//! need otherwise.

use super::GatewayOptions;

pub fn options() -> GatewayOptions {
    GatewayOptions {
        region: "us-east-1".into(),
        strict_region: false,
        public_access: Default::default(),
        presign_v2: true,
        any_date: false,
        any_signature: false,
        presign_max_s: 604_800,
        lockout: Default::default(),
        domains: Vec::new(),
        website_host: None,
        max_batch_write_file_size: 64 << 10,
        body_budget: 64 << 20,
        workers: 16,
        instant_upload_enabled: true,
        encrypt_by_default: false,
        event_targets: Vec::new(),
        dev: false,
        events_listeners_max: 16,
        meters_usage: true,
        slow_request: None,
        metrics: false,
        traces: None,
        read_only: None,
    }
}
