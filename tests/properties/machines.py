"""The server that a model test drives, through restarts and kills."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.fixtures.targets import Target

import orcas


class Machines:
    """The server of all sequences; each sequence has its own buckets."""

    def __init__(self) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="orcas-model-"))
        self.serial = itertools.count()
        self.start()

    def start(self) -> None:
        self.server = orcas.Server(self.data / "store", chunk_size=128 << 10)
        self.client = Target(self.server).client(s3={"addressing_style": "path"})

    def restart(self, *, kill: bool) -> None:
        self.client.close()
        (self.server.kill if kill else self.server.stop)()
        self.start()

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
