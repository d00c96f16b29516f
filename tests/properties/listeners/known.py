"""Values that each server makes for itself: which of one belongs to which of the other, and how requests name them."""

from __future__ import annotations

import random
import re
from typing import Final

_NAMED: Final = re.compile("⟦(\\d+)⟧")


class Known:
    """Pairs of values, one for each server. Each belongs to one of the other, always the same."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []
        self._of_first: dict[str, str] = {}
        self._of_second: dict[str, str] = {}
        self._versions: list[tuple[str, str, int]] = []
        self._uploads: list[tuple[str, str, int]] = []

    def agree(self, first: str, second: str) -> bool:
        """Whether these may be what two servers have made of the same. The first time they are seen, they are."""
        known = self._of_first.get(first), self._of_second.get(second)
        if known == (None, None):
            self._of_first[first], self._of_second[second] = second, first
            self.pairs.append((first, second))
            return True
        return known == (second, first)

    def note(self, kind: str, bucket: str, key: str, first: str, second: str) -> None:
        """Requests may name this version or upload."""
        self.agree(first, second)
        places = self._versions if kind == "version" else self._uploads
        number = self.pairs.index((first, second)) if (first, second) in self.pairs else -1
        if number >= 0 and (bucket, key, number) not in places:
            places.append((bucket, key, number))

    def version(self, rng: random.Random, bucket: str, key: str) -> str:
        """A version, usually one of this object."""
        return self._one(rng, self._versions, bucket, key)

    def upload(self, rng: random.Random, bucket: str, key: str) -> str:
        """An upload, usually one of this object."""
        return self._one(rng, self._uploads, bucket, key)

    @staticmethod
    def _one(rng: random.Random, places: list[tuple[str, str, int]], bucket: str, key: str) -> str:
        own = [number for at, name, number in places if (at, name) == (bucket, key)]
        if own and rng.random() < 0.8:
            return f"⟦{rng.choice(own)}⟧"
        if places and rng.random() < 0.4:
            return f"⟦{rng.choice(places)[2]}⟧"
        return rng.choice(("null", "null", "x", "", "0" * 32))

    def text(self, text: str, side: int) -> str:
        """`text` with the values of one server."""
        return _NAMED.sub(lambda found: self.pairs[int(found[1])][side], text)

    def as_first(self, text: bytes) -> bytes:
        """`text` with the values of the first server in the place of those of the second."""
        for first, second in self.pairs:
            text = text.replace(second.encode("latin-1"), first.encode("latin-1"))
        return text
