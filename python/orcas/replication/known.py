"""What only another Orcas takes: content that it has already, named by its SHA-256, and annotations.

A proof of a few of its bytes goes with the SHA-256, as in `orcas.instant`. Must not know rules, nor what marks replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orcas.http.challenges import read_challenge
from orcas.tools.imports.requests import ObjectError, Side
from orcas.tools.session import Headers

_PREFIX = b"x-amz-orcas-instant-"


@dataclass(frozen=True)
class Place:
    """An object on one side: the path of its key, and the version if there are some."""

    side: Side
    path: str
    query: dict[str, str]

    def blocks(self, first: int, length: int) -> Iterator[bytes]:
        """As of `HasBlocks`."""
        headers: Headers = [(b"range", b"bytes=%d-%d" % (first, first + length - 1))]
        with self.side.opened("GET", self.path, self.query, headers=headers) as answer:
            yield from self.side.pieces(answer)


def put_known(here: Place, there: Place, size: int, sha256: bytes, headers: Headers) -> bool:
    """Store an object there of content that is there already. False: it has to be sent.

    Raises:
        ObjectError: the target fails.
        UnavailableError: there is no answer.
    """
    given = [*headers, (_PREFIX + b"size", b"%d" % size), (_PREFIX + b"sha256", sha256.hex().encode())]
    try:
        _, document = there.side.ask("POST", there.path, {"instant": ""}, headers=given)
        challenge = read_challenge(document, size)
        if challenge is None:
            return False
        given += [
            (_PREFIX + b"challenge", challenge.token.encode()),
            (_PREFIX + b"answer", challenge.answer(here).encode()),
        ]
        # Otherwise, it is not there any more.
        return not there.side.ask("POST", there.path, {"instant": ""}, headers=given)[1]
    except ObjectError as error:
        # What is wrong with the request is wrong with that which sends the content as well.
        if error.is_busy or not error.at_target:
            raise
        return False


def copy_annotations(here: Place, there: Place) -> None:
    """Give an object there the annotations that it has here.

    Raises:
        ObjectError: a request was refused.
        UnavailableError: there was no answer.
    """
    mine, theirs = _annotations(here), _annotations(there)
    for name, etag in mine.items():
        if theirs.pop(name, "") != etag:
            query = {"annotation": "", "annotationName": name}
            _, text = here.side.ask("GET", here.path, query | here.query)
            there.side.ask("PUT", there.path, query | there.query, text)
    for name in theirs:
        there.side.ask("DELETE", there.path, {"annotation": "", "annotationName": name} | there.query)


def _annotations(place: Place) -> dict[str, str]:
    """The ETags of the annotations of an object, by their names: no more than a page has."""
    document = place.side.document(place.path, {"annotation": "", **place.query})
    return {
        entry.findtext("{*}AnnotationName") or "": entry.findtext("{*}ETag") or ""
        for entry in document.iterfind("{*}Annotations/{*}AnnotationEntry")
    }
