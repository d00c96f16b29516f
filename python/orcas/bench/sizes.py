"""Sizes as people write them, and distributions of sizes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_UNITS: Final = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE: Final = re.compile(r"([0-9]{1,15})\s*([A-Za-z]*)")
# Of an object that is put in one request.
_SIZE_MAX: Final = 5 << 30
_WEIGHT_MAX: Final = 10_000
_FORM: Final = 'a size such as "64KiB", a table of sizes and weights, or { from = "1KiB", to = "1MiB" }'


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large objects are, in bytes: weighted sizes, or a range in which every power of two is as likely."""

    text: str
    weighted: tuple[tuple[int, int], ...] = ()
    range: tuple[int, int] | None = None

    @property
    def largest(self) -> int:
        """Bytes that an object has at most."""
        return self.range[1] if self.range else max(size for size, _ in self.weighted)


def parse_size(value: object) -> int:
    """Bytes of `4096`, `"64KiB"` or `"1 MB"`.

    Raises:
        TypeError: it is no size of an object; the message says what would be.
    """
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif found and found[2].upper() in _UNITS:
        size = int(found[1]) * _UNITS[found[2].upper()]
    else:
        raise TypeError('a size such as 4096, "64KiB" or "1MB"')
    if not 0 <= size <= _SIZE_MAX:
        raise TypeError("a size from 0 to 5 GiB")
    return size


def parse_sizes(value: object) -> Sizes:
    """One size, weighted sizes, or a range.

    Raises:
        TypeError: it is none of these; the message says what would be.
    """
    if not isinstance(value, dict):
        return Sizes(str(value), ((parse_size(value), 1),))
    if set(value) == {"from", "to"}:
        low, high = parse_size(value["from"]), parse_size(value["to"])
        if not 0 < low <= high:
            raise TypeError("a range that begins above 0 and does not end before it begins")
        return Sizes(f"{value['from']}..{value['to']}", range=(low, high))
    weighted = tuple((parse_size(size), weight) for size, weight in value.items())
    for _, weight in weighted:
        if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= _WEIGHT_MAX:
            raise TypeError(_FORM)
    if not weighted:
        raise TypeError(_FORM)
    return Sizes(",".join(f"{size}:{weight}" for size, weight in value.items()), weighted)
