"""The copy of one key: what the bucket has of it now is brought to the target, or the reason why not is raised.

Invariants. A replica is marked with the place that it was copied from and with its own, so that it is never copied on. A
delete marker hides only a replica of this bucket, or an object that is one of the versions here. Content counts as copied
only if the target's answer has the digest of what was sent. It is the copy of an import, the other way round.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import threading
import xml.etree.ElementTree as ET
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from orcas.origins.transport import CheckedTransport
from orcas.replication.known import Place, copy_annotations, put_known
from orcas.replication.rules import Route, Rules
from orcas.replication.state import Change
from orcas.tools.imports.requests import ObjectError, Side, checked_path, is_md5, length_of, path_of
from orcas.tools.imports.server import ASKING, IN_PARTS, ServerSource, checksum_of
from orcas.tools.imports.target import MARK as IMPORTED
from orcas.tools.imports.target import Target
from orcas.tools.objects import KEPT, USER, Listed, Version, listed_versions
from orcas.tools.session import Body, Headers, Session

if TYPE_CHECKING:
    from orcas.engine import ReplicationRule

# As in the crate s3.
MARK: Final = "x-amz-meta-orcas-replica"
_STATUS: Final = "x-amz-replication-status"
_TAGS: Final = "x-amz-tagging-count"
_VERSION: Final = "x-amz-version-id"
_ENCRYPTION: Final = "x-amz-server-side-encryption"
_CLASS: Final = b"x-amz-storage-class"
_LOCKS: Final = ("x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date", "x-amz-object-lock-legal-hold")
_LOCK_DOCUMENTS: Final = ("retention", "legal-hold")
# As in the crate s3; only an Orcas takes it.
_TIME: Final = b"x-amz-orcas-replica-time"
# What only an Orcas has at this path.
_HEALTH: Final = "/_orcas/health/live"
# Content below this is sent at once: to ask first would cost as much.
_KNOWN_BYTES_MIN: Final = 1 << 20


class Copier:
    """Copies keys along one route, for several threads.

    Args:
        route: from where, and where to.
        source: what the route begins with is named in marks, so that it is known again.
        here: requests to this server, by root.
        there: requests to the target.
        stop: ends everything.
    """

    def __init__(self, route: Route, source: str, here: Session, there: Session, stop: threading.Event) -> None:
        self.route = route
        self._source = f"{source}/{route.bucket}"
        self._session = here
        self.here = Side(here, is_target=False)
        self.there: Side = _TargetSide(there, is_target=True)
        self._stop = stop
        self._locks: bool | None = None
        self._is_orcas: bool | None = None

    def close(self) -> None:
        """End the connections to the target, which nobody uses any more."""
        self.there.session.close()

    def abort(self) -> None:
        """End what is under way at the target, from another thread."""
        transport = self.there.session.transport
        if isinstance(transport, CheckedTransport):
            transport.abort()

    def probe(self) -> None:
        """Ask the target for its bucket.

        Raises:
            ObjectError: it refuses.
            UnavailableError: there is no answer.
        """
        self.there.ask("HEAD", path_of(self.route.to))

    def copy(self, key: bytes, change: Change, rules: Rules, *, careful: bool) -> tuple[str, int]:
        """What became of a key, and the bytes that were sent. `careful`: look first at what the target has.

        Raises:
            ObjectError: a request was refused, or changed nothing.
            UnavailableError: there was no answer.
        """
        checked_path(self.route.to, key)
        status, given = self._head(self.here, self.route.bucket, key)
        if status == http.client.NOT_FOUND:
            if given.get("x-amz-delete-marker") != "true":
                return "gone", 0
            if change.marker:
                return self._hide(key, rules), 0
            # A marker that came later, or that no rule copies, hides the version.
            status, given = self._head(self.here, self.route.bucket, key, change.version)
            if status == http.client.NOT_FOUND:
                return "gone", 0
        rule = rules.of(key, lambda: self._tags(key, given))
        encryption = given.get(_ENCRYPTION, "")
        if rule is None or given.get(_STATUS) == "REPLICA":
            return "skipped", 0
        if encryption.startswith("aws:kms") and not rule["of_named_keys"]:
            return "skipped", 0
        if careful or change.is_of_attributes:
            has, there = self._head(self.there, self.route.to, key)
            if has == http.client.OK and self._is_copy(key, given, there):
                self._update(key, change, given, there)
                return "updated" if change.tags or change.lock or change.notes else "present", 0
        sent = self._send(key, given, rule)
        if change.notes:
            self._annotate(key, given, {})
        return "copied", sent

    def wants(self, key: bytes, rules: Rules) -> bool:
        """Whether a key that the target lacks is to be there."""
        status, given = self._head(self.here, self.route.bucket, key)
        if status == http.client.NOT_FOUND or given.get(_STATUS) == "REPLICA":
            return False
        rule = rules.of(key, lambda: self._tags(key, given))
        return rule is not None and (rule["of_named_keys"] or not _is_random(given))

    def difference(self, key: bytes, *, metadata: bool) -> str:
        """What differs of a key that both sides have; empty if nothing does."""
        status, given = self._head(self.here, self.route.bucket, key)
        has, there = self._head(self.there, self.route.to, key)
        if http.client.NOT_FOUND in (status, has) or given.get(_STATUS) == "REPLICA":
            return ""
        if not self._is_copy(key, given, there):
            return "content"
        if not metadata:
            return ""
        if _said_of(given) != _said_of(there):
            return "metadata"
        counts = (given.get(_TAGS, "0"), there.get(_TAGS, "0"))
        if counts == ("0", "0"):
            return ""
        documents = [
            side.document(path_of(bucket, key), {"tagging": ""})
            for side, bucket in ((self.here, self.route.bucket), (self.there, self.route.to))
        ]
        return "" if _tags_in(documents[0]) == _tags_in(documents[1]) else "tags"

    def _mark(self, key: bytes, version: str) -> str:
        """The mark of the replica of a version."""
        # Behind the last space, the place that the crate s3 compares.
        place = hashlib.md5(f"{self.route.to}/".encode() + key, usedforsecurity=False).hexdigest()
        return f"{self._source} {version} {place}"

    def _is_copy(self, key: bytes, given: dict[str, str], there: dict[str, str]) -> bool:
        """Whether what the target has is a copy of this version."""
        if given.get("content-length") != there.get("content-length"):
            return False
        etag = there.get("etag", "")
        if there.get(MARK) == self._mark(key, given.get(_VERSION, "null")):
            same_kind = is_md5(etag.strip('"')) == is_md5(given.get("etag", "").strip('"'))
            return not same_kind or etag == given.get("etag") or _is_random(given) or _is_random(there)
        return bool(etag) and etag == given.get("etag")

    def _send(self, key: bytes, given: dict[str, str], rule: ReplicationRule) -> int:
        version, size = given.get(_VERSION, "null"), length_of(given)
        entry = Version(key, size, given.get("etag", "").strip('"'), version, is_marker=False)
        source = _Source(self._session, rule, self._mark(key, version), locks=self._holds_locks(given))
        time: Headers = []
        if "last-modified" in given and self._speaks_to_orcas():
            time = [(_TIME, given["last-modified"].encode())]
            checksum = checksum_of(given)
            is_named = checksum is not None and checksum.algorithm == "sha256" and not IN_PARTS.fullmatch(entry.etag)
            if checksum is not None and is_named and size >= _KNOWN_BYTES_MIN:
                headers = [*source.described(self.route.bucket, entry, given), *time]
                if put_known(*self._places(key, version, {}), size, base64.b64decode(checksum.value), headers):
                    return 0
        target = _Target(self.there, self.route.to, self._stop, time)
        return source.copy(self.route.bucket, entry, target).size

    def _speaks_to_orcas(self) -> bool:
        """Whether the target is an Orcas. Asked once, when there is something to copy."""
        if self._is_orcas is None:
            try:
                self.there.ask("GET", _HEALTH)
                self._is_orcas = True
            except ObjectError as error:
                if error.is_busy and error.status != http.client.NOT_IMPLEMENTED:
                    raise
                self._is_orcas = False
        return self._is_orcas

    def _places(self, key: bytes, version: str, there: dict[str, str]) -> tuple[Place, Place]:
        """Where a version is here, and the object there."""
        to = {"versionId": there[_VERSION]} if _VERSION in there else {}
        here = Place(self.here, path_of(self.route.bucket, key), {"versionId": version})
        return here, Place(self.there, path_of(self.route.to, key), to)

    def _annotate(self, key: bytes, given: dict[str, str], there: dict[str, str]) -> None:
        # Others may take a request for an annotation for one for the object itself.
        if self._speaks_to_orcas():
            copy_annotations(*self._places(key, given.get(_VERSION, "null"), there))

    def _hide(self, key: bytes, rules: Rules) -> str:
        """Bring a delete marker over, if a rule says so and the target has nothing else than copies of what it hides."""
        rule = rules.of(key, dict)
        if rule is None or not rule["markers"]:
            return "skipped"
        status, there = self._head(self.there, self.route.to, key)
        if status == http.client.NOT_FOUND:
            return "present"
        etag = there.get("etag", "")
        if not there.get(MARK, "").startswith(f"{self._source} "):
            # Those of the key itself come first.
            listed = listed_versions(self._session, self.route.bucket, key)
            if all(version.etag != etag.strip('"') for version in takewhile(lambda it: it.key == key, listed)):
                return "skipped"
        self.there.ask("DELETE", path_of(self.route.to, key), headers=[(b"if-match", etag.encode())])
        return "marked"

    def _update(self, key: bytes, change: Change, given: dict[str, str], there: dict[str, str]) -> None:
        """Bring over tags, locks and annotations of a version that the target has."""
        here, place = self._places(key, given.get(_VERSION, "null"), there)
        names = ["tagging"] if change.tags else []
        if change.lock and self._holds_locks(None):
            names += _LOCK_DOCUMENTS
        for name in names:
            try:
                _, document = self.here.ask("GET", here.path, here.query | {name: ""})
            except ObjectError as error:
                if error.status == http.client.NOT_FOUND:
                    continue
                raise
            digest = base64.b64encode(hashlib.md5(document, usedforsecurity=False).digest())
            headers: Headers = [(b"content-md5", digest), (b"content-type", b"application/xml")]
            self.there.ask("PUT", place.path, place.query | {name: ""}, document, headers)
        if change.notes:
            self._annotate(key, given, there)

    def _holds_locks(self, given: dict[str, str] | None) -> bool:
        """Whether the bucket of the target can lock objects. Asked once, when there is something to lock."""
        if given is not None and not any(name in given for name in _LOCKS):
            return False
        if self._locks is None:
            self._locks = self.there.has(path_of(self.route.to), {"object-lock": ""})
        return self._locks

    def _tags(self, key: bytes, given: dict[str, str]) -> dict[str, str]:
        if given.get(_TAGS, "0") == "0":
            return {}
        query = {"tagging": "", "versionId": given.get(_VERSION, "null")}
        document = self.here.document(path_of(self.route.bucket, key), query)
        return _tags_in(document)

    def _head(self, side: Side, bucket: str, key: bytes, version: str = "") -> tuple[int, dict[str, str]]:
        """Status and headers, of what there is or of what says that there is nothing."""
        query = f"versionId={version}" if version else ""
        with side.session.request("HEAD", path_of(bucket, key), query, extra=ASKING) as answer:
            answer.read()
            # A delete marker that is named is 405.
            if answer.status == http.client.METHOD_NOT_ALLOWED and version:
                return http.client.NOT_FOUND, answer.headers
            if answer.status not in (http.client.OK, http.client.NOT_FOUND):
                who = "the target" if side.is_target else "this server"
                text = f"{who} answers HEAD with status {answer.status}"
                raise ObjectError(text, answer.status, f"status {answer.status}", at_target=side.is_target)
            return answer.status, answer.headers


class _TargetSide(Side):
    @property
    def _name(self) -> str:
        return "the target"


class _Source(ServerSource):
    """This server. What is sent of an object has the mark, and what the rule changes."""

    def __init__(self, session: Session, rule: ReplicationRule, mark: str, *, locks: bool) -> None:
        super().__init__(session, "this server")
        self._rule = rule
        self._mark = mark
        self._with_locks = locks

    def described(self, bucket: str, entry: Listed, given: dict[str, str]) -> Headers:
        """The headers with which an object is stored."""
        return self._described(bucket, entry, given)[0]

    def _described(self, bucket: str, entry: Listed, given: dict[str, str]) -> tuple[Headers, tuple[str, ...]]:
        kept, not_kept = super()._described(bucket, entry, given)
        rule = self._rule
        left_out = {MARK.encode()} | ({_CLASS} if rule["storage_class"] else set())
        headers = [(name, value) for name, value in kept if name not in left_out]
        headers.append((MARK.encode(), self._mark.encode()))
        if rule["storage_class"]:
            headers.append((_CLASS, rule["storage_class"].encode()))
        if rule["key_id"] and given.get(_ENCRYPTION, "").startswith("aws:kms"):
            headers += [
                (_ENCRYPTION.encode(), b"aws:kms"),
                (f"{_ENCRYPTION}-aws-kms-key-id".encode(), rule["key_id"].encode()),
            ]
        if self._with_locks:
            headers += [(name.encode(), given[name].encode()) for name in _LOCKS if name in given]
        return headers, not_kept


class _Target(Target):
    """The bucket of a target, whose answers are compared with what was sent."""

    def __init__(self, side: Side, bucket: str, stop: threading.Event, headers: Headers) -> None:
        super().__init__(side.session, bucket, b"", stop)
        self.side = side
        # With what makes the object, in one request or in parts.
        self._condition = headers

    def put(self, key: bytes, body: bytes | Body, headers: Headers, etag: str = "") -> None:
        """As of `Target`.

        Raises:
            ObjectError: the answer names another digest than that of the content.
        """
        given = self.put_object(key, body, headers, etag)
        answered = given.get("etag", "").strip('"')
        if etag and not _is_random(given) and (not answered or (is_md5(answered) and answered != etag)):
            text = "the target answers with another ETag than that of the content"
            raise ObjectError(text, code="OtherETag", at_target=True)


def _tags_in(document: ET.Element) -> dict[str, str]:
    return {_text(tag, "Key"): _text(tag, "Value") for tag in document.iterfind("{*}TagSet/{*}Tag")}


def _said_of(given: dict[str, str]) -> dict[str, str]:
    """The headers by which both sides are compared, beside size and ETag."""
    return {
        name: value
        for name, value in given.items()
        if name in KEPT or (name.startswith(USER) and name not in (MARK, IMPORTED))
    }


def _is_random(given: dict[str, str]) -> bool:
    return given.get(_ENCRYPTION, "").startswith("aws:kms")


def _text(element: ET.Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}") or ""
