"""Spans of traced requests on their way to a receiver of OpenTelemetry, over HTTP (OTLP): the extra `otel`.

Rust decides which requests are traced, and measures their stages. Requests wait neither for the receiver nor for this
thread: a span that finds no room in its bounded queue, or that the receiver does not accept, is dropped and counted.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

from orcas.errors import ConfigurationError
from orcas.version import orcas_version

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Tracer

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
                "ORCAS_TRACES_ENDPOINT needs the packages of OpenTelemetry: pip install 'orcas-s3[otel]'."
            ) from None
        self._endpoint = endpoint
        self._waiting: queue.Queue[_Done | None] = queue.Queue(_QUEUE_MAX)
        self._lock = threading.Lock()
        self._sent = self._dropped = 0
        self._failing = self._faulty = False
        self._thread = threading.Thread(target=self._run, name="orcas-traces", daemon=True)
        self._thread.start()

    def add(self, stages: Stages, about: dict[str, Any]) -> None:
        """A traced request ended now. Never waits."""
        try:
            if not stages["verified"] and self._waiting.qsize() >= _UNVERIFIED_MAX:
                raise queue.Full
            self._waiting.put_nowait((time.time_ns(), stages, about))
        except queue.Full:
            self._count(dropped=span_count(stages))

    def counts(self) -> tuple[int, int]:
        """Spans that were sent, and that were dropped."""
        with self._lock:
            return self._sent, self._dropped

    def close(self) -> None:
        """Send what there is, for as long as a receiver is given at the end. Blocks."""
        deadline = time.monotonic() + _STOP_SECONDS
        try:
            self._waiting.put(None, timeout=_STOP_SECONDS)
            self._thread.join(max(0.0, deadline - time.monotonic()))
        except queue.Full:
            pass
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
        ended = False
        while not ended:
            done = self._waiting.get()
            if done is None:
                return
            batch, until = [done], time.monotonic() + _GATHER_SECONDS
            while len(batch) < _BATCH_MAX and not ended:
                try:
                    found = self._waiting.get(timeout=max(0.0, until - time.monotonic()))
                except queue.Empty:
                    break
                if found is None:
                    ended = True
                else:
                    batch.append(found)
            yield batch


_Spans = Callable[[int, "Stages", dict[str, Any]], "list[ReadableSpan]"]


def _maker() -> _Spans:
    """A function that makes the spans of a request."""
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider, sampling
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        """The ids that Rust has given a request and its span."""

        trace_id = 0
        span_id: int | None = None

        def generate_trace_id(self) -> int:
            return self.trace_id

        def generate_span_id(self) -> int:
            given, self.span_id = self.span_id, None
            return super().generate_span_id() if given is None else given

    class Ended(SpanProcessor):
        """Keeps what has ended."""

        def __init__(self) -> None:
            self.spans: list[ReadableSpan] = []

        def on_end(self, span: ReadableSpan) -> None:
            self.spans.append(span)

    ids, ended = Ids(), Ended()
    resource = Resource.create({"service.name": "orcas", "service.version": orcas_version()})
    provider = TracerProvider(sampler=sampling.ALWAYS_ON, resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(ended)
    tracer = provider.get_tracer("orcas", orcas_version())

    def spans(end: int, stages: Stages, about: dict[str, Any]) -> list[ReadableSpan]:
        ended.spans = []  # an earlier request may have left some
        given = stages["trace"]
        assert given is not None, "only traced requests are added"
        ids.trace_id, ids.span_id = int(given["trace_id"], 16), int(given["span_id"], 16)
        context = Context()
        if given["parent_id"] is not None:
            flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
            caller = trace.SpanContext(ids.trace_id, int(given["parent_id"], 16), is_remote=True, trace_flags=flags)
            context = trace.set_span_in_context(trace.NonRecordingSpan(caller), context)
        _make(tracer, context, end, stages, about)
        return ended.spans

    return spans


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


def _make(tracer: Tracer, context: Context, end: int, stages: Stages, about: dict[str, Any]) -> None:
    """Begin and end the span of a request, and those of its stages."""
    from opentelemetry import trace

    attributes = {name: value for name, value in about.items() if value is not None}
    begun = end - int(stages["total"] * _NANOSECONDS)
    name = str(about.get("rpc.method") or "request")
    request = tracer.start_span(name, context, trace.SpanKind.SERVER, attributes, start_time=begun)
    if stages["status"] is None or stages["status"] >= 500:
        request.set_status(trace.StatusCode.ERROR)
    inside, at = trace.set_span_in_context(request, context), begun
    outer: dict[str, tuple[Context, int]] = {}
    for stage in _stages(stages):
        length = int(stages[stage] * _NANOSECONDS)
        span = tracer.start_span(stage, inside, start_time=at)
        span.end(at + length)
        outer[stage] = (trace.set_span_in_context(span, inside), at)
        at += length
    for stage_of_step, step, since, took in stages["steps"]:
        around, earliest = outer[stage_of_step]
        # What is sent in pieces is read ahead.
        first = max(earliest, begun + int(since * _NANOSECONDS))
        tracer.start_span(step, around, start_time=first).end(first + int(took * _NANOSECONDS))
    request.end(end)


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
