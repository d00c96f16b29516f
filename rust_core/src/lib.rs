//! The extension module `orcas._core`, the only crate that imports pyo3. A call converts its arguments, releases the GIL
//! if the work may take longer than about 20 µs, calls the engine or the gateway, and converts the result.
//!
//! Threads of Rust never hold or touch Python objects. They know a request by the number of its slot, and `Core.drain`
//! converts what they have completed.
#![cfg(feature = "python")]

const _: () = assert!(!orcas_base::planted::PLANTED, "deliberate defects are never shipped");

mod answer;
mod checks;
mod content_keys;
mod core;
mod describe;
mod diagnostics;
mod digests;
mod done;
mod errors;
mod event_loop;
mod event_stream;
mod events;
mod form;
mod format;
mod head;
mod inspect;
mod keyring;
mod load;
mod maintenance;
mod metrics;
mod options;
mod piece;
mod request;
mod request_logs;
mod room;
mod seal_stored;
mod snapshots;
mod tools;
mod usage;

use pyo3::prelude::*;

use orcas_s3::Operation;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<core::Core>()?;
    module.add_class::<core::Health>()?;
    module.add_class::<keyring::PyKeyring>()?;
    module.add_class::<request::Request>()?;
    module.add_class::<form::Form>()?;
    module.add_class::<request::BodySink>()?;
    module.add_class::<request_logs::RequestLogs>()?;
    module.add_class::<usage::UsageCounts>()?;
    module.add_class::<maintenance::Maintenance>()?;
    module.add_class::<answer::Response>()?;
    module.add_class::<answer::ErrorNote>()?;
    module.add_class::<answer::Download>()?;
    module.add_class::<events::EventDeliveries>()?;
    module.add_class::<events::EventListener>()?;
    module.add_class::<tools::BackupPin>()?;
    module.add_class::<checks::CheckProgress>()?;
    module.add_class::<seal_stored::SealProgress>()?;
    module.add_class::<load::Load>()?;
    module.add_class::<event_stream::EventParser>()?;
    module.add_function(wrap_pyfunction!(event_stream::parse_event_records, module)?)?;
    module.add_function(wrap_pyfunction!(checks::check_store, module)?)?;
    module.add_function(wrap_pyfunction!(inspect::inspect_store, module)?)?;
    module.add_function(wrap_pyfunction!(keyring::inspect_keyring, module)?)?;
    module.add_function(wrap_pyfunction!(keyring::read_keyring, module)?)?;
    module.add_function(wrap_pyfunction!(checks::repair_store, module)?)?;
    module.add_function(wrap_pyfunction!(tools::sign, module)?)?;
    module.add_function(wrap_pyfunction!(diagnostics::collect_events, module)?)?;
    module.add_function(wrap_pyfunction!(diagnostics::wait_for_events, module)?)?;
    module.add_function(wrap_pyfunction!(diagnostics::take_events, module)?)?;
    module.add_function(wrap_pyfunction!(diagnostics::end_events, module)?)?;
    module.add_function(wrap_pyfunction!(request::names_bucket, module)?)?;
    module.add_function(wrap_pyfunction!(digests::md5, module)?)?;
    module.add_function(wrap_pyfunction!(format::format_etag, module)?)?;
    module.add_function(wrap_pyfunction!(format::format_content_length, module)?)?;
    module.add_function(wrap_pyfunction!(format::format_last_modified, module)?)?;
    module.add_function(wrap_pyfunction!(format::format_content_range, module)?)?;
    module.add_function(wrap_pyfunction!(format::set_object_headers, module)?)?;
    module.add_function(wrap_pyfunction!(format::set_object_headers_with_content_type, module)?)?;
    module.add("Refusal", module.py().get_type::<errors::Refusal>())?;
    module.add("StoreError", module.py().get_type::<errors::StoreError>())?;
    module.add("MasterKeyError", module.py().get_type::<errors::MasterKeyError>())?;
    module.add("OPERATIONS", Operation::ALL.iter().map(|operation| operation.name()).collect::<Vec<_>>())?;
    module.add("METRICS", metrics::table())?;
    module.add("METRIC_LABELS", metrics::label_values())?;
    module.add("FLOW_MORE", request::FLOW_MORE)?;
    module.add("FLOW_WAIT", request::FLOW_WAIT)?;
    module.add("FLOW_STOP", request::FLOW_STOP)?;
    Ok(())
}
