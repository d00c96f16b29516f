"""Paths that are not S3's, by the settings. Must not know who answers them."""

from __future__ import annotations

from orcas.settings.config import Settings


def reserved_paths(settings: Settings) -> tuple[str, ...]:
    """The paths below these are not S3's, nor are those of them that end without a slash.

    The names of buckets have no underscore, so `/_orcas/` hides none from path-style clients.
    """
    return (
        "/_orcas/", *(("/minio",) if settings.minio else ()), *(("/_localstack/",) if settings.localstack else ()),
    )  # fmt: skip


def node_paths(settings: Settings) -> tuple[str, ...]:
    """Reserved paths that each node of a cluster answers itself, whichever node is the owner of the log."""
    return (
        "/_orcas/health", "/_orcas/metrics", "/_orcas/admin/cluster",
        # Of the process and its machine.
        *(f"/_orcas/admin/{name}" for name in ("about", "disk", "stats", "history", "log", "requests", "settings", "stop")),
        *(("/minio/health", "/minio/v2/metrics") if settings.minio else ()),
        *(("/_localstack/health",) if settings.localstack else ()),
    )  # fmt: skip
