"""The server that a model test drives, through restarts and kills."""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fixtures.targets import Target
from tests.fixtures.wire import Signer

import orcas

# Days of lifecycle rules end at midnight, so what is counted in days is due at the latest after two of them.
DAY_SEC = 1


class Machines:
    """The server of all sequences; each sequence has its own buckets."""

    def __init__(self) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="orcas-model-"))
        self.serial = itertools.count()
        self.start()

    def start(self) -> None:
        self.server = orcas.Server(self.data / "store", chunk_size=128 << 10, lifecycle_day_sec=DAY_SEC)
        self.client = Target(self.server).client(s3={"addressing_style": "path"})

    def restart(self, *, kill: bool) -> None:
        self.client.close()
        (self.server.kill if kill else self.server.stop)()
        self.start()

    def apply_lifecycle_rules(self) -> None:
        """Return when everything that is due is gone."""
        job = self.admin("POST", "lifecycle/run")
        while job["state"] == "running":
            job = self.admin("GET", f"jobs/{job['id']}")
        assert job["state"] == "done", job

    def admin(self, method: str, path: str) -> Any:
        """What the admin API answers."""
        signer, nonce = Signer.of(self.server), ("x-amz-orcas-nonce", secrets.token_hex(8))
        request = signer.request(method, f"/_orcas/admin/{path}", headers=[nonce])
        return json.loads(signer.roundtrip(request, method).body)

    def close(self) -> None:
        self.client.close()
        self.server.stop()
        shutil.rmtree(self.data)


@contextlib.contextmanager
def machines() -> Iterator[Machines]:
    made = Machines()
    try:
        yield made
    finally:
        made.close()
