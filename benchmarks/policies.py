"""What access control costs: the server's CPU time for a user with policies beside root, and how fast a key changes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import load
from figures import Figure, Plan, ratios
from processes import Orcas, scratch
from signing import Signer
from small import cpu_per_request, make_bucket, unique

_POLICIES, _STATEMENTS, _BUCKET_STATEMENTS = 5, 10, 20
_OBJECTS, _USERS, _CHANGES = 1000, 10_000, 300
_CROWD, _STALL_SECONDS = 100_000, 2


def call(orcas: Orcas, action: str, **parameters: str) -> Any:
    """The answer of an action of IAM, by root."""
    return orcas.admin("POST", "iam", {"action": action, "parameters": parameters, "account": None})


def _document(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _user(orcas: Orcas, name: str) -> tuple[str, str]:
    """The key of a new user with policies of which the last statement allows everything in the bucket `small`."""
    call(orcas, "CreateUser", UserName=name)
    for policy in range(_POLICIES):
        statements = [
            {
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:PutObject"],
                "Resource": f"arn:aws:s3:::other-{policy}-{number}/*",
                "Condition": {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}},
            }
            for number in range(_STATEMENTS)
        ]
        if policy == _POLICIES - 1:
            statements[-1] = {"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::small/*"}
        document = _document(statements)
        made = call(orcas, "CreatePolicy", PolicyName=f"{name}-{policy}", PolicyDocument=document)
        call(orcas, "AttachUserPolicy", UserName=name, PolicyArn=made["Policy"]["Arn"])
    key = call(orcas, "CreateAccessKey", UserName=name)["AccessKey"]
    return key["AccessKeyId"], key["SecretAccessKey"]


def _bucket_policy() -> bytes:
    statements = [
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:GetObject",
            "Resource": f"arn:aws:s3:::small/secret-{number}/*",
            "Condition": {"StringNotEquals": {"aws:username": "nobody"}},
        }
        for number in range(_BUCKET_STATEMENTS)
    ]
    return _document(statements).encode()


def cpu(plan: Plan) -> list[Figure]:
    """Figures user-get-cpu and user-put-cpu."""
    rounds, count = plan.size(9, 3), plan.size(4000, 500)
    microseconds: dict[tuple[str, str], list[float]] = {}
    with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
        make_bucket(orcas, "small")
        load.run(orcas.address, [orcas.signer().put(f"/small/{n:016x}", unique(n)) for n in range(_OBJECTS)])
        access_key, secret_key = _user(orcas, "bench")
        policy = _bucket_policy()
        digest = hashlib.sha256(policy).hexdigest()
        headers = {"content-length": str(len(policy))}
        request = orcas.signer().request("PUT", "/small", {"policy": ""}, headers, digest)
        load.exchange(orcas.address, request + policy)
        written = _OBJECTS
        for warm in [True] + [False] * rounds:
            root = orcas.signer()
            signers: dict[str, Signer] = {
                "root": root,
                "user": dataclasses.replace(root, access_key=access_key, secret_key=secret_key),
            }
            for name, signer in signers.items():
                gets = [signer.get(f"/small/{n % _OBJECTS:016x}") for n in range(count)]
                puts = [signer.put(f"/small/{n:016x}", unique(n)) for n in range(written, written + count)]
                written += count
                for method, requests in (("GET", gets), ("PUT", puts)):
                    used = cpu_per_request(orcas, requests)
                    if not warm:
                        microseconds.setdefault((method, name), []).append(used)
    made = []
    for method, name in (("GET", "user-get-cpu"), ("PUT", "user-put-cpu")):
        theirs, ours = microseconds[method, "root"], microseconds[method, "user"]
        what = f"server CPU of a 1 KiB {method} by a user with {_POLICIES} policies, in a bucket with a policy, ÷ root"
        made.append(
            Figure(name, what, ratios(ours, theirs), 1.05, detail={"microseconds": {"root": theirs, "user": ours}})
        )
    return made


def _with_users(directory: Path, users: range) -> dict[str, str]:
    """The settings of a server that makes users of these numbers, each with a key."""
    lines = [
        f'[users.u{number}]\nkeys = [{{ access_key = "key-{number}", secret_key = "secret-{number}" }}]\n'
        for number in users
    ]
    file = directory / "identities.toml"
    file.write_text("".join(lines))
    return {"ORCAS_IDENTITIES_FILE": str(file)}


def changes(plan: Plan) -> list[Figure]:
    """Figure key-change: CreateAccessKey and DeleteAccessKey beside many users."""
    users, count = plan.size(_USERS, 200), plan.size(_CHANGES, 20)
    with (
        scratch(plan.directory) as directory,
        Orcas(directory / "data", settings=_with_users(directory, range(users))) as orcas,
    ):
        call(orcas, "CreateUser", UserName="bench")
        spent = []
        for _ in range(count):
            started = time.perf_counter()
            key = call(orcas, "CreateAccessKey", UserName="bench")["AccessKey"]["AccessKeyId"]
            created = time.perf_counter()
            call(orcas, "DeleteAccessKey", UserName="bench", AccessKeyId=key)
            spent += [created - started, time.perf_counter() - created]
    spent.sort()
    worst = spent[int(len(spent) * 0.99)] * 1000
    what = f"a change of a key until it is answered, beside {users:,} users, 99th percentile"
    return [Figure("key-change", what, [worst], 50, unit="ms", detail={"milliseconds": [one * 1000 for one in spent]})]


def crowd(plan: Plan) -> list[Figure]:
    """Figures users-start, users-memory, users-stall: a server with very many users beside one with none."""
    users, rounds = plan.size(_CROWD, 500), plan.size(9, 2)
    ready: dict[str, list[float]] = {"none": [], "many": []}
    memory: dict[str, list[float]] = {"none": [], "many": []}
    with scratch(plan.directory) as directory:
        places = {"none": directory / "none", "many": directory / "many"}
        for first in range(0, users, _USERS):
            with Orcas(places["many"], settings=_with_users(directory, range(first, min(users, first + _USERS)))):
                pass
        for place in places.values():
            with Orcas(place) as orcas:
                make_bucket(orcas, "small")
                load.run(orcas.address, [orcas.signer().put("/small/k", unique(1))])
        for _ in range(plan.size(5, 1)):
            for name, place in places.items():
                with Orcas(place) as orcas:
                    ready[name].append(orcas.ready_seconds)
                    orcas.settle()
                    memory[name].append(orcas.rss_mib())
        with Orcas(places["many"]) as orcas:
            longest: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(rounds):
                for changing in (False, True):
                    longest[changing].append(_longest_get(orcas, changing=changing))
    started = [many - none for many, none in zip(ready["many"], ready["none"], strict=True)]
    more = [many - none for many, none in zip(memory["many"], memory["none"], strict=True)]
    stalls = [changing - quiet for changing, quiet in zip(longest[True], longest[False], strict=True)]
    beside = f"with {users:,} users"
    return [
        Figure("users-start", f"how much later a server is ready {beside}", started, 2, unit="s", detail=ready),
        Figure(
            "users-memory", f"resident memory that a server has more {beside}", more, 200, unit="MiB", detail=memory
        ),
        Figure(
            "users-stall",
            f"the longest GET while keys change {beside}, less the longest GET while none changes",
            stalls,
            1,
            unit="ms",
            detail={"changing": longest[True], "quiet": longest[False]},
        ),
    ]


def _longest_get(orcas: Orcas, *, changing: bool) -> float:
    """Milliseconds of the slowest GET of 1 KiB on one connection, for two seconds, in which keys change or do not."""
    request, until = orcas.signer().get("/small/k"), time.perf_counter() + _STALL_SECONDS

    def requests() -> Iterator[bytes]:
        while time.perf_counter() < until:
            yield request

    # Not a thread, which would make this process wait for itself.
    changes = multiprocessing.get_context("fork").Process(target=_change_keys, args=(orcas, until))
    if changing:
        changes.start()
    slowest = max(load.run(orcas.address, requests(), connections=1))
    if changing:
        changes.join()
    return slowest / 1e6


def _change_keys(orcas: Orcas, until: float) -> None:
    # Of a user who is there: no account may have more than these.
    while time.perf_counter() < until:
        key = call(orcas, "CreateAccessKey", UserName="u0")["AccessKey"]["AccessKeyId"]
        call(orcas, "DeleteAccessKey", UserName="u0", AccessKeyId=key)
