"""The activity of a server between two pages of its metrics, as a JSON document: requests, commits, caches, disk.

`orcas top` and the history of a server are made of it. Must not know how it is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from orcas.telemetry.samples import Between

# Caches whose share of hits says something about how the server is used.
_CACHES: Final = ("objects", "index-connections", "signing-keys", "data-keys", "blob-keys")


def document(look: Between) -> dict[str, Any]:
    """A look as a JSON document."""
    now = look.now
    names = now.labels("orcas_requests_total", "operation")
    # Most operations have no requests in an interval.
    operations = [_operation(look, name) for name in names if look.rate("orcas_requests_total", operation=name) > 0]
    operations.sort(key=lambda row: (-row["per_sec"], row["operation"]))
    version = now.labels("orcas_build_info", "version")
    states = [labels["state"] for labels, value in now.samples.get("orcas_store_state", ()) if value == 1]
    return {
        "version": version[0] if version else None,
        "state": states[0] if states else None,
        "writable": now.value("orcas_store_writable") == 1,
        "seconds": round(look.seconds, 3),
        "operations": operations,
        "errors": {
            code: rate for code in now.labels("orcas_errors_total", "code")
            if (rate := look.rate("orcas_errors_total", code=code))
        },
        "in_flight": now.value("orcas_requests_in_flight"),
        "connections": now.value("orcas_connections"),
        "body_budget": {
            "used_bytes": now.value("orcas_body_budget_used_bytes"), "bytes": now.value("orcas_body_budget_bytes"),
            "waiting": now.value("orcas_body_budget_waiting"),
        },
        "commits": {
            "per_sec": look.rate("orcas_commit_round_seconds_count"),
            "batch_records": look.mean("orcas_commit_batch_records"),
            "queue_p99_sec": look.quantile(0.99, "orcas_commit_queue_seconds"),
            "sync_p50_sec": look.quantile(0.5, "orcas_log_sync_seconds"),
            "sync_p99_sec": look.quantile(0.99, "orcas_log_sync_seconds"),
        },
        "index_lag_bytes": now.value("orcas_index_lag_bytes"),
        "cache_hit_rates": {cache: _hit_rate(look, cache) for cache in _CACHES},
        "disk_free_bytes": now.value("orcas_disk_free_bytes"),
        "content": {
            name: now.value(f"orcas_content_{name}_bytes") for name in ("logical", "stored", "shared", "dead")
        },
        "reclaimed_bytes_per_sec": look.rate("orcas_reclaimed_bytes_total"),
    }  # fmt: skip


def _operation(look: Between, name: str) -> dict[str, Any]:
    failed = sum(
        look.rate("orcas_requests_total", operation=name, result=result)
        for result in look.now.labels("orcas_requests_total", "result")
        if result not in {"2xx", "3xx"}
    )
    return {
        "operation": name,
        "per_sec": look.rate("orcas_requests_total", operation=name),
        "failed_per_sec": failed,
        "p50_sec": look.quantile(0.5, "orcas_request_duration_seconds", operation=name),
        "p99_sec": look.quantile(0.99, "orcas_request_duration_seconds", operation=name),
        "received_bytes_per_sec": look.rate("orcas_request_body_bytes_total", operation=name),
        "sent_bytes_per_sec": look.rate("orcas_response_body_bytes_total", operation=name),
    }


def _hit_rate(look: Between, cache: str) -> float | None:
    hits, misses = (look.rise(f"orcas_cache_{kind}_total", cache=cache) for kind in ("hits", "misses"))
    return hits / (hits + misses) if hits + misses else None
