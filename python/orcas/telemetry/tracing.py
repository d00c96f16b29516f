"""Spans of traced requests on their way to a receiver of OpenTelemetry, over HTTP (OTLP): the extra `otel`.

Rust decides which requests are traced, measures their stages, and keeps those that are done in a bounded queue. Requests
wait neither for the receiver nor for the thread that takes them from there: a span that finds no room, or that the receiver
does not accept, is dropped and counted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, Protocol

from orcas.errors import ConfigurationError
from orcas.version import orcas_version

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

    from orcas._core import Stages, Traced

# Seconds for which requests are gathered whose spans are sent at once.
_GATHER_SECONDS: Final = 1.0
# Seconds that a receiver is given for a batch, with repetitions, and for the last one when the server stops.
_SEND_SECONDS: Final = 10
_STOP_SECONDS: Final = 5
# Seconds in which an attempt that was told to end may do so.
_END_SECONDS: Final = 1
# The stages of a request, in their order, and those of one that was refused by its head.
STAGES: Final = ("authenticate", "receive", "execute", "send")
REFUSED_STAGES: Final = ("authenticate", "send")
_NANOSECONDS: Final = 1_000_000_000

log = logging.getLogger("orcas")


class Source(Protocol):
    """The source of traced requests that are done."""

    def take_traced(self, gather: float, /) -> list[Traced]:
        """Wait for requests, and up to `gather` seconds for more; none when it has ended."""

    def end_traced(self) -> None:
        """Free who waits."""

    def dropped_spans(self) -> int:
        """Spans that found no room."""


class Traces:
    """Sends spans to a receiver from a thread of its own."""

    def __init__(self, endpoint: str, source: Source) -> None:
        """Begin to send spans of the requests of `source` to `endpoint`.

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
        self._source = source
        self._lock = threading.Lock()
        self._sent = self._dropped = 0
        self._failing = self._faulty = False
        self._thread = threading.Thread(target=self._run, name="orcas-traces", daemon=True)
        self._thread.start()

    def counts(self) -> tuple[int, int]:
        """Spans that were sent, and that were dropped."""
        with self._lock:
            return self._sent, self._dropped + self._source.dropped_spans()

    def close(self) -> None:
        """Send what there is, for as long as a receiver is given at the end. Blocks."""
        self._source.end_traced()
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
        while batch := self._source.take_traced(_GATHER_SECONDS):
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

    def _made(self, batch: list[Traced]) -> list[ReadableSpan]:
        """The spans of requests. One whose spans cannot be made costs those alone."""
        spans = []
        for done in batch:
            try:
                spans += self._spans(done)
            except Exception:
                # The thread must outlive it.
                self._count(dropped=done["spans"])
                if not self._faulty:
                    self._faulty = True
                    log.exception("Spans of a request cannot be made")
        return spans


_Spans = Callable[["Traced"], "list[ReadableSpan]"]


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

    def spans(done: Traced) -> list[ReadableSpan]:
        stages, end = done["stages"], done["ended_ns"]
        given = stages["trace"]
        assert given is not None, "only traced requests are kept"
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
                done["operation"] or "request",
                request,
                None if parent_id is None else context(int(parent_id, 16), is_remote=True),
                resource,
                _attributes(done),
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


def _attributes(done: Traced) -> dict[str, str | int]:
    """The attributes of the span of a request."""
    about = {
        "rpc.system": "aws-api", "rpc.service": "S3", "rpc.method": done["operation"], "aws.s3.bucket": done["bucket"],
        "aws.s3.key": done["key"], "http.request.method": done["method"],
        "http.response.status_code": done["stages"]["status"], "error.type": done["stages"]["code"],
        "client.address": done["client"],
    }  # fmt: skip
    return {name: value for name, value in about.items() if value is not None}


def _resource() -> Resource:
    """The resource that all spans name."""
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
