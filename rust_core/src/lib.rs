//! The extension module `orcas._core`, the only crate that imports pyo3. A call converts its arguments, releases the GIL
//! if the work may take longer than about 20 µs, calls the engine or the gateway, and converts the result.
//!
//! Threads of Rust never hold or touch Python objects. They know a request by the number of its slot, and `Core.drain`
//! converts what they have completed.
#![cfg(feature = "python")]

const _: () = assert!(!orcas_base::planted::PLANTED, "deliberate defects are never shipped");

mod access;
mod admin;
mod cluster;
mod core;
mod diagnostics;
mod errors;
mod events;
mod expiry;
mod front;
mod functions;
mod load;
mod minio_disk;
mod owned;
mod requests;
mod store;

use pyo3::prelude::*;

use orcas_s3::Operation;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<core::Core>()?;
    module.add_class::<core::Health>()?;
    module.add_class::<store::PyKeyring>()?;
    module.add_class::<requests::Request>()?;
    module.add_class::<requests::Form>()?;
    module.add_class::<requests::Postponed>()?;
    module.add_class::<requests::BodySink>()?;
    module.add_class::<requests::IncompleteBodies>()?;
    module.add_class::<requests::IncompleteBody>()?;
    module.add_class::<requests::RequestLogs>()?;
    module.add_class::<admin::UsageCounts>()?;
    module.add_class::<admin::Maintenance>()?;
    module.add_class::<requests::Response>()?;
    module.add_class::<requests::ErrorNote>()?;
    module.add_class::<requests::Download>()?;
    module.add_class::<front::Front>()?;
    module.add_class::<events::EventDeliveries>()?;
    module.add_class::<events::ReplicatedEvents>()?;
    module.add_class::<events::EventListener>()?;
    module.add_class::<events::ListeningPermit>()?;
    module.add_class::<admin::BackupPin>()?;
    module.add_class::<admin::PyAdminCaller>()?;
    module.add_class::<store::CheckProgress>()?;
    module.add_class::<admin::SealProgress>()?;
    module.add_class::<expiry::ExpiryCount>()?;
    module.add_class::<cluster::ClusterNode>()?;
    module.add_class::<cluster::LogPlace>()?;
    module.add_class::<load::Load>()?;
    module.add_class::<minio_disk::MinioDrives>()?;
    module.add_class::<minio_disk::MinioWalk>()?;
    module.add_class::<minio_disk::MinioObject>()?;
    module.add_class::<minio_disk::MinioVersion>()?;
    module.add_class::<minio_disk::MinioContent>()?;
    module.add_class::<events::EventParser>()?;
    module.add_function(wrap_pyfunction!(events::parse_event_records, module)?)?;
    module.add_function(wrap_pyfunction!(store::check_formats, module)?)?;
    module.add_function(wrap_pyfunction!(store::chunks_named, module)?)?;
    module.add_function(wrap_pyfunction!(store::check_store, module)?)?;
    module.add_function(wrap_pyfunction!(store::inspect_store, module)?)?;
    module.add_function(wrap_pyfunction!(store::inspect_keyring, module)?)?;
    module.add_function(wrap_pyfunction!(store::read_keyring, module)?)?;
    module.add_function(wrap_pyfunction!(store::repair_store, module)?)?;
    module.add_function(wrap_pyfunction!(access::check_policy, module)?)?;
    module.add_function(wrap_pyfunction!(access::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(admin::sign, module)?)?;
    module.add_function(wrap_pyfunction!(admin::seal_secret, module)?)?;
    module.add_function(wrap_pyfunction!(admin::open_secret, module)?)?;
    module.add_function(wrap_pyfunction!(diagnostics::collect_diagnostics, module)?)?;
    module.add_function(wrap_pyfunction!(diagnostics::wait_for_diagnostics, module)?)?;
    module.add_function(wrap_pyfunction!(diagnostics::take_diagnostics, module)?)?;
    module.add_function(wrap_pyfunction!(diagnostics::end_diagnostics, module)?)?;
    module.add_function(wrap_pyfunction!(requests::names_bucket, module)?)?;
    module.add_function(wrap_pyfunction!(functions::md5, module)?)?;
    module.add_function(wrap_pyfunction!(functions::format_etag, module)?)?;
    module.add_function(wrap_pyfunction!(functions::format_content_length, module)?)?;
    module.add_function(wrap_pyfunction!(functions::format_last_modified, module)?)?;
    module.add_function(wrap_pyfunction!(functions::format_content_range, module)?)?;
    module.add_function(wrap_pyfunction!(functions::set_object_headers, module)?)?;
    module.add_function(wrap_pyfunction!(functions::set_object_headers_with_content_type, module)?)?;
    module.add("Refusal", module.py().get_type::<errors::Refusal>())?;
    module.add("StoreError", module.py().get_type::<errors::StoreError>())?;
    module.add("MasterKeyError", module.py().get_type::<errors::MasterKeyError>())?;
    module.add("OPERATIONS", Operation::ALL.iter().map(|operation| operation.name()).collect::<Vec<_>>())?;
    module.add("METRICS", admin::metrics::table())?;
    module.add("METRIC_LABELS", admin::metrics::label_values())?;
    module.add("FLOW_MORE", requests::FLOW_MORE)?;
    module.add("FLOW_WAIT", requests::FLOW_WAIT)?;
    module.add("FLOW_STOP", requests::FLOW_STOP)?;
    module.add("INCOMPLETE_SHARE", orcas_bodies::incomplete::INCOMPLETE_SHARE)?;
    module.add("STRANGERS_SHARE", orcas_bodies::incomplete::STRANGERS_SHARE)?;
    module.add("PLAN_RUN", requests::PLAN_RUN)?;
    module.add("PLAN_STREAM", requests::PLAN_STREAM)?;
    module.add("PLAN_IN_PIECES", requests::PLAN_IN_PIECES)?;
    Ok(())
}
