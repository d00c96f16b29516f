"""Opening the engine, and the types that it returns.

A request enters Rust once, in `Core.accept`, which returns it verified and typed. One of the importers of `_core`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict

from orcas._core import METRIC_LABELS as _CORE_LABELS
from orcas._core import METRICS as _CORE_METRICS
from orcas._core import (
    OPERATIONS,
    AdminCaller,
    BackupPin,
    CheckProgress,
    ClusterNode,
    Core,
    Download,
    ErrorNote,
    EventListener,
    ExpiryCount,
    Form,
    Front,
    IncompleteBodies,
    Keyring,
    ListeningPermit,
    Load,
    LogPlace,
    MasterKeyError,
    MinioDrives,
    MinioObject,
    MinioVersion,
    Postponed,
    Refusal,
    Request,
    Response,
    SealProgress,
    StoreError,
    UsageCounts,
    check_formats,
    check_store,
    chunks_named,
    inspect_keyring,
    inspect_store,
    names_bucket,
    read_keyring,
    repair_store,
    sign,
    simulate,
)
from orcas._core import check_policy as _core_check_policy
from orcas.control.files.admission import check_control_formats, check_owner, check_path
from orcas.control.identities.snapshot import Delta, IdentitySnapshot
from orcas.errors import ConfigurationError, OrcasError, UnavailableError
from orcas.targets.file import read_targets
from orcas.telemetry import cluster, identities, origins, replication, standby
from orcas.telemetry.diagnostics import forwarded

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping
    from pathlib import Path

    from orcas._core import AccessAnswer as AccessAnswer
    from orcas._core import ClusterStep as ClusterStep
    from orcas._core import Description as Description
    from orcas._core import FrontOptions as FrontOptions
    from orcas._core import KeyringOptions, Report
    from orcas._core import LoadReport as LoadReport
    from orcas._core import LoadTarget as LoadTarget
    from orcas._core import LoadWorkload as LoadWorkload
    from orcas._core import ReplicatedBucket as ReplicatedBucket
    from orcas._core import ReplicatedEvents as ReplicatedEvents
    from orcas._core import ReplicationRule as ReplicationRule
    from orcas._core import SalvageReport as SalvageReport
    from orcas._core import Selection as Selection
    from orcas._core import Stages as Stages
    from orcas._core import Surroundings as Surroundings
    from orcas._core import TaskNumbers as TaskNumbers
    from orcas._core import Traced as Traced
    from orcas.control.identities.snapshot import AccountRow, IdentityRow, KeyRow, LimitRow, PolicyRow
    from orcas.control.sealing import Sealer
    from orcas.settings.config import Settings

__all__ = [
    "METRICS",
    "METRIC_LABELS",
    "OPERATIONS",
    "Access",
    "AdminCaller",
    "BackupPin",
    "CheckOptions",
    "CheckProgress",
    "ClusterNode",
    "Core",
    "Download",
    "ErrorNote",
    "EventListener",
    "ExpiryCount",
    "Form",
    "Front",
    "IncompleteBodies",
    "Keyring",
    "ListeningPermit",
    "Load",
    "LogPlace",
    "MinioDrives",
    "MinioObject",
    "MinioVersion",
    "Postponed",
    "Refusal",
    "Request",
    "Response",
    "SealProgress",
    "StoreError",
    "UsageCounts",
    "admit",
    "authenticate",
    "check_closed",
    "check_policy",
    "close_core",
    "closed_sealer",
    "follow",
    "inspect_files",
    "inspect_keyring",
    "named_in_packs",
    "names_bucket",
    "open_core",
    "reopen_keyring",
    "repair_closed",
    "replace_identities",
    "salvage_core",
    "sealer_of",
    "shows_all",
    "sign",
    "standby_core",
]


# As of `_core`, with those that only Python counts.
METRICS: Final = [
    *_CORE_METRICS, *origins.FAMILIES, *identities.FAMILIES, *replication.FAMILIES, *standby.FAMILIES, *cluster.FAMILIES,
]  # fmt: skip
METRIC_LABELS: Final = [*_CORE_LABELS, *origins.LABELS, *replication.LABELS, *cluster.LABELS]

log = logging.getLogger("orcas")


class CheckOptions(TypedDict):
    """Options of a check: whether content is read, by how many threads, and at how many bytes a second (0: no limit)."""

    read_content: bool
    threads: int
    bytes_per_sec: int


# The name of a bucket in an ARN of S3, up to its first wildcard, and that. A name with a variable is not looked at.
_ARN: Final = re.compile(r"arn:aws:s3:::(?![^/]*\$\{)([^/*?]*)([*?]?)")
_BUCKET: Final = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_BUCKET_START: Final = re.compile(r"(?!.*\.\.)([a-z0-9][a-z0-9.-]{0,62})?")
# Workers wait for the disk most of the time, and one sync serves all workers that wait for it.
_WORKERS_PER_CPU: Final = 4
_WORKERS_MIN: Final = 16
_WORKERS_MAX: Final = 64


def admit(directory: Path) -> None:
    """Whether the store in `directory` may be opened, checked or read, if there is one. Asked before anything of it is read.

    Raises:
        ConfigurationError: no store can be at that path.
        UnavailableError: it is of a format that this version of Orcas does not know, or has files of another user.
    """
    check_path(directory)
    check_owner(directory)
    try:
        check_formats(directory)
    except StoreError as error:
        raise UnavailableError(f"The store in {directory} cannot be opened: {error}.") from None
    check_control_formats(directory)


@forwarded()
def open_core(
    settings: Settings,
    snapshot: IdentitySnapshot,
    *,
    keyring_required: bool = True,
    keyring_noted: int = 0,
    node: ClusterNode | None = None,
) -> Core:
    """Open the store and start its threads. Blocks while the log is replayed.

    `keyring_required`: create a keyring if there is none and a master key is given, and fail if it does not open.
    Otherwise nothing is created, and a store whose keyring does not open is open without it.
    `keyring_noted`: the newest generation that the store has had. An older keyring is for reading only.
    `node`: the node of a cluster that owns its log.

    Raises:
        ConfigurationError: the master key is missing, or is not that of the keyring.
        UnavailableError: the store is locked, damaged or of another format.
    """
    try:
        keyring = _keyring(settings, required=keyring_required, noted=keyring_noted)
        return Core.open(settings, *_targets(settings), _identities(snapshot), keyring, node)
    except MasterKeyError as error:
        raise ConfigurationError(f"The store in {settings.data} cannot be opened: {error}.") from None
    except StoreError as error:
        raise UnavailableError(f"The store in {settings.data} cannot be opened: {error}.") from None


@forwarded()
def salvage_core(settings: Settings, snapshot: IdentitySnapshot) -> tuple[Core, SalvageReport]:
    """Open what is left of the store for reading, and report what is damaged. Blocks while everything is read.

    Raises:
        UnavailableError: the store is locked, or nothing of it is left.
    """
    try:
        keyring = _keyring(settings, required=False, read_only=True)
        return Core.salvage(settings, *_targets(settings), _identities(snapshot), keyring)
    except StoreError as error:
        raise UnavailableError(f"The store in {settings.data} cannot be salvaged: {error}.") from None


@forwarded()
def standby_core(settings: Settings, snapshot: IdentitySnapshot) -> Core:
    """Open the copy of a store that is in use elsewhere, for reading. Blocks while the index follows the log.

    Raises:
        UnavailableError: the copy is locked, damaged, or not complete.
    """
    try:
        keyring = _keyring(settings, required=False, read_only=True)
        return Core.standby(settings, _targets(settings)[1], _identities(snapshot), keyring)
    except StoreError as error:
        raise UnavailableError(f"The standby in {settings.data} cannot be opened: {error}.") from None


@forwarded()
def follow(
    core: Core,
    files: list[str],
    ends: Sequence[tuple[str, int]] = (),
    holes: Sequence[tuple[str, int, int]] = (),
    anew: Sequence[str] = (),
    *,
    until: int | None = None,
) -> int:
    """Show what the copy of the log has by now, up to the record `until`. The sequence of the last record. Blocks.

    `files`, `ends` of files and `holes`: what the other store does not have any more. `anew`: files of which what was given
    up earlier does not count any more.

    Raises:
        UnavailableError: the index cannot follow, or the log is damaged.
    """
    try:
        return core.follow((files, [*ends], [*holes], [*anew]), until)
    except StoreError as error:
        raise UnavailableError(f"The standby cannot follow the log: {error}.") from None


def shows_all(core: Core) -> bool:
    """Whether a follower shows everything that its copy of the log has, and nothing was acknowledged before it was durable.
    Blocks.

    Raises:
        UnavailableError: the log is damaged.
    """
    try:
        return core.shows_all()
    except StoreError as error:
        raise UnavailableError(f"The copied log cannot be read: {error}.") from None


def named_in_packs(
    directory: Path, given_up: list[str], start: bytes | None, after: int
) -> tuple[bytes, list[tuple[str, int, int | None]]]:
    """What a copied log names in packs behind a place of it, as of `_core.chunks_named`. Blocks.

    Raises:
        UnavailableError: the log is damaged.
    """
    try:
        return chunks_named(directory, given_up, start, after)
    except StoreError as error:
        raise UnavailableError(f"The copied log cannot be read: {error}.") from None


def reopen_keyring(core: Core, settings: Settings) -> None:
    """Open the keyring of a standby again, whose files are new. Blocks."""
    core.reopen_keyring(settings.data, _keyring(settings, required=False, read_only=True))


def replace_identities(core: Core, snapshot: IdentitySnapshot) -> None:
    """Verify requests that arrive from now on with `snapshot`, and with nothing of an earlier one."""
    core.replace_identities(*_identities(snapshot))


def check_policy(document: str, kind: str, bucket: str | None = None) -> list[str]:
    """Warnings about a policy of this kind: identity, session, boundary, trust, or resource, of a bucket.

    Raises:
        ValueError: it is none; the message is AWS's.
    """
    return _core_check_policy(document, kind, bucket) + list(_of_no_bucket(json.loads(document)["Statement"]))


def _of_no_bucket(statements: Any) -> Iterator[str]:
    """A sentence about each ARN that no bucket, and so no object, can have."""
    for place, statement in enumerate(statements if isinstance(statements, list) else [statements], 1):
        for name in ("Resource", "NotResource"):
            given = statement.get(name, [])
            for arn in given if isinstance(given, list) else [given]:
                found = _ARN.match(arn)
                if found is not None and not (_BUCKET_START if found[2] else _BUCKET).fullmatch(found[1]):
                    yield f"Statement {statement.get('Sid', place)} names {arn}, and no bucket can have such a name."


class Access:
    """What identities need of the engine: what policies say and, of an open store, who may do what from now on."""

    def __init__(self, core: Core | None) -> None:
        self._core = core

    def replace(self, snapshot: IdentitySnapshot) -> None:
        """Let requests that arrive from now on see these identities, and nothing of earlier ones."""
        if self._core is not None:
            replace_identities(self._core, snapshot)

    def change(self, delta: Delta) -> None:
        """Let requests that arrive from now on see a change.

        Raises:
            ValueError: it does not fit to what the engine knows. Nothing has changed.
        """
        if self._core is not None:
            self._core.change_identities(
                delta.accounts, delta.policies, delta.identities, delta.keys, delta.limits, delta.removed
            )

    def use_session_keys(self, keys: list[tuple[bytes, bytes]]) -> None:
        """Open tokens of sessions with these keys, each with its id, from now on."""
        if self._core is not None:
            self._core.use_session_keys(keys)

    def now_ms(self) -> int:
        """Milliseconds since 1970, as sessions expire."""
        return time.time_ns() // 1_000_000 if self._core is None else self._core.now_ms()

    def check(self, document: str, kind: str) -> list[str]:
        """As of `check_policy`."""
        return check_policy(document, kind)

    def evaluate(self, question: dict[str, Any]) -> Any:
        """The access decision, or the list of them, as of `_core.simulate`.

        Raises:
            ValueError: the question cannot be read.
        """
        return json.loads(simulate(json.dumps(question)))

    def used(self, access_keys: list[str]) -> list[int | None]:
        """When each of these keys was used last since the start, in milliseconds since 1970."""
        return [None] * len(access_keys) if self._core is None else self._core.keys_used(access_keys)


def authenticate(core: Core, scope: MutableMapping[str, Any], service: str, body: bytes) -> str:
    """The access key that has signed a request for a service. `body`: the SHA-256 of its body.

    Raises:
        Refusal: nobody has, or for another service.
    """
    client = (scope.get("client") or ("",))[0]
    return core.authenticate(
        scope["method"], scope["raw_path"], scope["query_string"], scope["headers"], service, body, client
    )


class _KeyringSealer:
    """Seals secrets of the control plane with a keyring."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def seal(self, name: str, secret: bytes) -> bytes:
        """As of `Sealer`."""
        try:
            return self._keyring.seal_control(name, secret)
        except StoreError as error:
            raise UnavailableError(f"It cannot be sealed: {error}.") from None

    def open(self, name: str, sealed: bytes) -> bytes | None:
        """As of `Sealer`."""
        return self._keyring.open_control(name, sealed)


def sealer_of(core: Core) -> Sealer | None:
    """The sealer of the secrets of the control plane; None if the store has no keyring, or it is not open."""
    keyring = core.keyring()
    return _KeyringSealer(keyring) if isinstance(keyring, Keyring) else None


def closed_sealer(settings: Settings) -> Sealer | None:
    """The sealer of a store that this process does not have open, for reading. None without a keyring or a master key.

    Raises:
        ConfigurationError: the master key is not that of the keyring.
        UnavailableError: the keyring cannot be read.
    """
    if settings.master_key is None and settings.master_passphrase is None:
        return None
    try:
        keyring = read_keyring(settings.data, _keyring(settings, required=True, read_only=True))
    except MasterKeyError as error:
        raise ConfigurationError(f"The keyring of {settings.data} cannot be opened: {error}.") from None
    except StoreError as error:
        raise UnavailableError(f"The keyring of {settings.data} cannot be opened: {error}.") from None
    return None if keyring is None else _KeyringSealer(keyring)


def _identities(
    snapshot: IdentitySnapshot,
) -> tuple[
    tuple[AccountRow, ...], tuple[PolicyRow, ...], tuple[IdentityRow, ...], tuple[KeyRow, ...], tuple[LimitRow, ...]
]:
    return snapshot.accounts, snapshot.policies, snapshot.identities, snapshot.keys, snapshot.limits


def _keyring(settings: Settings, *, required: bool, read_only: bool = False, noted: int = 0) -> KeyringOptions:
    return {
        "required": required,
        "read_only": read_only,
        "noted": noted,
        "master_key": settings.master_key,
        "master_passphrase": settings.master_passphrase,
        "cache_entries": settings.key_cache_entries,
        "cache_sec": settings.key_cache_sec,
    }


def _targets(settings: Settings) -> tuple[list[tuple[str, str]], int]:
    """The targets of events, and the number of workers."""
    targets = sorted(read_targets(settings.event_targets_file).values(), key=lambda target: target.name)
    workers = min(_WORKERS_MAX, max(_WORKERS_MIN, _WORKERS_PER_CPU * (os.cpu_count() or 1)))
    return [(target.destination, target.kind) for target in targets], workers


@forwarded()
def check_closed(settings: Settings, progress: CheckProgress, options: CheckOptions) -> Report:
    """Check a store that is not open, with a master key also the tags of what is encrypted. Blocks; changes nothing.

    Raises:
        UnavailableError: it is locked or cannot be read, or the check was cancelled.
    """
    try:
        keyring = _keyring(settings, required=False, read_only=True)
        return check_store(
            settings.data, keyring, progress, options["read_content"], options["threads"], options["bytes_per_sec"]
        )
    except StoreError as error:
        raise UnavailableError(f"The store in {settings.data} cannot be checked: {error}.") from None


@forwarded()
def inspect_files(data: Path, part: str, selection: Selection, take: Callable[[dict[str, Any]], None]) -> None:
    """Call `take` with each selected row of a part of a store, which may be open: log, packs or journal. Blocks."""
    inspect_store(data, part, selection, take)


@forwarded()
def repair_closed(settings: Settings, progress: CheckProgress, *, accept_loss: bool) -> Report:
    """Check a store that is not open, and rebuild its index from the log if necessary. Blocks.

    Raises:
        UnavailableError: it is locked or cannot be read or written.
    """
    try:
        return repair_store(settings, progress, accept_loss)
    except StoreError as error:
        raise UnavailableError(f"The store in {settings.data} cannot be repaired: {error}.") from None


@forwarded()
def close_core(core: Core) -> None:
    """Finish everything submitted, flush, and close the store. Blocks.

    Raises:
        OrcasError: the store had become read-only, or a write acknowledged in a mode other than `sync` was lost.
    """
    try:
        core.close()
    except StoreError as error:
        raise OrcasError(f"The store had stopped writing before it was closed: {error}.") from None
    health = core.health()
    if health.status == "damaged":
        log.error(
            "The store was closed damaged: %s. The next start rebuilds a damaged index, and nothing else", health.detail
        )
