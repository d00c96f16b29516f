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
# # HTTP/2, TLS and processors
#
# *Should my clients speak HTTP/2? What does TLS cost? And does the server use a second processor?*
#
# The *S3 performance test report* (14 November 2025, in Chinese; translated), from which Orcas started, leaves that
# open, in its section *HTTP/2 support*:
#
# > *"The current performance tests use HTTP/1.1 (through Go's `httptest`). HTTP/2 support is not implemented in the test
# > framework at present. Tests of HTTP/2 are possible, but need TLS. Possible advantages of HTTP/2: multiplexing (several
# > requests on one connection), header compression (less overhead of repeated headers), server push, better concurrency."*
#
# Below, one client (`h2load`) asks for the same objects in both protocols, of Orcas and of nginx, which sends them from
# files. In short:
#
# - For objects of 1 KiB, both protocols cost the server about the same, with and without TLS. HTTP/2 saves connections, not
#   processor time.
# - For objects of 10 MiB, HTTP/2 costs half as much again without TLS (of nginx, 2.5 times as much), and hardly more with it.
#   It is also slower: all streams share one connection, and so one thread of the server. Clients of large objects should
#   stay with HTTP/1.1.
# - TLS adds at most about a tenth to a GET of 1 KiB, and 30 to 60 % to one of 10 MiB over HTTP/1.1.
# - A second processor is used: a GET costs no more than with one.

# %%
import ssl
import statistics
import time

from support import MIB, QUICK, REPOSITORY, Watched, in_turn, interval, plot, size, spread, stamp, working_directory

import protocols
from figures import Plan
from orcas.bench.compare import ratio

with working_directory() as place:
    plan = Plan(QUICK, place, REPOSITORY)
    figures = protocols.http2(plan)
SERVERS = list(dict.fromkeys(figure.detail["server"] for figure in figures))
of = {(figure.detail["size"], figure.detail["server"]): figure.detail for figure in figures}
in_flight = {name: many for name, (_, _, many, *_) in protocols.SIZES.items()}
under = stamp(
    f"{len(figures[0].values) if figures else 0} rounds, presigned GETs by h2load on one thread, in turn;"
    " lines: the rounds, at ratios the 95 % interval",
    durability="sync; nothing is written while it is measured",
    concurrency="; ".join(
        f"{name}: HTTP/1.1 {many} connections, HTTP/2 {many} streams of 1 connection"
        for name, many in in_flight.items()
    ),
)


def two_to_one(name, server):
    """Server CPU of HTTP/2 ÷ HTTP/1.1; None where it is not measured."""
    used = of.get((name, server), {}).get("microseconds")
    return used and ratio(used["HTTP/2"], used["HTTP/1.1"])


def tls_to_plain(name, server, protocol):
    used = [of.get((name, each), {}).get("microseconds", {}).get(protocol) for each in (f"{server}, TLS", server)]
    return ratio(*used) if all(used) else None


print(f"{'':8}{'':14}{'server CPU, µs: HTTP/1.1':>30}{'HTTP/2':>26}{'÷ (95 %)':>24}{'GETs a second':>18}")
for (name, server), found in of.items():
    cpu = "".join(f"{spread(found['microseconds'][protocol], 1):>26}" for protocol in protocols.PROTOCOLS)
    rate = ", ".join(f"{statistics.median(found['a_second'][protocol]):,.0f}" for protocol in protocols.PROTOCOLS)
    print(f"{name:8}{server:14}    {cpu}{interval(two_to_one(name, server), 2):>24}{rate:>18}")
print(under)

# %%
if figures:
    plot(
        {
            "Server CPU of a GET | HTTP/2 ÷ HTTP/1.1": {
                server: [two_to_one(name, server) for name in protocols.SIZES] for server in SERVERS
            },
            "Server CPU of a GET | TLS ÷ plain": {
                f"{server}, {protocol}": [tls_to_plain(name, server, protocol) for name in protocols.SIZES]
                for server in SERVERS
                for protocol in protocols.PROTOCOLS
                if f"{server}, TLS" in SERVERS
            },
        },
        list(protocols.SIZES),
        under,
    )

# %% [markdown]
# ## More processors
#
# The same server on the first processor of the machine, and on all. *CPU of a GET* rises where threads wait for each other.
# *Rate* is what the server does with the processors that h2load leaves to it.

# %%
with working_directory() as place:
    scaling = protocols.processors(Plan(QUICK, place, REPOSITORY))
under_processors = stamp(
    f"{len(scaling[0].values) if scaling else 0} rounds, presigned GETs of 1 KiB by h2load on one thread, in turn;"
    " lines: the rounds",
    durability="sync; nothing is written while it is measured",
    concurrency="64 connections of HTTP/1.1",
)
for figure in scaling:
    print(f"{figure.what:108}{spread(figure.values)}")
cpu, rates = (scaling[0].detail[what] if scaling else {} for what in ("microseconds", "requests_a_second"))
for number in cpu:
    print(
        f"{number} processors: {spread(cpu[number], 1)} µs of the server a GET, {spread(rates[number], 0)} GETs a second"
    )
print(under_processors)

# %%
if scaling:
    plot(
        {
            "Server CPU of a GET | µs": {"Orcas": list(cpu.values())},
            "Rate, the time of the client subtracted | GETs a second": {"Orcas": list(rates.values())},
        },
        [f"{number} processors" for number in cpu],
        under_processors,
    )

# %% [markdown]
# ## Through boto3
#
# boto3 speaks only HTTP/1.1. Its own work is part of the time of a call.

# %%
ROUNDS = size(7, 2)
# By size of the object: calls in a round.
CALLS = {1 << 10: size(300, 20), 10 * MIB: size(20, 2)}
servers = {name: Watched(tls_self_signed=name == "TLS") for name in ("plain", "TLS")}
for watched in servers.values():
    watched.s3.create_bucket(Bucket="read")
    for length in CALLS:
        watched.s3.put_object(Bucket="read", Key=str(length), Body=bytes(length))
arms = [(name, length) for length in CALLS for name in servers]
ms = {arm: [] for arm in arms}
cpu_us = {arm: [] for arm in arms}
for _, (name, length) in in_turn(arms, ROUNDS):
    watched = servers[name]
    watched.settle()
    used, taken = watched.cpu_ms(), []
    for _ in range(CALLS[length]):
        began = time.perf_counter()
        assert len(watched.s3.get_object(Bucket="read", Key=str(length))["Body"].read()) == length
        taken.append((time.perf_counter() - began) * 1000)
    watched.settle()
    ms[name, length].append(statistics.median(taken))
    cpu_us[name, length].append((watched.cpu_ms() - used) * 1000 / CALLS[length])
for watched in servers.values():
    watched.stop()
under_boto3 = stamp(
    f"{ROUNDS} rounds of {CALLS[1 << 10]} GETs of 1 KiB and {CALLS[10 * MIB]} of 10 MiB, in turn; the client has"
    f" {ssl.OPENSSL_VERSION}; lines: the 95 % interval",
    durability="sync; nothing is written while it is measured",
    concurrency="1 client on 1 connection",
)
NAMES = {1 << 10: "1 KiB", 10 * MIB: "10 MiB"}
for length in CALLS:
    for what, found in (("time of a call, ms", ms), ("server CPU, µs", cpu_us)):
        plain, secure = found["plain", length], found["TLS", length]
        over = interval(ratio(secure, plain), 2)
        print(f"{NAMES[length]:8}{what:20} plain {spread(plain):>28}   TLS {spread(secure):>28}   TLS ÷ plain {over}")
print(under_boto3)

# %%
plot(
    {
        "GET through boto3 | TLS ÷ plain": {
            what: [ratio(found["TLS", length], found["plain", length]) for length in CALLS]
            for what, found in (("time of a call", ms), ("server CPU", cpu_us))
        }
    },
    [NAMES[length] for length in CALLS],
    under_boto3,
)

# %% [markdown]
# ## How it is measured, and doubts
#
# - `benchmarks/run.py --only http2` and `--only processors` measure the first two parts. They need `h2load`, which is in the
#   package `nghttp2-client` of Debian and Ubuntu. Of other servers, only nginx is measured, where it is installed; and
#   *bare hyper*, the library that Orcas parses HTTP with, on one thread and without a store, where cargo is.
# - Server CPU is what the kernel counts for the process of the server, with its work for sockets. nginx has one worker,
#   opens a file for each request and does not look at signatures; its files are in the page cache.
# - Server and client share the machine. Loopback has no round trips and loses nothing, so what HTTP/2 saves of handshakes
#   and connections on a long way, and what it loses there because one lost packet stops all of its streams, is not here.
# - The URLs are presigned, so each has a signature in its path, which header compression does not shorten.
