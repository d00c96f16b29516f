"""Runs of random requests: each is drawn from a seed and its number, sent to two servers, and compared."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import changing, sending, services
from .comparing import Comparison, Looking, Reply, Side
from .drawing import Drawing, Plan
from .known import Known
from .rules import is_expected
from .scene import Scene, both

# After so many requests, everything that there is is compared.
_LOOK_EVERY: Final = 300
_READS: Final = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Difference:
    """A request to which two servers do not answer alike, or after which they have not the same."""

    request: str
    raw: bytes
    what: list[str]
    replies: tuple[object, object]

    def __str__(self) -> str:
        answers = "\n".join(f"{reply!r:.4000}" for reply in self.replies)
        return f"{self.request}: {', '.join(self.what)}\n{self.raw!r:.6000}\n{answers}"


class Run:
    """One run over two servers that have the same."""

    def __init__(self, seed: str, scene: Scene, pair: tuple[Side, Side]) -> None:
        self.seed, self.scene, self.sides = seed, scene, pair
        self.known = Known()
        for kind, places in (("version", scene.versions), ("upload", scene.uploads)):
            for bucket, key, value in places:
                self.known.note(kind, bucket, key, value, value)
        self.comparison = Comparison(self.known)
        self.looking = Looking(pair, scene.identities["root"], self.comparison)

    def draw(self, rng: random.Random) -> Plan:
        """A request of any kind."""
        drawing = Drawing(rng, self.scene, self.known)
        choice = rng.random()
        if choice < 0.8:
            return drawing.call()
        if choice < 0.85:
            return drawing.form()
        if choice < 0.88:
            return drawing.question()
        if choice < 0.92:
            return drawing.page()
        return rng.choice(
            (services.query, services.query, services.own, services.own, services.foreign, services.visit)
        )(rng)

    def differences(self, count: int) -> Iterator[Difference]:
        """Those of the first `count` requests."""
        for number in range(count):
            rng = random.Random(f"{self.seed}/{number}")
            plan = self.draw(rng)
            raws = sending.rendered(plan, self.scene, self.known)
            if rng.random() < 0.25 and raws[0] == raws[1]:
                changed = rng.choice(changing.ALL)(rng, raws[0])
                # uvicorn drops a fragment, and more spaces around a target, with which the listener refuses a request.
                line = changed.partition(b"\r\n")[0]
                if line.count(b" ") == 2 and b"#" not in line:
                    raws = changed, changed
            found = self._ask(f"seed {self.seed!r}, request {number}", plan, raws)
            if found is None and number % _LOOK_EVERY == _LOOK_EVERY - 1 and (what := list(self.looking.everything())):
                found = Difference(f"seed {self.seed!r}, after request {number}", b"", what, ("", ""))
            if found is not None:
                yield found

    def _ask(self, name: str, plan: Plan, raws: tuple[bytes, bytes]) -> Difference | None:
        method = raws[0].lstrip(b"\r\n").partition(b" ")[0].decode("latin-1")
        first, second = (side.ask(raw, method) for side, raw in zip(self.sides, raws, strict=True))
        what = self.comparison.differences(first, second, alike=raws[0] == raws[1])
        # uvicorn does not ask for a body of no bytes, for which botocore waits.
        what = [each for each in what if each != "100 (Continue)"]
        if what and is_expected(raws[0], first, second):
            what = []
        if not what and method not in _READS and (changed := self._changed(plan, first)):
            what = list(self.looking.after(*changed))
        if plan.operation == "CreateMultipartUpload" and not what:
            self._note_uploads(plan, first, second)
        return Difference(name, raws[0], what, (first, second)) if what else None

    def _changed(self, plan: Plan, reply: Reply | bytes) -> tuple[str, str, str | None] | None:
        """Bucket, key and sub-resource of what may have been changed."""
        if not isinstance(reply, Reply) or reply.number >= 300:
            return None
        subresource = next((name for name, value in plan.query if value is None and name), None)
        exists = plan.method == "DELETE" and plan.operation == "DeleteBucket"
        return ("" if exists else plan.bucket), plan.key, None if plan.key else subresource

    def _note_uploads(self, plan: Plan, *replies: Reply | bytes) -> None:
        ids = [re.findall(rb"<UploadId>([^<]+)", reply.body) for reply in replies if isinstance(reply, Reply)]
        if len(ids) == 2 and ids[0] and ids[1]:
            self.known.note("upload", plan.bucket, plan.key, ids[0][0].decode(), ids[1][0].decode())


@contextlib.contextmanager
def run(seed: str, scene: Scene, place: Path) -> Iterator[Run]:
    """A run over new copies of the store."""
    with both(scene, place) as (first, second), contextlib.ExitStack() as stack:
        pair = Side.of(first), Side.of(second)
        for side in pair:
            stack.callback(side.close)
        yield Run(seed, scene, pair)
