"""Orcas and the reference decide alike, and Orcas names a statement that may have decided.

A difference is told as the smallest request that still shows it, and its seed is kept in SEEN.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from orcas import _core

from .asking import allow, ask, policy
from .reference import Json, Pick, authorize, policies, statements
from .strategies import requests

# Seeds that once showed a difference.
SEEN = (4155,)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param([*SEEN, *range(4_000)], id="some"),
        *(
            pytest.param(range(at, at + 25_000), id=f"from {at}", marks=pytest.mark.full)
            for at in range(4_000, 104_000, 25_000)
        ),
    ],
)
def test_random_requests(seeds: list[int]) -> None:
    for seed in seeds:
        for request in requests(seed):
            if difference(request):
                smallest = reduced(request)
                pytest.fail(f"seed {seed}: {difference(smallest)}\n{json.dumps(smallest, indent=1)}")


@pytest.mark.parametrize("pattern", ["*a" * 60 + "b", "?*" * 200 + "b", "*" * 500 + "b", "${*}*" * 100 + "b"])
def test_wildcards_take_no_exponential_time(pattern: str) -> None:
    """A reader that goes back for each wildcard would take for ever."""
    identity = [policy(allow("s3:GetObject", f"arn:aws:s3:::b/{pattern}"))]
    request = ask("s3:GetObject", f"arn:aws:s3:::b/{'a' * 1_000}", identity=identity)
    assert json.loads(_core.simulate(json.dumps(request)))["decision"] == "implicitDeny"


def difference(request: Json) -> str | None:
    decision, picks = authorize(request)
    try:
        found = json.loads(_core.simulate(json.dumps(request)))
    except ValueError as error:
        return f"refused: {error}"
    if found["decision"] != decision:
        return f"{found}, but the reference: {decision} by {picks}"
    pick = Pick(found["policy"], found["statement"])
    if decision == "implicitDeny":
        return None
    if pick not in picks:
        return f"{found} named, but only {picks} may have decided"
    named = pick.policy and statements(policies(request)[pick.policy])[pick.statement or 0].get("Sid")
    return None if found["sid"] == named else f"Sid {found['sid']} of {pick}, but it is {named}"


def reduced(request: Json) -> Json:
    """Without whatever is not needed for the difference."""
    known = difference(request) or ""
    refused = known if known.startswith("refused") else None
    for smaller in smaller_ones(request):
        try:
            found = difference(smaller)
        except (AssertionError, AttributeError, LookupError, TypeError):
            continue  # No request any more.
        if found and (found == refused or not (refused or found.startswith("refused"))):
            return reduced(smaller)
    return request


def smaller_ones(request: Json) -> Iterator[Json]:
    """The request without one policy, statement, condition, value or key of the context."""
    for path in paths(request):
        smaller = copy.deepcopy(request)
        inside = smaller
        for step in path[:-1]:
            inside = inside[step]
        if len(path) == 1:
            inside[path[-1]] = None
        else:
            del inside[path[-1]]
        yield smaller


def paths(request: Json) -> Iterator[tuple[Any, ...]]:
    def below(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for step, inner in list(items):
            yield (*path, step)
            yield from below(inner, (*path, step))

    for field in ("boundary", "session", "resource_policy"):
        if request[field] is not None:
            yield (field,)
    for field in ("identity", "boundary", "session", "resource_policy", "context"):
        yield from below(request[field], (field,))
