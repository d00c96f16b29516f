"""Faults, clock and record of a store in memory, as tests have set them. Made on the event loop that serves the store.

Without a rule and without a record, a request costs one look at a flag; with rules, one at its method and its path,
unless it may be one of theirs.
"""

from __future__ import annotations

import itertools
import re
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from orcas.admin.testing.faults import Kind, Rule, inject, path_prefix
from orcas.engine import OPERATIONS, Core, Refusal, names_bucket
from orcas.http.extensions import RESPONSE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.types import Message, Receive, Scope, Send

    from orcas.admin.testing.faults import Dispatch

RULES_MAX: Final = 100
# Requests that are kept; older ones are forgotten.
RECORD_MAX: Final = 10_000
_HOSTS_MAX: Final = 64
_ERROR: Final = 400
_CODE: Final = re.compile(rb"<Code>(\w+)</Code>")
# Headers that would give away how to sign.
_HIDDEN: Final = frozenset((b"authorization", b"x-amz-security-token"))


class TestControl:
    """Faults, the clock, the record of requests, and the way back to an empty store."""

    # Not a test, whatever pytest thinks of its name.
    __test__ = False

    def __init__(self, core: Core, domains: Iterable[str] = (), website_host: str | None = None) -> None:
        self._core = core
        self._domains, self._website_host = list(domains), website_host
        # Values of Host that name no bucket.
        self._plain_hosts: set[bytes] = set()
        # Replaced as a whole: a reset runs on another thread.
        self._rules: dict[int, Rule] = {}
        self._numbers = itertools.count(1)
        # By method, what begins the paths of requests that a rule may take.
        self._prefixes: dict[str, tuple[bytes, ...]] = {}
        self._record: deque[dict[str, Any]] | None = None
        # How far the clock of the store is ahead of that of the machine; negative: behind it.
        self.ahead_ms = 0
        self._is_idle = True
        # Learns whether requests have to come here, in place of a listener that would answer them by itself.
        self.watched: Callable[[bool], None] = lambda _: None

    def around(self, dispatch: Dispatch, root: int = 0) -> Dispatch:
        """The dispatcher for paths with a prefix of `root` bytes, with the faults and the record of tests."""

        # Not a coroutine: without rules and record, nothing is added to what is awaited. All in one function, and `find`
        # in place of `in`, which raises and catches an exception first: a tenth of a microsecond is a percent of a GET.
        def dispatched(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
            if self._is_idle:
                return dispatch(scope, receive, send)
            if self._record is None:
                prefixes, path = self._prefixes.get(scope["method"]), scope["raw_path"]
                if prefixes is None:
                    return dispatch(scope, receive, send)
                if not path.startswith(prefixes, root) and path.find(b"%") < 0:
                    for name, value in scope["headers"]:
                        if name == b"host":
                            if value in self._plain_hosts or not self._names_bucket(value):
                                return dispatch(scope, receive, send)
                            break
            return self._watched(dispatch, root, scope, receive, send)

        return dispatched

    def reset(self) -> None:
        """Empty the store, forget rules and record, and let the clock show the time of the machine. Blocks."""
        self._rules, self._record = {}, None
        self._look()
        self.set_clock(0)
        for bucket in self._core.bucket_names():
            self.drop(bucket)

    def drop(self, bucket: str) -> None:
        """Delete a bucket, all that it has, and its snapshots. Blocks.

        Raises:
            Refusal: there is no such bucket.
        """
        for snapshot in self._core.list_snapshots(bucket) or ():
            self._core.delete_snapshot(bucket, snapshot["name"])
        self._core.drop_bucket(bucket)

    def set_clock(self, ahead_ms: int) -> None:
        """Set the clock of the store so far ahead of that of the machine, or behind it if negative."""
        self._core.set_clock_ahead(ahead_ms)
        self.ahead_ms = ahead_ms

    def add_rule(self, fault: Kind, **options: Any) -> Rule:
        """Give a fault to requests from now on. The first rule that fits a request decides.

        Raises:
            Refusal: there are too many rules, or S3 has no such error or operation.
        """
        if len(self._rules) >= RULES_MAX:
            raise Refusal(400, "TooManyRules", f"There are {RULES_MAX} rules: delete some.")
        for name in options.get("operations") or ():
            if name not in OPERATIONS:
                raise Refusal(400, "InvalidRequest", f"S3 has no operation {name}: give one such as PutObject.")
        rule = Rule(next(self._numbers), fault, **options)
        try:
            self._core.refusal("GET", b"/", rule.code)
        except ValueError as error:
            raise Refusal(400, "InvalidRequest", f"{error}: give one such as SlowDown.") from None
        self._rules = {**self._rules, rule.id: rule}
        self._look()
        return rule

    def rules(self) -> list[Rule]:
        """All rules, in order."""
        return list(self._rules.values())

    def delete_rules(self, number: int | None = None) -> None:
        """Delete one rule, or all. One that is not there is no error."""
        kept = {} if number is None else self._rules
        self._rules = {known: rule for known, rule in kept.items() if known != number}
        self._look()

    def record(self, *, on: bool) -> None:
        """Begin an empty record of requests, or end it."""
        self._record = deque(maxlen=RECORD_MAX) if on else None
        self._look()

    def recorded(self) -> list[dict[str, Any]]:
        """The requests since the record began, in the order of their ends."""
        record = self._record
        if record is None:
            raise Refusal(409, "NoRecord", "Requests are not being recorded: begin a record first.")
        return list(record)

    def _look(self) -> None:
        rules = self._rules.values()
        methods = {method for rule in rules for method in rule.methods}
        self._prefixes = {
            method: tuple(path_prefix(rule) for rule in rules if method in rule.methods) for method in methods
        }
        self._is_idle = self._record is None and not rules
        self.watched(not self._is_idle)

    def _names_bucket(self, host: bytes) -> bool:
        named = names_bucket(host, self._domains, self._website_host)
        if not named and len(self._plain_hosts) < _HOSTS_MAX:
            self._plain_hosts.add(host)
        return named

    async def _watched(self, dispatch: Dispatch, root: int, scope: Scope, receive: Receive, send: Send) -> None:
        asked = self._core.describe(scope, root)
        rule = next((rule for rule in self._rules.values() if rule.takes(asked)), None)
        record = self._record
        entry: dict[str, Any] = {}
        if record is not None:
            entry = {
                "operation": asked["operation"], "bucket": asked["bucket"], "key": asked["key"],
                "method": scope["method"], "path": scope["raw_path"].decode(errors="replace"),
                "query": scope["query_string"].decode(errors="replace"),
                "headers": {
                    name.decode("latin-1"): value.decode("latin-1")
                    for name, value in scope["headers"] if name not in _HIDDEN
                },
                "status": None, "code": None, "fault": None if rule is None else rule.fault,
            }  # fmt: skip
            send = _noting(entry, send)
        began = time.perf_counter()
        try:
            if rule is None:
                await dispatch(scope, receive, send)
            else:
                await inject(rule, self._core, dispatch, scope, receive, send)
        finally:
            if record is not None:
                record.append({**entry, "seconds": round(time.perf_counter() - began, 6)})


def _noting(entry: dict[str, Any], send: Send) -> Send:
    """`send`, which notes the status and the error code of the response."""

    async def noted(message: Message) -> None:
        if message["type"] == RESPONSE:
            response = message["response"]
            entry["status"] = response.status
            found = _CODE.search(response.body) if response.status >= _ERROR else None
            entry["code"] = None if found is None else found[1].decode()
        elif message["type"] == "http.response.start":
            entry["status"] = message["status"]
        await send(message)

    return noted
