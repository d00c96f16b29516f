"""What the time of a refusal tells: of somebody without permission, and of a key that does not exist."""

from __future__ import annotations

import dataclasses
import random
import time

import load
from figures import Figure, Plan
from load import Connection
from policies import call
from processes import Orcas, scratch
from small import make_bucket, unique

_REQUESTS = 10_000
# An object that is there, and what it could be told apart from.
_PAIRS = {
    "denied-key": "a GET without permission: an object that does not exist, beside one that does",
    "denied-bucket": "a GET without permission: a bucket that does not exist, beside an object that does",
    "unknown-key": "a signature of an access key that does not exist, beside a wrong signature of one that does",
}


def told_apart(plan: Plan) -> list[Figure]:
    """Figures denied-key, denied-bucket and unknown-key.

    Each is the probability that a request of the one kind takes longer than one of the other, or shorter, whichever is
    more: 0.5 if the time tells nothing, 1 if it tells everything.
    """
    rounds, count = plan.size(9, 2), plan.size(_REQUESTS, 200)
    shares: dict[str, list[float]] = {name: [] for name in _PAIRS}
    order = random.Random(1)
    with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
        make_bucket(orcas, "small")
        load.run(orcas.address, [orcas.signer().put("/small/present", unique(1))])
        call(orcas, "CreateUser", UserName="bench")
        key = call(orcas, "CreateAccessKey", UserName="bench")["AccessKey"]
        for warm in [True] + [False] * rounds:
            root = orcas.signer()
            user = dataclasses.replace(root, access_key=key["AccessKeyId"], secret_key=key["SecretAccessKey"])
            wrong = dataclasses.replace(user, secret_key="x" * len(user.secret_key))
            # As long as the one that exists.
            unknown = dataclasses.replace(wrong, access_key=user.access_key[:-4] + "AAAA")
            pairs = {
                "denied-key": (user.get("/small/present"), user.get("/small/missing")),
                "denied-bucket": (user.get("/small/present"), user.get("/other/present")),
                "unknown-key": (wrong.get("/small/present"), unknown.get("/small/present")),
            }
            with load.connect(orcas.address) as connection:
                for name, pair in pairs.items():
                    took = _times(connection, pair, count, order)
                    if not warm:
                        shares[name].append(_told(*took))
    # The answer itself says that an access key is unknown, as that of AWS does.
    goals = {"denied-key": 0.52, "denied-bucket": 0.52}
    return [Figure(name, what, shares[name], goals.get(name)) for name, what in _PAIRS.items()]


def _times(
    connection: Connection, pair: tuple[bytes, bytes], count: int, order: random.Random
) -> tuple[list[int], list[int]]:
    """Nanoseconds of `count` refusals of each kind, in a random order."""
    took: tuple[list[int], list[int]] = [], []
    kinds = [0, 1] * count
    order.shuffle(kinds)
    for kind in kinds:
        begun = time.perf_counter_ns()
        connection.send(pair[kind])
        head, _ = connection.read()
        took[kind].append(time.perf_counter_ns() - begun)
        if not head.startswith(b"HTTP/1.1 403 "):
            raise load.UnexpectedResponseError(head.decode(errors="replace"))
    return took


def _told(ours: list[int], theirs: list[int]) -> float:
    """The larger of the probabilities that one of ours is more than one of theirs, and that it is less (Mann-Whitney)."""
    merged = sorted([(value, 0) for value in ours] + [(value, 1) for value in theirs])
    ranks, at = 0.0, 0
    while at < len(merged):
        end = at
        while end < len(merged) and merged[end][0] == merged[at][0]:
            end += 1
        # Equal values share the mean of their ranks.
        ranks += (at + end + 1) / 2 * sum(1 for _, of in merged[at:end] if of == 0)
        at = end
    share = (ranks - len(ours) * (len(ours) + 1) / 2) / (len(ours) * len(theirs))
    return max(share, 1 - share)
