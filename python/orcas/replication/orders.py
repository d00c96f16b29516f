"""What people order of replication: a target is checked, a rule is added to a bucket, and both sides are compared."""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import http.client
import ssl
import time
import xml.etree.ElementTree as ET
from typing import Any, Final
from xml.sax.saxutils import escape

from orcas.control.origins import ReplicationTarget
from orcas.errors import OrcasError
from orcas.replication.client import session_of
from orcas.replication.copying import Copier
from orcas.replication.rules import Rules
from orcas.replication.walking import next_page
from orcas.targets.addresses import NotPublicError
from orcas.tools.imports.requests import ObjectError, Side, path_of
from orcas.tools.imports.target import versioning_of
from orcas.tools.session import Session

# S3 refuses signatures that are older.
_CLOCK_SEC_MAX: Final = 900
# A role that stands for none: S3's document must have one, and the key of the target is what copies.
_ROLE: Final = "arn:aws:iam::000000000000:role/orcas-replication"


class RuleError(Exception):
    """A rule cannot be added, or sides cannot be compared; a sentence without a full stop."""


def problem_of(target: ReplicationTarget, here: Session) -> str:
    """Why a target cannot be used; empty if it can. Asks it for its buckets: whoever may not list them is answered 403.

    `here`: requests to this server, which is no target of its own.
    """
    try:
        there = session_of(target)
        try:
            with there.request("GET", "/", "max-buckets=1") as answer:
                answer.read()
                status, given = answer.status, answer.headers
        finally:
            there.close()
    except NotPublicError:
        return f"{target.url} has no public address: mark it private if that is meant"
    except (OrcasError, ssl.SSLError, OSError, http.client.HTTPException) as error:
        return str(error).rstrip(".")
    with contextlib.suppress(ValueError):
        ahead = email.utils.parsedate_to_datetime(given.get("date", "")).timestamp() - time.time()
        if abs(ahead) > _CLOCK_SEC_MAX:
            return f"its clock is off by {abs(ahead):.0f} seconds"
    with here.request("GET", "/", "max-buckets=1") as answer:
        answer.read()
        if answer.headers.get("x-amz-id-2", "") == given.get("x-amz-id-2", "-"):
            return "it is this server itself"
    if status == http.client.FORBIDDEN:
        # Signed with a wrong key, a server says so of whatever is asked; without the right to list buckets, it may.
        return "it refuses the key, or does not let it list buckets"
    return "" if status == http.client.OK else f"it answers with status {status}"


def add_rule(
    here: Session, target: ReplicationTarget, *, bucket: str, to: str, prefix: str, existing: bool, markers: bool
) -> str:
    """Add a rule to the configuration of a bucket; its id.

    Raises:
        RuleError: it cannot be added.
    """
    there, side = session_of(target), Side(here, is_target=False)
    try:
        if versioning_of(Side(there, is_target=True), to) != "Enabled":
            raise RuleError(f"The bucket {to} of the target {target.name} has no versioning: enable it first")
        try:
            document = side.document(path_of(bucket), {"replication": ""})
        except ObjectError as error:
            if error.code != "ReplicationConfigurationNotFoundError":
                raise
            document = ET.fromstring(f"<ReplicationConfiguration><Role>{_ROLE}</Role></ReplicationConfiguration>")  # noqa: S314
        priorities = [int(element.text or 0) for element in document.iterfind("{*}Rule/{*}Priority")]
        name = hashlib.sha256(f"{target.name}/{to}/{prefix}".encode()).hexdigest()[:16]
        word = {True: "Enabled", False: "Disabled"}
        rule = (
            f"<Rule><ID>{name}</ID><Priority>{max(priorities, default=0) + 1}</Priority><Status>Enabled</Status>"
            f"<Filter><Prefix>{escape(prefix)}</Prefix></Filter>"
            f"<ExistingObjectReplication><Status>{word[existing]}</Status></ExistingObjectReplication>"
            f"<DeleteMarkerReplication><Status>{word[markers]}</Status></DeleteMarkerReplication>"
            f"<Destination><Bucket>arn:aws:s3:::{target.name}/{to}</Bucket></Destination></Rule>"
        )
        document.append(ET.fromstring(rule))  # noqa: S314 - made above
        for element in document.iter():
            element.tag = element.tag.rpartition("}")[2]
        side.ask("PUT", path_of(bucket), {"replication": ""}, ET.tostring(document))
    except NotPublicError:
        raise RuleError("The target has no public address, and is not marked private") from None
    except (ObjectError, OrcasError) as error:
        raise RuleError(str(error).rstrip(".")) from None
    finally:
        there.close()
    return name


def verified(copier: Copier, rules: Rules, after: bytes, *, metadata: bool) -> dict[str, Any]:
    """The next keys behind `after`, compared by name, size and ETag; with `metadata`, also by what heads say of both.

    Raises:
        RuleError: a side cannot be read.
    """
    bucket, to = copier.route.bucket, copier.route.to
    try:
        page = next_page(copier.here, bucket, copier.there, to, rules.prefix, after, everything=metadata)
        differences = []
        for found in page.differences:
            if not rules.may_apply(found.key):
                continue
            if found.is_missing:
                what = "missing" if copier.wants(found.key, rules) else ""
            elif found.is_gone:
                # What a delete marker hides here stays there, unless a rule copies markers.
                rule = rules.of(found.key, dict)
                what = "only there" if rule is not None and rule["markers"] else ""
            else:
                what = copier.difference(found.key, metadata=metadata)
            if what:
                differences.append({"key": found.key.decode(errors="replace"), "differs": what})
    except (ObjectError, OrcasError, NotPublicError) as error:
        raise RuleError(str(error).rstrip(".") or "The target has no public address") from None
    return {
        "compared": page.compared, "differences": differences, "after": page.last.decode(errors="replace"),
        "done": page.is_end,
    }  # fmt: skip
