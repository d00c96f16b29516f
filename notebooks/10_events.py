# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Events and serialisation
#
# *I follow the changes of a bucket. How soon does an event reach me, and what does its JSON cost?*
#
# The report *Phase 8.2: performance benchmarks* (31 October 2025, in Chinese; translated), from which Orcas started,
# measured JSON and streams of server-sent events. The tables are from its section 2, *Serialisation*.
#
# > | JSON | Serialise, mean | Deserialise, mean |
# > |---|---|---|
# > | simple message | ~36.6 ns | ~55.9 ns |
# > | complex message (nested) | ~273 ns | ~276 ns |
# >
# > | Array of | Serialise, mean | Throughput |
# > |---|---|---|
# > | 10 | ~308 ns | 32.5 million elements/s |
# > | 100 | ~2.9 µs | 34.5 million elements/s |
# > | 1000 | ~32.6 µs | 30.7 million elements/s |
# >
# > | Parse a server-sent event | Mean | |
# > |---|---|---|
# > | message_start (large) | ~454 ns | has a complete message object |
# > | content_block_delta | ~289 ns | of middle complexity |
# > | message_delta (small) | ~194 ns | a simple update |
#
# Below are the same shapes in Rust, and with what Python programs use. Then comes what the report lacks: how long an event
# takes from its commit to its reader.

# %%
import importlib.util
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from support import DIRECTORY, QUICK, REPOSITORY, in_turn, plot, size, spread, stamp

import criterion
import streams
from figures import Plan
from orcas import _core

place = tempfile.TemporaryDirectory(dir=DIRECTORY, prefix="orcas-notebook-")
plan = Plan(QUICK, Path(place.name), REPOSITORY)

# %% [markdown]
# ## Records and events
#
# In Rust this is the Criterion suite `events`, which needs cargo and compiles the first time.

# %%
SIMPLE = {"id": "msg_123", "role": "assistant", "content": "Hello! How can I help you today?"}
NESTED = {
    "id": "msg_456",
    "type": "message",
    "role": "assistant",
    "content": [
        {"type": "text", "text": "Hello! How can I help you today?"},
        {"type": "text", "text": "I can look things up, write, and calculate."},
    ],
    "model": "claude-3-5-sonnet-20241022",
    "usage": {"input_tokens": 25, "output_tokens": 310},
}
MESSAGE = {
    "id": "msg_456", "type": "message", "role": "assistant", "content": [], "model": "claude-3-5-sonnet-20241022",
    "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 25, "output_tokens": 1},
}  # fmt: skip
STREAMS = {
    "large": ("message_start", {"type": "message_start", "message": MESSAGE}),
    "middle": (
        "content_block_delta",
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Hello! How can I help you today?"},
        },
    ),
    "small": ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
}
# Kind to the report's mean, in nanoseconds.
JSON_NS = {
    "simple, write": 36.6, "simple, read": 55.9, "nested, write": 273, "nested, read": 276,
    "10, write": 308, "100, write": 2900, "1000, write": 32_600,
}  # fmt: skip
SSE_NS = {"large": 454, "middle": 289, "small": 194}


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def called(kind, dumps, loads):
    """A call of one kind without arguments."""
    shape, _, way = kind.partition(", ")
    value = {"simple": SIMPLE, "nested": NESTED}.get(shape) or [SIMPLE] * int(shape)
    text = compact(value)
    return (lambda: loads(text)) if way == "read" else (lambda: dumps(value))


def orcas_sse(stream):
    parser = _core.EventParser()
    return lambda: parser.push(stream)


calls = {("json", kind): called(kind, compact, json.loads) for kind in JSON_NS}
STREAM_BYTES = {name: f"event: {event}\ndata: {compact(data)}\n\n".encode() for name, (event, data) in STREAMS.items()}
calls |= {("Orcas from Python", name): orcas_sse(stream) for name, stream in STREAM_BYTES.items()}
if importlib.util.find_spec("orjson"):
    import orjson

    calls |= {("orjson", kind): called(kind, orjson.dumps, orjson.loads) for kind in JSON_NS}
else:
    print("orjson is not installed.")
if importlib.util.find_spec("httpx_sse"):
    from httpx_sse._decoders import SSEDecoder

    def httpx_sse(stream):
        """Its decoder takes lines, which the client of httpx cuts; so they are cut here, too."""
        decoder = SSEDecoder()

        def parse():
            return [event for line in stream.decode().splitlines() if (event := decoder.decode(line))]

        return parse

    calls |= {("httpx-sse", name): httpx_sse(stream) for name, stream in STREAM_BYTES.items()}
else:
    print("httpx-sse is not installed.")

for name, stream in STREAM_BYTES.items():
    ((_, event, data),) = calls["Orcas from Python", name]()
    assert (event, json.loads(data)) == STREAMS[name]
    if ("httpx-sse", name) in calls:
        (other,) = calls["httpx-sse", name]()
        assert (other.event, other.data) == (event, data)

# %%
ROUNDS, SLICE_NS = size(9, 1), size(50_000_000, 200_000)
RUST = {"records of the report": JSON_NS, streams.SSE_GROUP: SSE_NS}
with_cargo = not QUICK and shutil.which("cargo") is not None
if not with_cargo:
    print(
        "Not measured in Rust: a quick pass does not compile." if QUICK else "Not measured in Rust: there is no cargo."
    )
taken_ns = {}


def nanoseconds(call):
    """Of a call, in a loop that lasts about as long as a slice."""
    began = time.perf_counter_ns()
    call()
    count = max(1, SLICE_NS // (time.perf_counter_ns() - began))
    began = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - began) / count


for _, arm in in_turn([*calls, *(("Orcas in Rust", group) for group in RUST if with_cargo)], ROUNDS):
    who, kind = arm
    if who == "Orcas in Rust":
        with tempfile.TemporaryDirectory(dir=place.name) as kept:
            _, medians = criterion.run(plan, Path(kept), "events", kind)
        for (_, name), median in medians.items():
            if name in RUST[kind]:
                taken_ns.setdefault((who, name), []).append(median)
    else:
        taken_ns.setdefault(arm, []).append(nanoseconds(calls[arm]))

under = stamp(
    f"nanoseconds of a call; {ROUNDS} rounds, medians; in Rust the medians of Criterion",
    durability="none: nothing is stored",
    concurrency="1 thread",
)
WHO = {
    "JSON": (JSON_NS, ("Orcas in Rust", "orjson", "json")),
    "Server-sent events": (SSE_NS, ("Orcas in Rust", "Orcas from Python", "httpx-sse")),
}
for title, (report, whose) in WHO.items():
    print(f"{title + ', ns':24}{'report':>10}" + "".join(f"{who:>32}" for who in whose))
    for kind, mean in report.items():
        shown = [taken_ns.get((who, kind)) for who in whose]
        print(f"{kind:24}{mean:10,.1f}" + "".join(f"{spread(ns, 0) if ns else '-':>32}" for ns in shown))
print(under)


# %%
def medians_of(who, kinds):
    return [taken_ns.get((who, kind)) for kind in kinds]


for title, (report, whose) in WHO.items():
    plot(
        {
            f"{title}: time of a call | ns": {
                "report, mean": list(report.values()),
                **{who: medians_of(who, report) for who in whose},
            }
        },
        [kind.replace(", ", "\n") for kind in report],
        under,
        log=True,
    )

# %% [markdown]
# ## From a commit to its event
#
# PUTs of 1 KiB at a constant rate from another process, and `orcas.events.listen` in this one: the time from the answer
# to a PUT, which is on the disk by then, until its event is returned. An event that comes before the answer counts as 0.
# `benchmarks/run.py --only events-latency` is the same measurement.

# %%
p50, p99 = streams.latency(plan)
under_latency = stamp(
    f"{len(p50.values)} rounds of {p50.detail['puts']} PUTs of 1 KiB over raw sockets,"
    f" {statistics.median(p50.detail['puts_a_second']):,.0f} a second",
    durability=p50.detail["durability"],
    concurrency=f"{p50.detail['connections']} connections write, 1 stream is read",
)
for figure in (p50, p99):
    print(f"{figure.name:12}{spread(figure.values):>24} ms, goal {figure.goal_text()}")
print(under_latency)

# %%
plot(
    {
        "From a commit to its event (no number in the report) | ms": {
            "Orcas": [p50.values, p99.values],
            "goal": [p50.goal, p99.goal],
        }
    },
    ["p50", "p99"],
    under_latency,
    log=True,
)
place.cleanup()

# %% [markdown]
# ## How it is measured, and doubts
#
# - A call from Python has to make Python objects, so those in Rust and those in Python answer different questions.
# - serde writes into a buffer from a type that is known when it is compiled. The report's numbers are those of
#   serde_json, and say nothing about a program that has to build the values first.
# - Its tables name neither the machine nor the spread, and the lengths of the events are not given. The nested message is
#   abbreviated (`[...]`), so it can only be rebuilt by its shape.
# - "Parse an event" probably includes the JSON in it; the report does not say. Above it is the parser of the stream
#   alone, which returns the data as text.
