"""The data path of Orcas, in Rust. `CORE_USERS` in tests/test_tidy.py lists the modules that may import it."""

from collections.abc import Callable, MutableMapping, Sequence
from os import PathLike
from typing import Any, Final, TypedDict, final, type_check_only

from orcas.settings.config import Settings

__all__ = [
    "FLOW_MORE",
    "FLOW_STOP",
    "FLOW_WAIT",
    "INCOMPLETE_SHARE",
    "METRICS",
    "METRIC_LABELS",
    "OPERATIONS",
    "PLAN_IN_PIECES",
    "PLAN_RUN",
    "PLAN_STREAM",
    "STRANGERS_SHARE",
    "AdminCaller",
    "BackupPin",
    "BodySink",
    "CheckProgress",
    "ClusterNode",
    "Core",
    "Download",
    "ErrorNote",
    "EventDeliveries",
    "EventListener",
    "EventParser",
    "ExpiryCount",
    "Form",
    "Front",
    "Health",
    "IncompleteBodies",
    "IncompleteBody",
    "Keyring",
    "ListeningPermit",
    "Load",
    "LogPlace",
    "Maintenance",
    "MasterKeyError",
    "MinioContent",
    "MinioDrives",
    "MinioObject",
    "MinioVersion",
    "MinioWalk",
    "Postponed",
    "Refusal",
    "ReplicatedEvents",
    "Request",
    "RequestLogs",
    "Response",
    "SealProgress",
    "StoreError",
    "UsageCounts",
    "check_formats",
    "check_policy",
    "check_store",
    "chunks_named",
    "collect_diagnostics",
    "end_diagnostics",
    "format_content_length",
    "format_content_range",
    "format_etag",
    "format_last_modified",
    "inspect_keyring",
    "inspect_store",
    "md5",
    "names_bucket",
    "open_secret",
    "parse_event_records",
    "read_keyring",
    "repair_store",
    "seal_secret",
    "set_object_headers",
    "set_object_headers_with_content_type",
    "sign",
    "simulate",
    "take_diagnostics",
    "wait_for_diagnostics",
]

OPERATIONS: Final[list[str]]
"""Names of the S3 operations; `Request.operation` is an index into them."""

METRICS: Final[list[tuple[str, str, str, list[str], str]]]
"""Name, kind, unit, labels and meaning of every metric. A name is without the suffix of its samples, such as `_total`."""

METRIC_LABELS: Final[list[tuple[str, str, list[str]]]]
"""Metric, label and values of every label whose values are fixed. Of buckets: those that are no name."""

# Rows of the control plane, as of `Core.replace_identities`.
_AccountRow = tuple[str, str, str]
_PolicyRow = tuple[str, str]
_IdentityRow = tuple[str, str, str, str, str, Sequence[str], str | None, Sequence[tuple[str, str]]]
_KeyRow = tuple[str, str, str, str | None, bool]
_LimitRow = tuple[str, int, int]
_Identities = tuple[
    Sequence[_AccountRow], Sequence[_PolicyRow], Sequence[_IdentityRow], Sequence[_KeyRow], Sequence[_LimitRow]
]

FLOW_MORE: Final[int]
FLOW_WAIT: Final[int]
FLOW_STOP: Final[int]
# Shares of the budget for bodies: of incomplete small ones, and of those whose senders are not known yet.
INCOMPLETE_SHARE: Final[int]
STRANGERS_SHARE: Final[int]
PLAN_RUN: Final[int]
PLAN_STREAM: Final[int]
PLAN_IN_PIECES: Final[int]

@type_check_only
class Diagnostic(TypedDict):
    """What a thread of the engine reports. `part` is its crate, `level` one of `logging`, `file` and `line` its source."""

    part: str
    level: int
    file: str
    line: int
    message: str
    fields: dict[str, str | int | float | bool]

def collect_diagnostics(level: int) -> None:
    """Collect diagnostics from this level of `logging` on, for `take_diagnostics`. Called again, it changes the level."""

def wait_for_diagnostics() -> bool:
    """Block until `take_diagnostics` has something. False after `end_diagnostics`."""

def take_diagnostics() -> list[Diagnostic]:
    """The diagnostics that nobody has taken yet, in order: at most 256, and lines that count what was left out."""

def end_diagnostics() -> None:
    """Free whoever blocks in `wait_for_diagnostics`. Diagnostics are collected as before."""

class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """A request is answered with an error."""

    args: tuple[int, str, str]
    """Status, code and message."""

    def __init__(self, status: int, code: str, message: str) -> None: ...

class StoreError(Exception):
    """The store cannot be opened, read or closed in order. The message is one sentence."""

class MasterKeyError(StoreError):
    """The master key is missing, or does not open the keyring. The message is one sentence."""

def inspect_keyring(content: bytes) -> tuple[str, int] | None:
    """The store id and the generation of the bytes of a keyring; None if they are damaged."""

def read_keyring(directory: str | PathLike[str], options: KeyringOptions) -> Keyring | None:
    """Open the keyring in `directory` for reading; None if there is none. Blocks for scrypt.

    Raises:
        MasterKeyError: the master key is missing or wrong.
        StoreError: no copy can be read.
    """

@type_check_only
class EventRecord(TypedDict):
    """An event of a bucket or object. Text that it does not have is empty.

    `name`: such as `ObjectCreated:Put`. `key`: None if the event is about the bucket. `size` in bytes.
    """

    name: str
    time_ms: int
    sequencer: str
    bucket: str
    owner: str
    key: str | None
    size: int | None
    etag: str
    version_id: str
    principal: str
    request_id: str
    source_address: str
    region: str
    configuration_id: str

def parse_event_records(json: str) -> list[EventRecord]:
    """The events of a message in S3's structure.

    Raises:
        ValueError: it is no such message.
    """

@final
class EventParser:
    """Reads one stream of server-sent events. Not thread-safe."""

    def __new__(cls) -> EventParser: ...
    def push(self, piece: bytes) -> list[tuple[str, str, str]]:
        """Take the next bytes of the stream, and return id, type and data of the events that they complete.

        Raises:
            ValueError: a line or an event is too long. This is final.
        """

    @property
    def last_id(self) -> str:
        """The id to continue after; empty if the stream gave none."""

    @property
    def retry_ms(self) -> int | None:
        """How long the stream asks clients to wait before they connect again."""

def md5(content: bytes) -> bytes:
    """The MD5 (RFC 1321) of one message, as a body that comes alone gets it, 16 bytes; for benchmarks and tests."""

def format_etag(md5: bytes, parts: int) -> bytes:
    """The value of an ETag, as every response is given it; for benchmarks and tests, like what follows.

    Args:
        md5: 16 bytes.
        parts: of a multipart object, else 0; at most 65,535.

    Raises:
        ValueError: these are not 16 bytes.
    """

def format_content_length(length: int) -> bytes:
    """The value of a Content-Length in bytes, below 2^64."""

def format_last_modified(modified_ms: int) -> bytes:
    """The HTTP date of a time in milliseconds since 1970; before 1970 and after the year 9999 it is clamped."""

def format_content_range(first: int, last: int, size: int) -> bytes:
    """The value of a Content-Range: first and last byte of `size` bytes, each below 2^64."""

def set_object_headers(md5: bytes, parts: int, length: int, modified_ms: int) -> bytes:
    """The header lines of an object of the default type: ETag, Last-Modified, Accept-Ranges, Content-Length, Content-Type.

    Raises:
        ValueError: the MD5 has not 16 bytes.
    """

def set_object_headers_with_content_type(
    md5: bytes, parts: int, length: int, modified_ms: int, content_type: bytes
) -> bytes:
    """As `set_object_headers`, with the type that the object was given.

    Raises:
        ValueError: the MD5 has not 16 bytes, or the type has a line end or a NUL in it.
    """

def names_bucket(host: bytes, domains: list[str], website_host: str | None) -> bool:
    """Whether a Host header names a bucket or its website, so that every path belongs to it.

    Args:
        host: the header's value.
        domains: the names under which buckets are hosts besides `localhost`, in lower case.
        website_host: the name under which websites are hosts, in lower case.
    """

def check_policy(document: str, kind: str, bucket: str | None) -> list[str]:
    """Read an access policy. Returns sentences about what it says and probably does not mean.

    Args:
        document: the text, as JSON.
        kind: what it is for.
        bucket: the bucket whose policy it is; None for one of another kind.

    Raises:
        ValueError: it is refused, in the words of AWS.
    """

def simulate(request: str) -> str:
    """Make the access decision that the server would make, and name the statement behind it. Both are JSON.

    Args:
        request: `principal` (`arn`, `kind`: root, user, role or anonymous, `account`, `id`, `name`, `tags`, and of a
            session `identity`: the ARN of its user or role), the policies `identity` (a list), `boundary`, `session` and
            `resource_policy`, each a document or its text, `resource_account`, `action`, `resource` (an ARN), and
            `context`: a list of values for each key. Action and resource may be lists.

    Returns:
        `decision` (allowed, explicitDeny or implicitDeny), `policy` (identity:0, boundary, session or resource),
        `statement` (its place in the policy) and `sid`, which are null if there is none. A list of these, for each pair,
        if action or resource is a list.

    Raises:
        ValueError: something of it cannot be read, or it takes too much to compare.
    """

def seal_secret(key: bytes, nonce: bytes, bound: bytes, secret: bytes) -> bytes:
    """A secret sealed with AES-256-GCM, its tag of 16 bytes at the end.

    Args:
        key: 32 bytes.
        nonce: 12 bytes, new for this key.
        bound: what must be the same when it is opened.
    """

def open_secret(key: bytes, nonce: bytes, bound: bytes, sealed: bytes) -> bytes | None:
    """The secret that `seal_secret` has sealed; None if it was changed, or key, nonce or `bound` is another one."""

def sign(
    method: str,
    raw_path: bytes,
    query: bytes,
    headers: list[tuple[bytes, bytes]],
    payload: str,
    keys: tuple[str, str],
    region: str,
    now: int,
) -> list[tuple[str, str]]:
    """The headers that sign a request, besides those it has.

    Args:
        method: as in the request line.
        raw_path: the path as in the request line.
        query: the query string, without the question mark.
        headers: lower-case names and values; all of them are signed, and `host` has to be one.
        payload: what `x-amz-content-sha256` says.
        keys: access key and secret.
        region: for which the signature is.
        now: seconds since 1970.

    Raises:
        ValueError: the path or the query cannot be signed.
    """

@type_check_only
class BucketStats(TypedDict):
    """A bucket, in bytes where nothing else is said."""

    name: str
    objects: int
    bytes: int
    history: int
    logical: int
    stored: int
    shared: int

@type_check_only
class TotalStats(TypedDict):
    """The whole store, in bytes."""

    logical: int
    stored: int
    dead: int

@type_check_only
class FileStats(TypedDict):
    """Files: how many, their lengths, and the space they take."""

    log_files: int
    log_bytes: int
    log_allocated: int
    packs: int
    pack_bytes: int
    pack_allocated: int
    index_bytes: int
    index_wal_bytes: int

@type_check_only
class TraceIds(TypedDict):
    """The ids of a traced request in hexadecimal digits; `parent_id` is the span of its caller."""

    trace_id: str
    span_id: str
    parent_id: str | None

@type_check_only
class Stages(TypedDict):
    """Seconds of a request: all of it; until its sender was known, its body had arrived, its response was ready, and
    that was sent. The steps in between: stage, name, when it began, and how long it took. Whether its head was refused,
    whether somebody has signed it, and what became of it."""

    total: float
    authenticate: float
    receive: float
    execute: float
    send: float
    steps: list[tuple[str, str, float, float]]
    refused: bool
    verified: bool
    status: int | None
    code: str | None
    slow: bool
    trace: TraceIds | None

@type_check_only
class Traced(TypedDict):
    """A traced request that is done: when that was, in nanoseconds since 1970, how many spans show it, and what they say."""

    ended_ns: int
    spans: int
    stages: Stages
    operation: str | None
    bucket: str | None
    key: str | None
    method: str
    client: str | None

@type_check_only
class TaskNumbers(TypedDict):
    """A periodic task. Moments are in seconds since 1970; `succeeded_at` is that of the start before the first success."""

    name: str
    succeeded: int
    failed: int
    running: bool
    interval: float | None
    succeeded_at: float
    duration: float | None
    due_at: float | None

@type_check_only
class Surroundings(TypedDict):
    """What metrics show and Rust does not know: when the certificate expires and whether its files cannot be used, error
    codes of ended connections with counts, most buckets by name, spans that were sent and dropped, targets of events, and
    periodic tasks. `process`: when it started and its processor time, in seconds, and its memory."""

    version: str
    connections: int
    certificate: tuple[float, bool] | None
    refusals: list[tuple[str, int]]
    buckets_max: int
    spans: tuple[int, int]
    targets: list[TargetCounts]
    tasks: list[TaskNumbers]
    process: tuple[float, float, int | None]

@type_check_only
class TargetCounts(TypedDict):
    """As in `orcas.targets.delivery`."""

    name: str
    after: str | None
    since_ms: int
    ok: int
    retried: int
    dead: int
    waiting: int
    gaps: int

@type_check_only
class BufferCounts(TypedDict):
    """What became of the buffers of the pool since the store was opened.

    Taken again, allocated because none was there, kept, freed for want of room or because they had grown; bytes that lie
    unused, and bytes in use.
    """

    hits: int
    misses: int
    returned: int
    discarded: int
    held_bytes: int
    out_bytes: int

@type_check_only
class Connections(TypedDict):
    """The read connections of the index.

    Loans of an open one, loans that opened one, callers that found all out and waited, those of them that waited in vain;
    and how many there are now. Without pooling none is idle.
    """

    hits: int
    misses: int
    waits: int
    refusals: int
    open: int
    idle: int

@type_check_only
class Pools(TypedDict):
    """What is kept to be used again. Without pooling all numbers of the buffers stay 0."""

    enabled: bool
    buffers: BufferCounts
    connections: Connections

@type_check_only
class Stats(TypedDict):
    """What a store holds and takes."""

    store: str
    buckets: list[BucketStats]
    totals: TotalStats
    files: FileStats
    pools: Pools

@type_check_only
class ReclaimStats(TypedDict):
    """What was reclaimed: blobs, log files and packs are numbers of them."""

    blobs: int
    condemned_bytes: int
    punched_bytes: int
    moved_bytes: int
    log_files: int
    packs: int

@type_check_only
class ReclaimState(TypedDict):
    """How reclamation is."""

    total: ReclaimStats
    requested: bool
    failed: str | None

@type_check_only
class BucketSnapshot(TypedDict):
    """A snapshot of a bucket."""

    bucket: str
    name: str
    # Milliseconds since 1970.
    created_ms: int

@type_check_only
class AbandonedStats(TypedDict):
    """Uploads that were looked at, that were aborted, and that somebody went on with or ended in between."""

    seen: int
    aborted: int
    changed: int

@type_check_only
class LifecycleStats(TypedDict):
    """What lifecycle rules did, in numbers.

    `buckets` had rules, and `seen` are the versions and uploads in them that were looked at. `versions` were removed for
    good, `markers` are delete markers that were added, and `uploads` were aborted. What had `changed` since it was looked
    at stayed, and so did what is `locked`.
    """

    buckets: int
    seen: int
    versions: int
    markers: int
    uploads: int
    changed: int
    locked: int

@type_check_only
class LifecycleState(TypedDict):
    """How lifecycle is, since the store was opened. `runs` came to their end; `failed` is why the last one did not."""

    total: LifecycleStats
    runs: int
    running: bool
    failed: str | None

@final
class CheckProgress:
    """How far a check is. Any thread may look, or end it."""

    def __new__(cls) -> CheckProgress: ...
    @property
    def phase(self) -> str:
        """What it is doing, in words."""

    @property
    def done_bytes(self) -> int:
        """Bytes that were read."""

    @property
    def total_bytes(self) -> int:
        """Bytes that will be read, as far as is known."""

    def cancel(self) -> None:
        """End it: it fails at its next look."""

@final
class ExpiryCount:
    """What a lifecycle document would remove at a time, counted from lists of versions and uploads, in their order.

    The constructor raises ValueError for a document that the server would refuse.
    """

    def __new__(cls, document: bytes, now_ms: int) -> ExpiryCount: ...
    def prefixes(self, uploads: bool) -> list[str]:
        """The prefixes of all keys whose versions, or uploads, may go, in ascending order; none begins with another."""

    def needs_tags(self, key: str, size: int) -> bool:
        """Whether the tags of an object matter."""

    def version(self, key: str, size: int, modified_ms: int, is_marker: bool, tags: list[tuple[str, str]]) -> None:
        """Count the next version: those of a key follow each other, the newest first."""

    def upload(self, key: str, begun_ms: int) -> None:
        """Count an unfinished upload."""

    def end(self) -> None:
        """The list of a prefix is at its end."""

    def rows(self) -> list[tuple[str, int, int, int, int, int]]:
        """By rule that removes anything: its ID, current objects, old versions, delete markers, uploads, and bytes."""

    def sweeping(self) -> list[str]:
        """The IDs of rules that remove all objects, or all old versions, within a day or so."""

@final
class SealProgress:
    """How far the sealing of what is stored is. Any thread may look, or end it."""

    def __new__(cls) -> SealProgress: ...
    @property
    def seen(self) -> int:
        """Versions that were looked at."""

    @property
    def versions(self) -> int:
        """Versions that were sealed."""

    @property
    def bytes(self) -> int:
        """Bytes of their content."""

    @property
    def stored_bytes(self) -> int:
        """Bytes that were stored again."""

    @property
    def finishing(self) -> bool:
        """Whether all versions were seen, and files are rewritten."""

    def cancel(self) -> None:
        """End it soon. What it has done counts."""

@type_check_only
class LeftUnsealed(TypedDict):
    """Contents and chunks that are not sealed, incomplete uploads without encryption, and what files may still have."""

    blobs: int
    bytes: int
    uploads: int
    files: bool
    index: bool

@type_check_only
class SealReport(TypedDict):
    """What was sealed, and what was not. `bytes`: of the content of versions and of incomplete uploads."""

    seen: int
    versions: int
    uploads: int
    bytes: int
    stored_bytes: int
    changed: int
    no_room: int
    too_long: int
    unreadable: int
    cancelled: bool
    left: LeftUnsealed

@type_check_only
class Finding(TypedDict):
    """Something that is not as it should be; `damage` says whether that is damage."""

    kind: str
    damage: bool
    place: str
    detail: str

@type_check_only
class Group(TypedDict):
    """Findings of one cause: the kind of place, what is wrong with numbers as `#`, the first place, how many."""

    kind: str
    damage: bool
    area: str
    cause: str
    first: str
    count: int

@type_check_only
class Loss(TypedDict):
    """A version or part that cannot be read whole any more, or an upload without its record; bytes of all of it."""

    bucket: str
    key: bytes
    version_id: str | None
    upload: str | None
    bytes: int
    reason: str

@type_check_only
class IndexReport(TypedDict):
    """`equal`, `different`, `absent` or `not compared`, and the first difference or the reason."""

    state: str
    detail: str | None

@type_check_only
class TagReport(TypedDict):
    """Sealed contents, chunks and metadata: verified by their tags, sealed with keys of customers, and without a key.

    `why`: why the keyring was not open, if it was not.
    """

    verified: int
    of_customers: int
    without_key: int
    why: str | None

@type_check_only
class Report(TypedDict):
    """What a check found; findings and losses may be more than are listed.

    `groups` counts findings by cause. `affected` names objects, as `bucket/key`, of which the index says something else
    than the log.
    """

    clean: bool
    findings: list[Finding]
    findings_total: int
    groups: list[Group]
    affected: list[str]
    affected_total: int
    losses: list[Loss]
    losses_total: int
    blobs: int
    bytes: int
    log_files: int
    packs: int
    tags: TagReport
    index: IndexReport
    seconds: float
    given_up: GivenUp | None

@type_check_only
class GivenUp(TypedDict):
    """What a repair went on without; `losses` may be more than are listed.

    `records` are sequences, first to last, that could not be read; `buckets` names that were made up; `held` names
    of buckets and how many of their versions got a legal hold, since a lost record may have locked them; `kept` paths.
    """

    losses: list[Loss]
    losses_total: int
    records: list[tuple[int, int]]
    buckets: list[str]
    held: list[tuple[str, int]]
    kept: list[str]

@type_check_only
class ScrubDamage(TypedDict):
    """Something damaged that the scrub came upon."""

    place: str
    detail: str

@type_check_only
class ScrubState(TypedDict):
    """How the scrub is doing. Bytes are those of the present pass; the rate is in bytes a second, 0 for none."""

    rate: int
    passes: int
    done_bytes: int
    total_bytes: int
    position: str
    damaged: list[ScrubDamage]
    damaged_total: int
    failed: str | None

@type_check_only
class Selection(TypedDict):
    """What `inspect_store` shows. None or an empty list selects everything."""

    kinds: list[str]
    bucket: bytes | None
    key: bytes | None
    prefix: bytes | None
    first: int | None
    last: int | None
    file: str | None

def inspect_store(
    data: str | PathLike[str], part: str, selection: Selection, take: Callable[[dict[str, Any]], object]
) -> None:
    """Show what the files of a store contain; changes nothing, and takes no lock. Blocks.

    Args:
        data: the directory.
        part: `log`, `packs` or `journal`.
        selection: which rows are shown. What cannot be read is a row of the kind `unreadable`.
        take: called with each row: `file`, `byte`, `sequence`, `kind` and more, by kind. Its exception ends the call.
    """

def chunks_named(
    data: str | PathLike[str], given_up: list[str], start: bytes | None, after: int
) -> tuple[bytes, list[tuple[str, int, int | None]]]:
    """Read a copied log behind the position `start`, or all of it, for what the records behind `after` name in packs.

    Returns the position of its end, and names of packs with the bytes to copy: from, to, None for the end of the pack.
    `given_up` are files that count as gone. Blocks.

    Raises:
        StoreError: the log is damaged.
    """

@final
class MinioDrives:
    """The drives of one pool of a stopped MinIO, of which some may be missing."""

    missing: tuple[int, int]
    """Drives that were not named, and all."""

    def __new__(cls, directories: Sequence[str | PathLike[str]], key: str | None) -> MinioDrives:
        """Look at their formats. `key`: NAME:KEY of its KMS. Blocks.

        Raises:
            ValueError: they are no such drives, or too few, or the key is not valid.
        """

    def buckets(self) -> list[str]:
        """Names, in order. Blocks.

        Raises:
            ValueError: too many drives cannot be listed.
        """

    def documents(self, bucket: str) -> dict[str, bytes]:
        """The documents of a bucket, by their names for MinIO. Blocks.

        Raises:
            ValueError: they cannot be read.
        """

    def unsealed(self, path: str, content: bytes) -> bytes | None:
        """What a file of MinIO's own holds, if it is encrypted with the key. `path`: below the directory of a drive."""

    def walk(self, bucket: str, prefix: bytes) -> MinioWalk:
        """The objects of a bucket whose keys begin with `prefix`, in the order of their keys."""

@final
class MinioWalk:
    """Objects, page by page."""

    def page(self, objects: int) -> list[MinioObject]:
        """The next ones, at most that many; none at the end. Blocks."""

@final
class MinioObject:
    """An object. `problem` is why nothing is known of it; `interrupted` counts versions that were never whole."""

    key: bytes
    interrupted: int
    problem: str
    versions: list[MinioVersion]
    """From the newest to the oldest."""

    def remove(self) -> None:
        """Remove it from the drives. Blocks.

        Raises:
            ValueError: it stays, in whole or in part.
        """

@final
class MinioVersion:
    """A version. `problem` is why it cannot be read, if that is known; `parts` has the sizes of its parts."""

    id: str
    is_marker: bool
    is_sealed: bool
    """Whether MinIO had encrypted it; what is read here is not."""
    problem: str
    parts: list[int]
    metadata: dict[str, bytes]
    """By names in lower case; those of MinIO itself begin with `x-minio-internal-`."""

    def content(self, part: int) -> MinioContent:
        """The bytes of a part, by its place. Blocks.

        Raises:
            IndexError: there is no such part.
        """

@final
class MinioContent:
    """Pieces of content, each verified. Iterating blocks, and raises ValueError where they cannot be had."""

    def __iter__(self) -> MinioContent: ...
    def __next__(self) -> bytes: ...

def check_formats(data: str | PathLike[str]) -> None:
    """Look at the headers of a store's files; changes nothing, and takes no lock. Blocks.

    Raises:
        StoreError: a file is of a format that is not known here.
    """

def check_store(
    data: str | PathLike[str],
    keyring: KeyringOptions,
    progress: CheckProgress,
    read_content: bool,
    threads: int,
    bytes_per_sec: int,
) -> Report:
    """Check the store of a directory that nobody has open; changes nothing. Blocks.

    Args:
        data: the directory.
        keyring: opened for the tags of what is sealed; if it does not open, they are not verified.
        progress: shows how far it is, and ends it.
        read_content: also read the content of objects.
        threads: that read; 0 for one for each processor, at most four.
        bytes_per_sec: read at most; 0 for no bound.

    Raises:
        StoreError: the store is locked, or the check cannot go on.
    """

def repair_store(settings: Settings, progress: CheckProgress, accept_loss: bool) -> Report:
    """Check a store that nobody has open, and build its index from the log where that is needed. Blocks.

    With `accept_loss` a damaged log is rewritten first, without what is lost.

    Raises:
        StoreError: the store is locked, or cannot be read or written.
    """

@type_check_only
class FrontOptions(TypedDict):
    """What the listener is told.

    `reserved`: `orcas.settings.config.reserved_paths`; `of_node`: those of them that each node of a cluster answers itself;
    `is_owner`: whether requests are carried out before anybody has said who does that; `own_names`: the only hosts.
    `reads_here`: whether a node of a cluster answers reads while another one owns the log.
    """

    threads: int
    reserved: list[str]
    of_node: list[str]
    is_owner: bool
    reads_here: bool
    domains: list[str]
    website_host: str | None
    trusted_proxies: list[str]
    own_names: list[str] | None
    body_budget: int
    max_head_size: int
    head_timeout_sec: int
    body_timeout_sec: int
    idle_timeout_sec: int

@type_check_only
class FrontTls(TypedDict):
    """What connections speak TLS with, as PEM.

    `certificates`: of each the certificate with those that sign it, its key, and its hosts in lower case. The first is for
    clients that name no host, or one that none has. `client_ca`: who signs certificates of clients, which may show one.
    """

    certificates: list[tuple[str, str, list[str]]]
    client_ca: str | None

@final
class Front:
    """Connections of clients, served by threads that never attach to the interpreter.

    In a child of the process that has started it, every call raises `OSError`.
    """

    @staticmethod
    def start(
        core: Core,
        listeners: list[int],
        application: int,
        options: FrontOptions,
        tls: FrontTls | None = None,
        node: ClusterNode | None = None,
    ) -> Front:
        """Serve connections to sockets that listen already, until `stop`. Keep them open until then.

        What is not S3 is passed on over pairs of sockets, an end of each of which is sent over the socket `application`.
        With `tls`, connections speak TLS. `node`: that of a cluster.

        Raises:
            OSError: threads cannot be started.
        """

    def stop(self, seconds: float) -> tuple[int, int]:
        """Accept no more, and give requests under way so many seconds to end. Blocks.

        Returns:
            What was cut off, as `under_way`.
        """

    def under_way(self) -> tuple[int, int]:
        """How many requests are under way, and how many answers their clients do not read."""

    def cut(self) -> None:
        """Let `stop` wait no longer."""

    def connections(self) -> int:
        """How many connections are open."""

    def refusals(self) -> list[tuple[str, int]]:
        """How often connections were ended with an answer of their own, by error code."""

    def set_origins(self, buckets: list[str]) -> None:
        """Name the buckets for which the application fetches the objects that they lack."""

    def use_tls(self, tls: FrontTls) -> None:
        """Use other certificates for new connections.

        Raises:
            ValueError: they cannot be used. Those before stay.
        """

    def use_challenges(self, certificates: list[tuple[str, str, list[str]]]) -> None:
        """Show these to CAs that ask for challenges (TLS-ALPN-01), each for exactly its names in lower case, and no others.

        Raises:
            ValueError: they cannot be used. Those before stay.
        """

    @staticmethod
    def check_tls(tls: FrontTls) -> None:
        """Check that connections can use these certificates.

        Raises:
            ValueError: they cannot.
        """

    def hold(self, held: bool) -> None:
        """Let the application answer everything from now on, or no longer."""

    def be_owner(self, seconds: float | None = None) -> None:
        """Carry requests out here from now on; `seconds`: for so long, unless that is prolonged, and refuse them then."""

    def set_owner(self, url: str | None, authorities: str | None = None) -> None:
        """Pass requests on to another node of the cluster from now on. Those that were begun end where they are.

        Args:
            url: the server, such as `https://node-1:9000`; if `None`, requests are refused with 503.
            authorities: whose certificates count, as PEM. Needed with https.

        Raises:
            ValueError: they cannot be passed on to it. All stays as it was.
        """

    def passed(self) -> list[tuple[str, int]]:
        """How many requests this node did not carry out, by what came of them.

        `answered`: by the owner; `refused`: with 503, as certainly not executed; `lost`: with 500, as nobody knows;
        `repeated`: those of them that went to the owner twice.
        """

@type_check_only
class LoadTarget(TypedDict):
    """The server of a load, a bucket that exists, and who signs. `address` is an IP address, `host` the Host header."""

    address: str
    port: int
    host: str
    bucket: str
    region: str
    access_key: str
    secret_key: str
    session_token: str | None
    timeout_sec: float

@type_check_only
class LoadWorkload(TypedDict):
    """What a load asks. Sizes in bytes; `size_range` stands above the weighted `sizes`."""

    connections: int
    threads: int
    mix: list[tuple[str, int]]
    sizes: list[tuple[int, int]]
    size_range: tuple[int, int] | None
    keys: int
    overwrite: bool
    identical: bool
    signed_payload: bool
    verify: bool
    list_page: int
    parts: int
    part_size: int
    seed: int

@type_check_only
class Latency(TypedDict):
    """In milliseconds; quantiles are off by at most 1/256, the others exact."""

    min: float
    mean: float
    p50: float
    p90: float
    p99: float
    p999: float
    max: float

@type_check_only
class OperationReport(TypedDict):
    """Of one kind of operation: those that were right, their content, and what became of the others."""

    done: int
    bytes: int
    raced: int
    wrong: int
    errors: dict[str, int]
    latency_ms: Latency | None

@type_check_only
class LoadReport(TypedDict):
    """What a phase came to, or all measured ones."""

    seconds: float
    client_cpu_seconds: float
    operations: dict[str, OperationReport]
    wrong_examples: list[str]
    reconnects: int
    given_up: int

@type_check_only
class ClusterLogOptions(TypedDict):
    """What opens a shared log. `log`: the URL without secrets; `credentials`: of a bucket, access key, secret key, token."""

    url: str
    log: str
    credentials: tuple[str, str, str | None] | None
    authorities: str
    call_timeout_sec: float
    deadline_sec: float

@type_check_only
class ClusterStep(TypedDict):
    """What a step of a node has brought.

    `entries` were read, `changed` tells whether files of the log or packs have new bytes, and `keys` whether the keyring
    is new. `given_up` are files, ends of files and holes that the owner has given up, and files that are there anew, so that
    nothing given up of them earlier counts; `small` are files at the top of the directory that are new. `notes` are
    messages of owners, in their order.
    `at_the_end`: this was everything that was acknowledged before the call. `next`: the position of the next entry.
    """

    entries: int
    changed: bool
    keys: bool
    given_up: tuple[list[str], list[tuple[str, int]], list[tuple[str, int, int]], list[str]]
    small: list[str]
    notes: list[bytes]
    at_the_end: bool
    term: int
    next: int

@final
class ClusterNode:
    """The node of a cluster whose files are in a directory. One thread calls `follow`, `take` and `step_down`."""

    def __new__(cls, data: str | PathLike[str], options: ClusterLogOptions) -> ClusterNode:
        """Open the log. Blocks.

        Raises:
            StoreError: its store cannot be used, or the directory is of another log.
        """

    def warning(self) -> str | None:
        """What an operator should know about the store of the log."""

    def glance(self) -> bool:
        """Whether there seems to be something new for `follow`, by one read. Blocks.

        Raises:
            StoreError: the log cannot be read.
        """

    def latency(self) -> float:
        """Seconds that it takes to read the head of the log, once. Blocks.

        Raises:
            StoreError: the log cannot be read.
        """

    def is_refused(self, host: str, port: int, limit_sec: float) -> bool:
        """Whether nothing listens at the address of a server; no if that cannot be told in time. Blocks."""

    def follow(self, until: tuple[int, int] | None = None) -> ClusterStep:
        """Apply what is new in the log, up to its end, or for some hundred batches. Blocks.

        `until`: the position after the last entry to apply, and the id of that, which the owner says that the log has.

        Raises:
            StoreError: the log cannot be read, or begins behind what this node has, or a file cannot be written.
            ValueError: the directory has a store of its own, and the log another one. Nothing was applied.
        """

    def give_up(self, given_up: tuple[list[str], list[tuple[str, int]], list[tuple[str, int, int]], list[str]]) -> None:
        """Give up files, ends of files and holes that the owner has given up; the store is not open. Blocks.

        Raises:
            StoreError: a file cannot be changed.
        """

    def wait(self, seconds: float) -> tuple[int, int, int, int] | int | None:
        """What reads wait for: a term, the record and the position that this node is to show, and the id of the entry before
        it; or all of the log, with the number of the question. None after some seconds, or after `wake`. Blocks."""

    def wake(self) -> None:
        """End `wait`."""

    def show(self, index: tuple[int, int, int] | None, known: int = 0, ended: tuple[int, bool] = ...) -> None:
        """Let reads know what this node shows: term, record and position; None if reads may have nothing of it. `known`: the
        last record that an owner has shown. `ended`: the last question about all of the log, and whether this shows that."""

    def take(self) -> ClusterStep | None:
        """Take the log, and apply what it has up to its end; the store is not open. None: another node was faster. Blocks.

        Raises:
            StoreError: as of `follow`.
        """

    def step_down(self) -> None:
        """Follow again, from the mark; the store is closed. Blocks."""

    def append_all(self) -> None:
        """Append every file of the store, which is not open, for nodes that have nothing. Blocks.

        Raises:
            StoreError: a file cannot be read, or this node does not own the log any more.
        """

    def note(self, message: bytes) -> None:
        """Append a message for the other nodes. Blocks.

        Raises:
            StoreError: this node does not own the log.
        """

    def renew(self) -> None:
        """Change the head of the log, by which an owner learns that it is none any more. Blocks.

        Raises:
            StoreError: this node does not own the log any more.
        """

    def replace(self, name: str, content: bytes) -> None:
        """Replace a small file of the store on all nodes. Blocks.

        Raises:
            StoreError: this node does not own the log, or the file cannot be written here.
        """

    def over(self) -> str | None:
        """Why this node, which has taken the log, does not own it any more."""

    def term(self) -> int | None:
        """The term in which this node owns the log; None if it follows."""

    def mark(self) -> LogPlace:
        """Make durable what the files have of the log, so that a restart goes on from there. Blocks.

        Raises:
            StoreError: a file cannot be made durable. The mark before stays.
        """

    def truncate(self, place: LogPlace) -> None:
        """Let the log begin at a place that `mark` has returned. Nodes that have less need a copy of the files. Blocks.

        Raises:
            StoreError: this node does not own the log, or its store cannot be used.
        """

@final
class LogPlace:
    """A place in the log of a cluster, between two entries."""

@final
class Load:
    """A closed-loop load on one server, phase by phase: begin one, `wait` until it is over, then `finish` it."""

    def __new__(cls, target: LoadTarget, workload: LoadWorkload) -> Load:
        """Connections are opened by the first phase.

        Raises:
            ValueError: there is nothing to ask, or an argument is none of its kind.
        """

    def prepare(self) -> None:
        """Begin to write the objects that are there before the clock starts.

        Raises:
            RuntimeError: another phase is under way.
        """

    def run_count(self, operations: int) -> None:
        """Begin to measure that many operations.

        Raises:
            RuntimeError: another phase is under way.
        """

    def run_seconds(self, seconds: float, counts: bool) -> None:
        """Begin to ask for so long; with `counts` it is a measurement, else it warms up.

        Raises:
            RuntimeError: another phase is under way.
            ValueError: there are no such seconds.
        """

    def read_back(self) -> None:
        """Begin to read a sample of what was written while it was measured.

        Raises:
            RuntimeError: another phase is under way.
        """

    def wait(self, milliseconds: int) -> bool:
        """Wait at most so long; whether the phase is over, which it also is when there is none."""

    def progress(self) -> tuple[int, int]:
        """Operations of this phase that have ended, and bytes of content that they moved."""

    def stop(self) -> None:
        """End this phase now and for good: what is under way is dropped."""

    def finish(self) -> LoadReport:
        """Wait for the end of the phase. Blocks.

        Raises:
            RuntimeError: there is none.
        """

    def total(self) -> LoadReport:
        """All measurements so far together."""

@type_check_only
class Description(TypedDict):
    """Who asked for what, as far as a request tells. The access key is claimed, not verified."""

    operation: str | None
    bucket: str | None
    key: str | None
    access_key: str | None

@type_check_only
class Diagnosis(TypedDict):
    """What is wrong with a signature: the likely cause, and what the client should have signed. No secret is in it."""

    cause: str | None
    canonical_request: str | None
    string_to_sign: str | None

@type_check_only
class Recovery(TypedDict):
    """What a start had to do. `unclean`: the last process did not close the store, even if there was nothing to do."""

    batches: int
    records: int
    torn_bytes: int
    index_rebuilt: bool
    unclean: bool

@type_check_only
class SalvageReport(TypedDict):
    """What a salvage found."""

    whole_store: bool
    keys: bool
    source: str
    findings: list[Finding]
    findings_total: int
    losses: list[Loss]
    losses_total: int
    whole: int
    whole_bytes: int
    records: int
    authenticated: int
    gone: list[tuple[int, int]]
    gone_total: int
    doubtful: int
    named: list[tuple[str, bytes]]
    deleted: int
    made_up: list[str]
    log_files: int
    packs: int
    seconds: float

@type_check_only
class KeyringOptions(TypedDict):
    """How `Core.open` opens the keyring. At most one of the secrets is set. Any mapping with these items is taken."""

    required: bool
    read_only: bool
    noted: int
    master_key: str | None
    master_passphrase: str | None
    cache_entries: int
    cache_sec: int

@type_check_only
class KeyDocument(TypedDict):
    """A key of the keyring. `due_ms`: when it will be destroyed."""

    id: str
    name: str
    state: str
    created_ms: int
    versions: int
    data_keys: int
    due_ms: int | None

@type_check_only
class AccessAnswer(TypedDict):
    """An access decision. `explicit`: a statement denies. `why`: what decides, if no statement does.

    `statement`: the id of the policy that decides, the number of its statement from 1, and the name of that. `missing`: keys
    of conditions that policies have asked for and the question did not give; they are those of whoever asks, or none.
    """

    allowed: bool
    explicit: bool
    why: str
    statement: tuple[str, int, str | None] | None
    missing: list[str]

@final
class AdminCaller:
    """Who has signed a request to the admin API.

    Its methods raise `Refusal`: the caller may not ask, or nobody and nothing is called that.
    """

    @property
    def digest(self) -> bytes:
        """The SHA-256 that the body must have."""

    @property
    def is_root(self) -> bool:
        """Whether it is the root user of the first account."""

    @property
    def arn(self) -> str:
        """Of a session that of the session."""

    @property
    def access_key(self) -> str:
        """The access key that has signed."""

    def may(self, questions: list[tuple[str, str, dict[str, list[str]]]]) -> list[bool]:
        """Whether the caller may do each of these. Blocks.

        An action, a resource as an ARN, `BUCKET` or `BUCKET/KEY`, and keys of conditions.
        """

    def explain(
        self, who: str, action: str, resource: str, context: dict[str, list[str]], bucket_policy: str | None
    ) -> AccessAnswer:
        """What is decided on somebody else, with `bucket_policy` in place of that of the bucket. Blocks.

        `who`: a user of the account of the caller, `role/NAME`, an ARN, an access key, or `anonymous`.
        """

    def who_may(
        self, action: str, resource: str, context: dict[str, list[str]], after: str, limit: int
    ) -> tuple[list[tuple[str, AccessAnswer]], str | None]:
        """Who may do something, by ARN, and the `after` of the next answer. Blocks."""

@final
class ListeningPermit:
    """The permission of somebody who is not root to listen to a bucket."""

    def holds(self) -> bool:
        """Whether it still holds."""

@final
class IncompleteBodies:
    """Limits the memory of incomplete small bodies, by ending some of them.

    No body waits here. If all together exceed the limit, bodies of the client that holds most are ended, beginning with the
    one that has received nothing for the longest time.
    """

    def __new__(cls, limit: int) -> IncompleteBodies:
        """`limit`: bytes of all together."""

    @property
    def total(self) -> int:
        """Bytes of all together."""

    def body(self, client: str, shed: Callable[[], None]) -> IncompleteBody:
        """A body that nothing has arrived of.

        Args:
            client: An address, or anything else for one that is not known. Addresses of one IPv6 network are one client.
            shed: Called if the body is to end, while one grows.
        """

@final
class IncompleteBody:
    """A body that counts."""

    def grow(self, count: int) -> None:
        """`count` more bytes have arrived. This may end bodies, this one included."""

    def forget(self) -> None:
        """A body that is complete or was ended does not count any more."""

@final
class EventListener:
    """One stream of events: bytes to be sent, as they come."""

    def take(self) -> memoryview | None:
        """What is new. Empty: nothing. None: `read` tells."""

    def read(self) -> memoryview | None:
        """What comes next in the journal. Empty: nothing that is wanted so far. None: the stream has ended. Blocks."""

    def heartbeat(self) -> bytes:
        """What is sent when there was nothing else for a while."""

    def wait(self, slot: int) -> bool:
        """One completion for `slot` follows when there is more, or after `wake`. False: there is more now."""

    def wake(self) -> None:
        """End the wait."""

@type_check_only
class EventDelivery(TypedDict):
    """An event that a notification sends to a target. `message`: in S3's structure. `is_test`: it is no event."""

    id: str
    time_ms: int
    bucket: str
    key: str
    message: bytes
    is_test: bool

@final
class EventDeliveries:
    """The events for one target, as they come. For one thread."""

    def after(self) -> str | None:
        """The place behind everything that was returned. None: the store is closed."""

    def next(self, wait_ms: int) -> tuple[list[EventDelivery], str, bool] | None:
        """The next events, the place behind them, and whether events before them are gone. None: the store is closed.

        Waits for so long if there are none.

        Raises:
            StoreError: the journal cannot be read.
        """

@type_check_only
class ReplicationRule(TypedDict):
    """A rule for replication. `target` and `to`: the names of the target and of the bucket there.

    `begins_after`: the sequence in the log behind which it begins.
    """

    id: str
    enabled: bool
    priority: int
    prefix: bytes
    tags: list[tuple[str, str]]
    markers: bool
    existing: bool
    of_named_keys: bool
    target: str
    to: str
    storage_class: str | None
    key_id: str | None
    begins_after: int

@type_check_only
class ReplicatedBucket(TypedDict):
    """A bucket with rules for replication."""

    name: str
    id: int
    rules: list[ReplicationRule]

@final
class ReplicatedEvents:
    """The changes of the objects of one bucket, as they come. For one thread."""

    def next(self, wait_ms: int) -> tuple[list[tuple[bytes, str, str, int, int]], str, int, bool] | None:
        """The next changes, the place behind them and its sequence, and whether changes before them are gone.

        A change: key, name of the event, version, milliseconds since 1970, bytes of the object. None: the store is closed.
        Waits for so long if there are none.

        Raises:
            StoreError: the journal cannot be read.
        """

    def tell_failed(
        self, key: bytes, version: str, destination: str, is_marker: bool, since_ms: int, reason: str
    ) -> None:
        """Tell the targets of notifications that a key could not be copied to a destination, since when, and why.

        `version` is empty for the current one.

        Raises:
            StoreError: the index cannot be read.
        """

@type_check_only
class EventsStats(TypedDict):
    """How the journal of events is. `oldest`, `durable` and `log` are sequences of records; `failed` is a reason."""

    bytes: int
    oldest: int | None
    durable: int
    log: int
    listeners: int
    failed: str | None

@type_check_only
class RequestUsage(TypedDict):
    """The requests of one day by one access key to one bucket. Names are empty where there are none.

    `day`: days since 1970, UTC. `owner`: who pays, the owner of the bucket or, without one, of the access key.
    """

    day: int
    owner: str
    access_key: str
    bucket: str
    writes: int
    reads: int
    free: int
    received: int
    sent: int

@type_check_only
class BucketUsage(TypedDict):
    """What a bucket holds. `versions`: all of them, current ones and delete markers included."""

    id: int
    name: str
    owner: str
    objects: int
    versions: int
    logical: int
    stored: int

@type_check_only
class StoredUsage(TypedDict):
    """What all buckets hold. `exact`: nothing acknowledged is missing. `stored`: distinct content of the store, bytes."""

    buckets: list[BucketUsage]
    exact: bool
    stored: int

@final
class Maintenance:
    """What is to be done at intervals, for whoever keeps the time, and the sealing of what is stored. Each call blocks
    until the work is done or the store is closed, and raises StoreError if it cannot be done."""

    def run_lifecycle(self) -> LifecycleStats:
        """Apply the lifecycle rules of all buckets."""

    def abort_abandoned(self, days: int) -> AbandonedStats:
        """Abort uploads of which nothing has come for so many days."""

    def expire_events(self) -> None:
        """Remove events that were kept for long enough."""

    def scrub(self) -> None:
        """Read everything once, at the rate of the scrub."""

    def can_seal(self) -> bool:
        """Whether the keyring is open, so that content can be sealed."""

    def seal_stored(self, progress: SealProgress) -> SealReport:
        """Seal what was stored without encryption, and rewrite files so that nothing unsealed is left in them. Blocks.

        Raises:
            StoreError: there is no keyring, its keys cannot be used, the disk has no room, or the store is read-only or
                closed. What was sealed before stays so.
        """

@final
class UsageCounts:
    """What is stored and asked for, and by whom."""

    def take_requests(self) -> list[RequestUsage]:
        """Requests that were counted since the last call."""

    @staticmethod
    def costs(
        prices: tuple[float, float, float, float, float], usage: list[tuple[int, int, int, int, float]]
    ) -> list[float]:
        """What each usage costs.

        Args:
            prices: of GB-months, of a thousand writes and reads, and of GB in and out.
            usage: writes, reads, bytes in and out, and GB-months of each.
        """

    def bucket_tags(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The tags of every bucket that has some."""

    def set_bucket_quota(self, bucket: str, size: int | None, objects: int | None) -> None:
        """Give a bucket a quota; None sets no limit. Blocks.

        Raises:
            Refusal: there is no such bucket, or a rule forbids it.
            StoreError: it could not be written.
        """

    def bucket_quotas(self) -> list[tuple[str, int | None, int | None]]:
        """Bucket, bytes and objects of each quota of a bucket, in order of the names."""

    def knows_owner(self, owner: str) -> bool:
        """Whether an identity, or the owner of a bucket, has this id."""

    def set_owner_quotas(self, quotas: list[tuple[str, int | None, int | None]]) -> None:
        """Owner, bytes and objects of each quota of an owner, in place of those before."""

    def stored(self, exact: bool) -> StoredUsage:
        """What every bucket holds; `exact`: wait until everything acknowledged is counted, if it can be. Blocks.

        Raises:
            StoreError: the index cannot be read.
        """

@final
class RequestLogs:
    """The logs of requests on their way out."""

    def log_access(self, enabled: bool) -> None:
        """Keep lines of the access log for `take_access_lines` from now on, or no longer."""

    def take_access_lines(self, gather: float) -> bytes:
        """Wait for lines, and up to `gather` seconds for more. Empty after `log_access(False)`. Blocks."""

    def drop_access_lines(self, lines: int) -> None:
        """Count lines that could not be written."""

    def watch_causes(self, seconds: float) -> None:
        """Keep why requests are refused, for so many seconds from now on."""

    def causes(self) -> dict[str, tuple[str, str | None]]:
        """Why the newest refusals were, and what most likely caused them, by the id of the request."""

    def take_traced(self, gather: float) -> list[Traced]:
        """Wait for traced requests that are done, and up to `gather` seconds for a whole batch. Blocks.

        Returns:
            None of them after `end_traced`, once all are taken.
        """

    def end_traced(self) -> None:
        """Free who waits in `take_traced`."""

    def dropped_spans(self) -> int:
        """Spans of requests that were dropped because too many waited."""

    def due_logs(self, age: float, size: int) -> list[tuple[str, str, str, bytes]]:
        """Records of requests to logged buckets: those that have waited for `age` seconds, or have `size` bytes.

        Returns:
            Source bucket, target bucket, key and content of each object that is to be stored.
        """

    def drop_due_logs(self, records: int) -> None:
        """Count records that could not be stored."""

@final
class Core:
    """The open store of this process. Thread-safe; not to be used in a forked child, which leaves the store as it is."""

    @staticmethod
    def open(
        settings: Settings,
        event_targets: list[tuple[str, str]],
        workers: int,
        identities: _Identities,
        keyring: KeyringOptions,
        node: ClusterNode | None = None,
    ) -> Core:
        """Open or create the store and start its threads. Blocks while the log is replayed.

        Args:
            settings: those of the server; what the engine and the gateway need is read by its name.
            event_targets: name and kind of each.
            workers: threads for what waits for the disk.
            identities: the rows of `replace_identities`. The root of the first account may do everything.
            keyring: the master key, and whether the store opens without a keyring.
            node: what owns the log of a cluster. Everything durable goes there.

        Raises:
            MasterKeyError: the keyring is required and does not open.
            StoreError: the store is locked, damaged or of another format.
            ValueError: an option has no such value.
        """

    @staticmethod
    def standby(settings: Settings, workers: int, identities: _Identities, keyring: KeyringOptions) -> Core:
        """Open the copy of a store that is in use elsewhere, for reading. Blocks while the index follows the log.

        Args:
            settings: as of `open`.
            workers: as of `open`.
            identities: as of `open`.
            keyring: as of `open`; to be opened read-only, and not required.

        Raises:
            StoreError: it is locked, damaged or not complete.
        """

    def follow(
        self,
        given_up: tuple[list[str], list[tuple[str, int]], list[tuple[str, int, int]], list[str]],
        until: int | None = None,
    ) -> int:
        """Show what the copy of the log has beyond the last call, up to the record `until`. The sequence of the last record,
        which is a later one if the index was rebuilt. Blocks.

        `given_up`: files, ends of files and holes that the other store does not have any more, by the names of the files
        within the store, and files that it has anew. They are given up here when nobody reads them.

        Raises:
            StoreError: the log is damaged, or the index cannot follow.
        """

    def shows_all(self) -> bool:
        """Whether the copy of the log has nothing beyond what was shown, and no bucket acknowledges what is not durable.
        Blocks.

        Raises:
            StoreError: the log is damaged.
        """

    def reopen_keyring(self, data: PathLike[str], keyring: KeyringOptions) -> None:
        """Open the keyring of a standby again, whose files are new. Blocks."""

    def continues(self, position: bytes) -> bool | None:
        """Whether the log continues the copy of a standby that ends there; None if that cannot be told any more. Blocks.

        Raises:
            StoreError: a file cannot be read.
        """

    def hold_log_for(self, standby: str, has: int) -> None:
        """Do not rewrite the log beyond the record `has` for ten minutes: this standby of the store has no more."""

    def published_sequence(self) -> int:
        """The sequence of the last record that readers see."""

    def applied_sequence(self) -> int:
        """The sequence of the last record in the index."""

    @staticmethod
    def salvage(
        settings: Settings,
        event_targets: list[tuple[str, str]],
        workers: int,
        identities: _Identities,
        keyring: KeyringOptions,
    ) -> tuple[Core, SalvageReport]:
        """Open what is left of a store for reading, and change nothing in it. Blocks while everything is read.

        Args:
            settings: as of `open`.
            event_targets: as of `open`.
            workers: as of `open`.
            identities: as of `open`; every bucket is shown as the first account's.
            keyring: as of `open`; to be opened read-only, and not required.

        Returns:
            The store, which refuses every write, and what of it is not whole.

        Raises:
            StoreError: the store is locked, or nothing of it is left.
            ValueError: an option has no such value.
        """

    def replace_identities(
        self,
        accounts: Sequence[_AccountRow],
        policies: Sequence[_PolicyRow],
        identities: Sequence[_IdentityRow],
        keys: Sequence[_KeyRow],
        limits: Sequence[_LimitRow],
    ) -> None:
        """Verify and authorize requests that arrive from now on with these identities. Those under way are not affected.

        Args:
            accounts: number, canonical id (64 hexadecimal digits) and name of each; the first of the store comes first.
            policies: id and document.
            identities: ARN, kind (root, user or role), number of the account, unique id, name, ids of policies, id of the
                boundary, tags.
            keys: access key, secret key, ARN of the identity, id of the policy that narrows it, whether it is active.
            limits: ARN of an identity or access key, requests and bytes a second; 0 for no limit.

        Raises:
            ValueError: a policy is refused, or a row names what does not exist. Nothing has changed.
        """

    def change_identities(
        self,
        accounts: Sequence[_AccountRow],
        policies: Sequence[_PolicyRow],
        identities: Sequence[_IdentityRow],
        keys: Sequence[_KeyRow],
        limits: Sequence[_LimitRow],
        removed: Sequence[str],
    ) -> None:
        """Add rows that are new, or replace those with the same id. With an identity its keys go.

        Args:
            accounts: as of `replace_identities`, like the next three.
            policies: those that have changed.
            identities: those that have changed.
            keys: those that have changed.
            limits: those that have changed; two zeros for one that is gone.
            removed: the ids of rows of any kind that are gone.

        Raises:
            ValueError: as of `replace_identities`.
        """

    def use_session_keys(self, keys: Sequence[tuple[bytes, bytes]]) -> None:
        """Open tokens of sessions with these keys from now on.

        Args:
            keys: ids of 8 bytes and keys of 32.
        """

    def now_ms(self) -> int:
        """Milliseconds since 1970, as signatures and sessions expire."""

    def keyring(self) -> Keyring | str | None:
        """The keyring, or why it is not open. None if the store has none and there is no master key."""

    def close(self) -> None:
        """Finish what was submitted, flush, and give the lock back. Blocks. Calling it again has no effect.

        Raises:
            OSError: this process is a child of the one that has opened the store.
            StoreError: something acknowledged in a weaker mode than `sync` could not be written.
        """

    def accept(self, scope: MutableMapping[str, Any], mount_length: int) -> Request | Form | Response | Postponed:
        """Verify and type a request, without blocking.

        Args:
            scope: as ASGI has it, with the path as in the request line, undecoded, and headers with lower-case names in the
                order sent. `client` and `scheme` are those of the connection.
            mount_length: how many bytes at the beginning of the path are signed, and name neither bucket nor key.

        Returns:
            The request to go on with, the form whose fields make it, the response that refuses it, or what a worker has to
            accept, because that needs what only the disk may have.
        """

    def start(self, request: Request, body: bytes, slot: int) -> Response | None:
        """Begin an operation with its collected body, empty when it has none.

        Returns:
            The response, or None: then exactly one completion for `slot` brings it.
        """

    def finish(
        self,
        admission: Request | Form | Response | Postponed,
        response: Response | None,
        scope: MutableMapping[str, Any] | None = None,
        mount_length: int = 0,
        refusal: tuple[int, str] | None = None,
    ) -> Stages | None:
        """Count a request that is done: what `accept` returned, and the response; None if the client disconnected.

        With its scope, it goes to the access log and to traces; `mount_length` as in `accept`. `refusal` is status and
        code, if the connection answered instead. Returns its stages if it was slow.
        """

    def pass_on(self, request: Request, scope: MutableMapping[str, Any]) -> None:
        """Give up a request that `accept` begins anew with the same scope: only that one counts."""

    def request_logs(self) -> RequestLogs:
        """The logs of requests."""

    def usage(self) -> UsageCounts:
        """What is stored and asked for, and by whom."""

    def metrics(self, openmetrics: bool, around: Surroundings) -> str:
        """The page of all metrics, in OpenMetrics or in the older format of Prometheus. Blocks."""

    def describe(self, scope: MutableMapping[str, Any], mount_length: int = 0) -> Description:
        """What a request says about itself, for the log. Arguments as in `accept`."""

    def diagnose(self, scope: MutableMapping[str, Any]) -> Diagnosis | None:
        """What is wrong with a signature that was refused; None where that cannot be told. `scope` as in `accept`."""

    def note_cause(self, scope: MutableMapping[str, Any], note: ErrorNote) -> None:
        """Keep why the request of a scope was refused, if somebody watches."""

    def recovery(self) -> Recovery:
        """What the start had to do."""

    def failure(self, method: str, raw_path: bytes) -> Response:
        """The InternalError response to a request that Python failed to handle; it ends the connection."""

    def refusal(self, method: str, raw_path: bytes, code: str, message: str | None = None) -> Response:
        """A response that Python wants instead of that of the operation: an error, with its usual message if not given.

        Raises:
            ValueError: S3 has no such code.
        """

    def fileno(self) -> int:
        """A descriptor that is readable while `drain` has something to return."""

    def drain(self) -> list[tuple[int, Response | memoryview | str | None]]:
        """What has completed since the last call, with the slot it belongs to.

        A response; a piece of a download, or the reason why there is none; or None: ask again for room.
        """

    def health(self) -> Health:
        """The condition of the store. May read from the disk."""

    def authenticate_admin(
        self, scope: MutableMapping[str, Any], action: str | None, bucket: str | None, once: bool
    ) -> AdminCaller:
        """Checks who has signed a request to the admin API, and that it may send it, without blocking.

        `action`: what it must be allowed, on the server or on `bucket`. None: only root may send it; empty: whoever has
        signed it. `once`: the very same request is refused from then on.

        Raises:
            Refusal: nobody has signed it, who has may not send it, or it was granted before.
        """

    def authenticate_tables(self, scope: MutableMapping[str, Any], service: str, body: bytes | None) -> AdminCaller:
        """Checks who has signed a request to the catalog of tables, without blocking.

        `service`: for which it must be signed, `s3` or `s3tables`. `body`: the SHA-256 of its body, if that was received
        already; then the request need not say it.

        Raises:
            Refusal: nobody has signed it for this service.
        """

    def keys_used(self, access_keys: list[str]) -> list[int | None]:
        """When each of these access keys has signed a request, in milliseconds since 1970.

        None for one that has signed none since the store was opened.
        """

    def authenticate(
        self,
        method: str,
        raw_path: bytes,
        query: bytes,
        headers: list[tuple[bytes, bytes]],
        service: str,
        body: bytes,
        client: str,
    ) -> str:
        """The access key that has signed a request for a service beside S3, without blocking.

        Args:
            method: as of a scope, like the next three.
            raw_path: the path.
            query: the query.
            headers: the headers, with lower-case names.
            service: `iam` or `sts`.
            body: the SHA-256 of the body, which was received already.
            client: the address of the sender.

        Raises:
            Refusal: nobody has signed it for this service.
        """

    def check_not_locked_out(self, client: str) -> None:
        """Refuse a request that nobody signs if its sender is locked out.

        Raises:
            Refusal: the address is locked out.
        """

    def count_forgery(self, client: str) -> None:
        """Count what proves to be forged as a wrong signature of this address."""

    def stats(self) -> Stats:
        """Counts and sizes of what is stored: of everything acknowledged, unless the index is far behind or cannot follow.
        Blocks.

        Raises:
            StoreError: the index or a directory cannot be read.
        """

    def move_prefix(
        self, source: tuple[str, str], target: tuple[str, str], overwrite: bool, limit: int
    ) -> tuple[int, int]:
        """Move all objects of a bucket whose keys begin with a prefix, or none. Blocks.

        Args:
            source: bucket and prefix.
            target: bucket, and the prefix that takes the place of the one in `source`.
            overwrite: whether keys with the new prefix may exist already.
            limit: the most objects.

        Returns:
            How many objects were moved, and their bytes.

        Raises:
            Refusal: nothing was moved.
        """

    def copy_objects(self, source: str, bucket: str, copies: list[tuple[str, str, str, str | None]]) -> None:
        """Copy objects of one bucket into another one of its owner, or within it: all, or none. Blocks.

        Args:
            source: the bucket.
            bucket: where the copies are to be.
            copies: of each its key and ETag, the key of the copy, and the ETag of the object which that takes the place
                of; None if there must be none. At most 1,000, in which no key of a copy is twice.

        Raises:
            Refusal: nothing was copied.
        """

    def reclaim(self, compact: bool) -> ReclaimStats:
        """Reclaim now; with `compact` files are rewritten too. Blocks until it is done or the store is closed.

        Raises:
            StoreError: the store is read-only or closed, or a file cannot be read or written.
        """

    def reclaim_progress(self) -> ReclaimState:
        """How reclamation is."""

    def maintenance(self) -> Maintenance:
        """What is to be done at intervals."""

    def lifecycle_progress(self) -> LifecycleState:
        """How lifecycle is."""

    def check(self, progress: CheckProgress, read_content: bool, threads: int, bytes_per_sec: int) -> Report:
        """Check the whole store beside its work. Blocks. Arguments as of `check_store`.

        Raises:
            StoreError: the check cannot go on, or was cancelled.
        """

    def scrub_progress(self) -> ScrubState:
        """How the scrub in the background is doing."""

    def create_snapshot(self, bucket: str, name: str) -> None:
        """Keep what a bucket has now under a name. Blocks.

        Raises:
            Refusal: there is no such bucket, or a rule forbids it.
            StoreError: the store cannot write.
        """

    def delete_snapshot(self, bucket: str, name: str) -> None:
        """Forget a snapshot. Raises as `create_snapshot`."""

    def fork_bucket(self, bucket: str, snapshot: str | None, name: str) -> None:
        """Create the bucket `name` with the objects of a bucket, or of its snapshot.

        Raises as `create_snapshot`.
        """

    def restore_bucket(self, bucket: str, snapshot: str) -> None:
        """Give a bucket the objects of its snapshot. Raises as `create_snapshot`."""

    def drop_bucket(self, bucket: str) -> None:
        """Delete a bucket with all that it has, locked or not. Raises as `create_snapshot`."""

    def bucket_names(self) -> list[str]:
        """The names of all buckets."""

    def bucket_id(self, name: str) -> int | None:
        """The number of the bucket with this name, which no other one ever has. None: there is none."""

    def set_clock_ahead(self, ms: int) -> None:
        """Set the clock of a store in memory so many milliseconds ahead of that of the machine; negative: behind it.

        Raises:
            ValueError: the store is not in memory.
        """

    def list_snapshots(self, bucket: str) -> list[BucketSnapshot] | None:
        """The snapshots of a bucket, by name. None: there is no such bucket."""

    def listen(
        self,
        names: list[str],
        buckets: list[str],
        prefix: bytes,
        suffix: bytes,
        last_id: str | None,
        start: str | None,
        lines: bool,
    ) -> EventListener:
        """Begin a stream of events, server-sent or as lines.

        Raises:
            Refusal: an argument is wrong, there are no events, or too many listeners.
        """

    def authorize_listener(self, scope: MutableMapping[str, Any], bucket: str | None) -> ListeningPermit | None:
        """Verify a request to listen to a bucket, or to all. None: root has sent it.

        Raises:
            Refusal: it may not, there is no such bucket, or its account has too many streams.
        """

    def end_listeners(self) -> None:
        """End all streams of events, and refuse new ones."""

    def deliveries(self, target: str, after: str | None) -> EventDeliveries | None:
        """The events for a target, behind a place or from now on. None if there is no journal."""

    def replicated_buckets(self) -> list[ReplicatedBucket]:
        """The buckets with rules for replication, from memory."""

    def replicated_events(self, bucket: int, after: str | None, begins_after: int) -> ReplicatedEvents | None:
        """The changes of a bucket that its rules may be about, behind a place or, without one, behind a sequence.

        None if there is no journal.
        """

    def set_replication_targets(self, names: list[str]) -> None:
        """Name the targets that rules for replication may name."""

    def show_replication(self, progress: list[tuple[int, int, list[bytes], bytes | None]]) -> None:
        """Say how far the copies of each bucket are, for the answers of HEAD and GET.

        A bucket, the sequence up to which its changes are copied or exceptions, the keys of those, and the key up to which
        what existed before is copied (None: all of it).
        """

    def events(self) -> EventsStats | None:
        """How the journal of events is. None if there is none."""

    def pin_for_backup(self) -> BackupPin:
        """Make everything acknowledged durable and keep the files of this moment. Blocks.

        Raises:
            StoreError: the store is read-only or closed, or a file cannot be read.
        """

@final
class Keyring:
    """The keys of an open store. Thread-safe. Changes raise `Refusal`.

    It says what holds then: a change can be in effect although it is not in both files.
    """

    def generation(self) -> int:
        """Rises with each change."""

    def counts(self) -> tuple[int, int, int]:
        """Lookups of data keys that hit the cache, those that did not, and how many it has."""

    def list_keys(self) -> list[KeyDocument]:
        """All keys in the order of their creation. Never waits for a change."""

    def create(self, name: str) -> None:
        """Add a key. Blocks, like all changes."""

    def rotate(self, name: str) -> None:
        """Add a version to the key with this name or id, and wrap its data keys again."""

    def disable(self, name: str) -> None:
        """Refuse to use a key until it is enabled."""

    def enable(self, name: str) -> None:
        """Use a disabled key again."""

    def destroy(self, name: str, days: int, lose_content: bool) -> None:
        """Schedule the destruction of a key in 7 to 30 days, or destroy it at once for 0.

        Args:
            name: name or id of the key.
            days: the time in which it can be cancelled.
            lose_content: do so although content may need it.
        """

    def cancel_destruction(self, name: str) -> None:
        """Call a destruction off. The key is then disabled."""

    def accept_older(self) -> None:
        """Give up newer copies of an older keyring that was put back, and use it for new content."""

    def scrypt_n(self) -> int | None:
        """N of scrypt, if the master key comes from a passphrase. Never waits."""

    def change_master(self, key: str | None, passphrase: str | None, scrypt_n: int | None = None) -> None:
        """Seal the keyring under another master key (base64) or passphrase. Blocks for scrypt.

        `scrypt_n`: N of scrypt from now on, a power of two; the present one if it is None.
        """

    def seal_control(self, name: str, secret: bytes) -> bytes:
        """Seal a secret of the control plane under its name. Blocks for the disk the first time.

        Raises:
            StoreError: the key for it cannot be stored, or the keyring is an older one.
        """

    def open_control(self, name: str, sealed: bytes) -> bytes | None:
        """Return the secret that was sealed under this name; None if it does not open."""

    def upkeep(self) -> list[str]:
        """Destroy the keys that are due, repeat an unfinished write, and trim the cache. To be called every minute.

        Returns:
            The ids of the keys that were destroyed.

        Raises:
            StoreError: a change is not in both files.
        """

@final
class BackupPin:
    """A moment of the store. Its files stay as they are until it is released or forgotten."""

    @property
    def store(self) -> str:
        """The id of the store, 32 hexadecimal digits."""

    @property
    def sequence(self) -> int:
        """Of the last record that the files hold."""

    @property
    def files(self) -> list[tuple[str, int]]:
        """Name, relative to the data directory, and bytes that count, of each file."""

    def release(self) -> None:
        """Release the files. Without effect when called again."""

@final
class Health:
    """How the store is."""

    @property
    def status(self) -> str:
        """`ok`, `full`, `read-only` or `damaged`: the worst that is known."""

    @property
    def reason(self) -> str | None:
        """Why it is not `ok`, for everybody: it names no path and no key."""

    @property
    def detail(self) -> str | None:
        """Why it is not `ok`, for the operator, with what only the operator should know."""

    @property
    def writable(self) -> bool:
        """Whether new content is taken now."""

    @property
    def durability(self) -> str:
        """The store's default mode."""

    @property
    def lag_bytes(self) -> int:
        """Log bytes that the index has yet to follow."""

    @property
    def lag_records(self) -> int:
        """Records that the index has yet to follow."""

    @property
    def pools(self) -> Pools:
        """Memory and connections that are kept to be used again."""

@final
class Request:
    """A verified, typed request; opaque but for what the dispatcher needs."""

    @property
    def operation(self) -> str:
        """The name of the operation."""

    @property
    def pulled(self) -> tuple[str, str] | None:
        """Bucket and key of the object that it reads, if the origin of the bucket may have it."""

    @property
    def request_id(self) -> str:
        """The `x-amz-request-id` of every response to it."""

    @property
    def audited(self) -> tuple[dict[str, str], str, str | None] | None:
        """What the audit log says of it: what it is about, who sent it, and the access key that signed it.

        The ARN is that of the session with temporary credentials, and `anonymous` without a signature. None: it does not
        change who may do what.
        """

    @property
    def trace_id(self) -> str | None:
        """The id of its trace in hexadecimal digits, if it is traced."""

    @property
    def plan(self) -> int:
        """Bytes that its body may have on the wire, if it is collected.

        Otherwise `PLAN_RUN`; `PLAN_STREAM`: its body is taken in piece by piece; `PLAN_IN_PIECES`: it may take many seconds,
        and ends early if it is abandoned.
        """

    def abandon(self) -> None:
        """Nobody waits for the answer any more."""

    def admit(self, slot: int) -> bool:
        """Take memory for a collected body. False: a completion for `slot` follows once it was taken."""

    def body_read(self) -> None:
        """The body was received to its end: the connection may go on after the response."""

    def open_body(self, host: str) -> BodySink:
        """Begin to take a streamed body in.

        Args:
            host: the client's address; what the bodies of one client take of the budget is bounded.

        Raises:
            RuntimeError: the body of the request is not streamed.
        """

@final
class Postponed:
    """A request that a worker accepts, before anything of its body, or of the file of its form, is received."""

    def begin(self, slot: int) -> None:
        """Have a worker accept it. One completion for `slot` follows: None."""

    def take(self) -> Request | Response:
        """After the completion: the request to go on with, or the response that refuses it."""

@final
class Form:
    """An upload by an HTML form whose file has not begun. Its fields are verified once they are all there."""

    def push(self, piece: bytes, last: bool) -> tuple[Postponed | Response, int] | None:
        """Take one received piece of the body.

        Args:
            piece: the bytes.
            last: no more follow. Then there is always an admission.

        Returns:
            What a worker has to accept, or the response that refuses the form, and how many bytes of `piece` are no part
            of the file. None: more of the body is needed.

        Raises:
            RuntimeError: there was an admission before.
        """

@final
class BodySink:
    """A large body on its way in. Dropped or aborted, nothing of it is stored."""

    def admit(self, slot: int) -> int:
        """Ask for room for a piece that was received.

        Returns:
            `FLOW_MORE`; `FLOW_WAIT`: a completion for `slot` says when to ask again; `FLOW_STOP`: the body is refused
            already, call `finish`.
        """

    def push(self, piece: bytes) -> None:
        """Take one received piece, under the room that `admit` gave."""

    def finish(self, slot: int) -> None:
        """No further piece comes. One completion for `slot` brings the response."""

    def abort(self) -> None:
        """Forget the body. Without effect after `finish`."""

@final
class Response:
    """A whole response, ready to be sent: `orcas.http.extensions.ReadyResponse` says what its maker vouches for."""

    @property
    def trace_id(self) -> str | None:
        """The id of the trace in hexadecimal digits, if this refuses a head that is traced."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Names in lower case, and values. Not to be changed."""

    @property
    def body(self) -> bytes:
        """The body; empty if it comes as a download."""

    @property
    def closes(self) -> bool:
        """Whether the connection ends behind it."""

    @property
    def download(self) -> Download | None:
        """The body, piece by piece."""

    @property
    def lacks_object(self) -> bool:
        """Whether the object that was asked for does not exist, and was not deleted."""

    @property
    def error(self) -> ErrorNote | None:
        """For the log, if this is an error that has to stand there: 404 and 412 of objects have none."""

@final
class ErrorNote:
    """What the log is to say about an error."""

    @property
    def request_id(self) -> str:
        """As in the answer."""

    @property
    def code(self) -> str:
        """The S3 error code."""

    @property
    def cause(self) -> str:
        """What the client is told; where the server is at fault, what only the operator is to know."""

    @property
    def likely_cause(self) -> str | None:
        """Why a signature is wrong, if the client is told too."""

    @property
    def at_fault(self) -> bool:
        """Whether the server is, not the client."""

@final
class Download:
    """A large body on its way out."""

    @property
    def length(self) -> int:
        """Bytes in all."""

    def sent(self, count: int) -> None:
        """`count` bytes of it were handed to the connection."""

    def next(self, slot: int) -> memoryview | str | None:
        """The next piece, or the reason why there is none and the connection must be cut off.

        None: one completion for `slot` brings either.
        """
