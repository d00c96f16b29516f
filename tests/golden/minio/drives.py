"""The drives in this folder, unpacked, and what clients saw of the servers that wrote them."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any, Final

GOLDEN: Final = Path(__file__).parent


def unpacked(kind: str, top: Path) -> list[Path]:
    """The directories of the drives."""
    with tarfile.open(GOLDEN / f"{kind}.tar.xz") as archive:
        archive.extractall(top, filter="data")
    return sorted(top.glob("drive*"))


def expected(name: str = "written") -> Any:
    """What clients saw of the server; `killed`: what it acknowledged."""
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def state(drives: list[Path]) -> str:
    """A digest of every name and byte."""
    digest = hashlib.sha256()
    for path in sorted(path for drive in drives for path in drive.rglob("*")):
        digest.update(f"{path} {path.stat().st_mtime_ns} ".encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


def current(found: Any) -> Any:
    """As `described`, with the latest versions alone, of buckets that are there."""
    latest = {}
    for name, bucket in found.items():
        by_key: dict[str, Any] = {}
        for version in bucket["versions"]:
            by_key.setdefault(version["key"], version)
        latest[name] = {key: version for key, version in by_key.items() if not version.get("marker")}
    return latest
