"""Spans of traced requests on their way to a receiver of OpenTelemetry, over HTTP (OTLP): the extra `otel`.

Rust decides which requests are traced, and measures their stages. Requests wait neither for the receiver nor for this
thread: a span that finds no room in its bounded queue, or that the receiver does not accept, is dropped and counted.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

from orcas.errors import ConfigurationError
from orcas.version import orcas_version

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

    from orcas.edge import Stages

# Requests that wait for the thread.
_QUEUE_MAX: Final = 2048
# Requests whose spans are sent at once, and seconds for which they are gathered.
_BATCH_MAX: Final = 256
_GATHER_SECONDS: Final = 1.0
# Seconds that a receiver is given for a batch, with repetitions, and for the last one when the server stops.
_SEND_SECONDS: Final = 10
_STOP_SECONDS: Final = 5
# Seconds in which an attempt that was told to end may do so.
_END_SECONDS: Final = 1
# Of these, what requests without a verified sender may take.
_UNVERIFIED_MAX: Final = _QUEUE_MAX // 2
# The stages of a request, in their order, and those of one that was refused by its head.
STAGES: Final = ("authenticate", "receive", "execute", "send")
REFUSED_STAGES: Final = ("authenticate", "send")
_NANOSECONDS: Final = 1_000_000_000

log = logging.getLogger("orcas")

# When it ended (nanoseconds since 1970), its stages, and what its span says.
_Done = tuple[int, "Stages", dict[str, Any]]


class Traces:
    """Sends spans to a receiver from a thread of its own. Times of requests that are added count backwards from now."""

    def __init__(self, endpoint: str) -> None:
        """Prepare to send to `endpoint`.

        Raises:
            ConfigurationError: the packages of OpenTelemetry are not installed.
        """
        try:
            self._spans = _maker()
            self._export, self._shutdown, self._fault = _sender(endpoint)
        except ImportError:
            raise ConfigurationError(
                "ORCAS_TRACES_ENDPOINT needs the packages of OpenTelemetry: run pip install 'orcas-s3[otel]'."
            ) from None
        self._endpoint = endpoint
        self._waiting: deque[_Done] = deque()
        self._ended = False
        # Notified when the first request waits, when a whole batch does, and at the end: to wake the thread for each
        # request would cost the event loop more than to hand it over.
        self._changed = threading.Condition(threading.Lock())
        self._lock = threading.Lock()
        self._sent = self._dropped = 0
        self._failing = self._faulty = False
        self._thread = threading.Thread(target=self._run, name="orcas-traces", daemon=True)
        self._thread.start()

    def add(self, stages: Stages, about: dict[str, Any]) -> None:
        """A traced request ended now. Never waits."""
        with self._changed:
            has_room = len(self._waiting) < (_QUEUE_MAX if stages["verified"] else _UNVERIFIED_MAX)
            if has_room:
                self._waiting.append((time.time_ns(), stages, about))
                if len(self._waiting) in (1, _BATCH_MAX):
                    self._changed.notify()
        if not has_room:
            self._count(dropped=span_count(stages))

    def counts(self) -> tuple[int, int]:
        """Spans that were sent, and that were dropped."""
        with self._lock:
            return self._sent, self._dropped

    def close(self) -> None:
        """Send what there is, for as long as a receiver is given at the end. Blocks."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(_STOP_SECONDS)
        # Ends an attempt that goes on.
        self._shutdown()
        self._thread.join(_END_SECONDS)
        self._fault.close()

    def _count(self, *, sent: int = 0, dropped: int = 0) -> None:
        with self._lock:
            self._sent += sent
            self._dropped += dropped

    def _run(self) -> None:
        self._fault.thread = threading.get_ident()
        for batch in self._batches():
            spans = self._made(batch)
            if not spans:
                continue
            failed = not self._export(spans)
            self._count(sent=0 if failed else len(spans), dropped=len(spans) if failed else 0)
            if failed and not self._failing:
                log.warning("Traces cannot be sent to %s, and spans are lost: %s", self._endpoint, self._fault.reason)
            elif self._failing and not failed:
                log.info("Traces are sent again")
            self._failing = failed

    def _made(self, batch: list[_Done]) -> list[ReadableSpan]:
        """The spans of requests. One whose spans cannot be made costs those alone."""
        spans = []
        for done in batch:
            try:
                spans += self._spans(*done)
            except Exception:
                # The thread must outlive it.
                self._count(dropped=span_count(done[1]))
                if not self._faulty:
                    self._faulty = True
                    log.exception("Spans of a request cannot be made")
        return spans

    def _batches(self) -> Iterator[list[_Done]]:
        """What is added, gathered, until the end."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                self._changed.wait_for(lambda: len(self._waiting) >= _BATCH_MAX or self._ended, _GATHER_SECONDS)
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH_MAX))]
            if not batch:
                return
            yield batch


_Spans = Callable[[int, "Stages", dict[str, Any]], "list[ReadableSpan]"]


def _maker() -> _Spans:
    """A function that makes the spans of a request.

    They are made as what they are when they have ended. A tracer would begin and end each one, with a sampler, limits and
    locks that decide nothing here.
    """
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    resource = _resource()
    scope = InstrumentationScope("orcas", orcas_version())
    flags, new_id = TraceFlags(TraceFlags.SAMPLED), RandomIdGenerator().generate_span_id
    unset, failed = Status(StatusCode.UNSET), Status(StatusCode.ERROR)

    def spans(end: int, stages: Stages, about: dict[str, Any]) -> list[ReadableSpan]:
        given = stages["trace"]
        assert given is not None, "only traced requests are added"
        trace_id = int(given["trace_id"], 16)

        def context(span_id: int, *, is_remote: bool = False) -> SpanContext:
            return SpanContext(trace_id, span_id, is_remote=is_remote, trace_flags=flags)

        def inner(name: str, around: SpanContext, first: int, last: int) -> SpanContext:
            of_span = context(new_id())
            made.append(
                ReadableSpan(
                    name, of_span, around, resource, instrumentation_scope=scope, start_time=first, end_time=last
                )
            )
            return of_span

        parent_id = given["parent_id"]
        request = context(int(given["span_id"], 16))
        begun = end - int(stages["total"] * _NANOSECONDS)
        made = [
            ReadableSpan(
                str(about.get("rpc.method") or "request"),
                request,
                None if parent_id is None else context(int(parent_id, 16), is_remote=True),
                resource,
                {name: value for name, value in about.items() if value is not None},
                kind=SpanKind.SERVER,
                instrumentation_scope=scope,
                status=failed if stages["status"] is None or stages["status"] >= 500 else unset,
                start_time=begun,
                end_time=end,
            )
        ]
        at = begun
        outer: dict[str, tuple[SpanContext, int]] = {}
        for stage in _stages(stages):
            length = int(stages[stage] * _NANOSECONDS)
            outer[stage] = (inner(stage, request, at, at + length), at)
            at += length
        for stage_of_step, step, since, took in stages["steps"]:
            around, earliest = outer[stage_of_step]
            # What is sent in pieces is read ahead.
            first = max(earliest, begun + int(since * _NANOSECONDS))
            inner(step, around, first, first + int(took * _NANOSECONDS))
        return made

    return spans


def _resource() -> Resource:
    """What all spans are of."""
    from opentelemetry.sdk.resources import Resource

    class Hashed(Resource):
        """Computes its hash once. The exporter asks each span for it."""

        def __init__(self, resource: Resource) -> None:
            super().__init__(resource.attributes, resource.schema_url)
            self._hash = super().__hash__()

        def __eq__(self, other: object) -> bool:
            return self is other or super().__eq__(other)

        def __hash__(self) -> int:
            return self._hash

    return Hashed(Resource.create({"service.name": "orcas", "service.version": orcas_version()}))


def _sender(endpoint: str) -> tuple[Callable[[list[ReadableSpan]], bool], Callable[[], None], _Fault]:
    """Functions that send spans and end sending, and why it failed."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    exporter, fault = OTLPSpanExporter(endpoint=endpoint, timeout=_SEND_SECONDS), _Fault()

    def export(batch: list[ReadableSpan]) -> bool:
        try:
            return exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001 - whatever the receiver and the network do, requests go on
            fault.reason = f"{type(error).__name__}: {error}"
            return False

    return export, exporter.shutdown, fault


def _stages(stages: Stages) -> tuple[Literal["authenticate", "receive", "execute", "send"], ...]:
    return REFUSED_STAGES if stages["refused"] else STAGES


def span_count(stages: Stages) -> int:
    """Spans of a request: its own, and those of its stages and steps."""
    return 1 + len(_stages(stages)) + len(stages["steps"])


class _Fault:
    """Takes what OpenTelemetry logs in one thread, of which only the last line is shown, once. What it logs for others in
    this process goes where it went before."""

    def __init__(self) -> None:
        self.reason = "no reason was given"
        self.thread: int | None = None
        # A logger applies its filters to its own messages only, so each logger of the packages gets this one.
        names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "opentelemetry"]
        self._loggers = [logging.getLogger(name) for name in names]
        for logger in self._loggers:
            logger.addFilter(self._passes)

    def _passes(self, record: logging.LogRecord) -> bool:
        if record.thread != self.thread:
            return True
        self.reason = record.getMessage()
        return False

    def close(self) -> None:
        """Leave their loggers as they were."""
        for logger in self._loggers:
            logger.removeFilter(self._passes)
