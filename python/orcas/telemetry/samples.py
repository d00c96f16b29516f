"""Pages of metrics, read as numbers: what a server's samples are now, and what happened between two pages.

Must not know which metrics there are, or how they are shown.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field
from typing import Final

from orcas.errors import UnavailableError

_SAMPLE: Final = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """The samples of a page by name, and the moment at which it was read, in seconds of some clock."""

    samples: dict[str, list[tuple[Labels, float]]]
    moment: float = field(default_factory=time.monotonic)

    @classmethod
    def parsed(cls, text: str, moment: float) -> Page:
        """The page with this text, in the older format of Prometheus.

        Raises:
            UnavailableError: it is none.
        """
        samples: dict[str, list[tuple[Labels, float]]] = {}
        for line in text.splitlines():
            if line.startswith("#") or not line.strip():
                continue
            found = _SAMPLE.fullmatch(line)
            if found is None:
                raise UnavailableError("The server's response is not a page of metrics: name the address of Orcas.")
            labels = {name: re.sub(r"\\.", _unescaped, value) for name, value in _LABEL.findall(found[2] or "")}
            samples.setdefault(found[1], []).append((labels, float(found[3])))
        return cls(samples, moment)

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples with this name and these labels; 0 if there is none."""
        return sum(value for _, value in self.matching(name, labels))

    def labels(self, name: str, label: str) -> list[str]:
        """The values that a label has, in the order of the page."""
        return list(dict.fromkeys(labels[label] for labels, _ in self.samples.get(name, ()) if label in labels))

    def matching(self, name: str, wanted: Labels) -> list[tuple[Labels, float]]:
        """The samples with this name and these labels, and their other labels."""
        return [entry for entry in self.samples.get(name, ()) if wanted.items() <= entry[0].items()]


@dataclass(frozen=True, slots=True)
class Between:
    """The difference between two pages of a server."""

    before: Page
    now: Page

    @property
    def seconds(self) -> float:
        """The time between them."""
        return max(self.now.moment - self.before.moment, 1e-9)

    def rise(self, name: str, **labels: str) -> float:
        """The rise of a counter; a server that was started meanwhile began at 0."""
        before, now = self.before.value(name, **labels), self.now.value(name, **labels)
        return now - before if now >= before else now

    def rate(self, name: str, **labels: str) -> float:
        """The rise of a counter for each second."""
        return self.rise(name, **labels) / self.seconds

    def mean(self, histogram: str) -> float | None:
        """The mean of the values that a histogram counted; None if there were none."""
        count = self.rise(f"{histogram}_count")
        return self.rise(f"{histogram}_sum") / count if count else None

    def quantile(self, share: float, histogram: str, **labels: str) -> float | None:
        """The value that this share of the counted values does not exceed, as Prometheus estimates it."""
        name = f"{histogram}_bucket"
        # Looked up by labels: a page of a busy server has thousands of samples of one histogram.
        before = {frozenset(found.items()): value for found, value in self.before.matching(name, labels)}
        upto: dict[float, float] = {}
        for found, value in self.now.matching(name, labels):
            bound, earlier = float(found["le"]), before.get(frozenset(found.items()), 0.0)
            upto[bound] = upto.get(bound, 0.0) + (value - earlier if value >= earlier else value)
        bounds = sorted(upto)
        total = upto.get(math.inf, 0.0)
        if not total:
            return None
        low, below = 0.0, 0.0
        for bound in bounds:
            if upto[bound] >= share * total:
                if bound == math.inf:
                    return low
                inside = upto[bound] - below
                return low + (bound - low) * (share * total - below) / inside if inside else bound
            low, below = bound, upto[bound]
        return low


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0], found[0])
