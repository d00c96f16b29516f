"""A look at both sides, page by page, in the order of their keys: which keys differ. Nothing is copied here."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from orcas.tools.imports.requests import Side, path_of
from orcas.tools.objects import Listed, key_of

_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that differs: it is missing there (`is_missing`), gone here (`is_gone`), or has other content."""

    key: bytes
    is_missing: bool
    is_gone: bool


@dataclass(frozen=True, slots=True)
class Page:
    """The keys up to `last`, of which so many were `compared`."""

    differences: list[Difference]
    compared: int
    last: bytes
    is_end: bool


def next_page(
    here: Side, bucket: str, there: Side, to: str, prefix: bytes, mark: bytes, *, everything: bool = False
) -> Page:
    """Compare the next keys behind `mark`, by size and ETag. `everything`: also those that are equal are listed.

    Raises:
        ObjectError: a list is refused.
        UnavailableError: there is no answer.
    """
    mine = list(itertools.islice(_listed(here, bucket, prefix, mark), _PAGE))
    is_end = len(mine) < _PAGE
    last = mine[-1].key if mine else mark
    theirs: dict[bytes, Listed] = {}
    for entry in _listed(there, to, prefix, mark):
        if not is_end and entry.key > last:
            break
        theirs[entry.key] = entry
        if len(theirs) > 2 * _PAGE:
            # The rest is for the next page.
            is_end, last = False, entry.key
            mine = [entry for entry in mine if entry.key <= last]
            break
    differences = []
    for entry in mine:
        other = theirs.pop(entry.key, None)
        if everything or other is None or (other.size, other.etag) != (entry.size, entry.etag):
            differences.append(Difference(entry.key, is_missing=other is None, is_gone=False))
    differences += [Difference(key, is_missing=False, is_gone=True) for key in theirs]
    return Page(sorted(differences, key=lambda it: it.key), len(mine), max(last, mark), is_end)


def _listed(side: Side, bucket: str, prefix: bytes, mark: bytes) -> Iterator[Listed]:
    """The objects of a bucket behind a key."""
    while True:
        query = {"encoding-type": "url", "list-type": "2", "max-keys": f"{_PAGE}"}
        document = _document(side, bucket, query, prefix, mark)
        for entry in document.iterfind("{*}Contents"):
            key = key_of(document, entry)
            mark = max(mark, key)
            yield Listed(key, int(entry.findtext("{*}Size") or 0), (entry.findtext("{*}ETag") or "").strip('"'))
        if document.findtext("{*}IsTruncated") != "true":
            return


def _document(side: Side, bucket: str, query: dict[str, str], prefix: bytes, mark: bytes) -> ET.Element:
    # Keys are valid UTF-8.
    given = {name: value.decode() for name, value in (("prefix", prefix), ("start-after", mark)) if value}
    return side.document(path_of(bucket), query | given)
