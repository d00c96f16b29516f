"""How a model test calls the server and the model, compares how the calls end, and restarts the server between them."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, run_state_machine_as_test
from tests.fixtures.marks import full

from orcas.tools.session import RefusedError

from .machines import Machines
from .model import Bucket, Condition, Metadata, Model, Object, S3Error

KEYS = ("a", "a/b", "a/b/c", "a/", "b", "b/c", "a b+c%2F", "é", "é/\U0010ffff", "../x", "//", "a\nb", "z" * 1024)
# Picks up to this one are keys that have an object.
LUCK = 60
# Codes by status. The answer to a HEAD has no error document, and the admin API has no codes.
STATUSES = {
    "404": ("NoSuchKey", "NoSuchVersion", "NoSuchBucket", "NoSuchSnapshot"),
    "405": ("MethodNotAllowed",),
    "409": ("SnapshotAlreadyExists", "BucketAlreadyOwnedByYou", "InvalidBucketState"),
}

tag_sets = st.sampled_from(((), (("stage", "raw"),), (("a b", "é+=@"), ("stage", "done"))))


def tagged(tags: Metadata) -> dict[str, str]:
    """The arguments of an upload with tags."""
    return {"Tagging": urlencode(tags)} if tags else {}


def tags_in(answer: Any) -> Metadata:
    """Those that GetObjectTagging answers, in the order of their keys."""
    return tuple((tag["Key"], tag["Value"]) for tag in answer["TagSet"])


class _Abstract(type(RuleBasedStateMachine), ABCMeta):  # type: ignore[misc]
    """So that no machine lacks its comparison."""


class Calls(RuleBasedStateMachine, metaclass=_Abstract):
    """A server, and how its answers are compared with those of a model."""

    place: Machines
    restarts: bool

    def __init__(self) -> None:
        super().__init__()
        self.example = next(self.place.serial)
        self.calls = 0
        # After how many calls the server is stopped, and then killed.
        self.ends: list[int] = []

    @property
    def client(self) -> Any:
        self.calls += 1
        return self.place.client

    def name(self, bucket: str) -> str:
        return f"example-{self.example}-{bucket}"

    def both(self, real: Callable[[], Any], modelled: Callable[[], Any]) -> tuple[Any, Any]:
        """Call both. Both succeed, or both fail with the same error: then (None, None)."""
        try:
            expected = modelled()
        except S3Error as error:
            with pytest.raises(ClientError) as refused:
                real()
            response = refused.value.response
            code = response["Error"]["Code"]
            assert {code, *STATUSES.get(code, ())}.intersection(error.codes), (code, error.codes)
            if error.marker is not None:
                headers = response["ResponseMetadata"]["HTTPHeaders"]
                assert (headers["x-amz-delete-marker"], headers["x-amz-version-id"]) == ("true", error.marker)
            return None, None
        return real(), expected

    def admin(self, call: Callable[..., None], bucket: str, *arguments: str, **options: str | None) -> None:
        """An operation of the admin API."""
        try:
            call(self.client, self.name(bucket), *arguments, **options)
        except RefusedError as error:
            raise ClientError({"Error": {"Code": str(error.status)}}, call.__name__) from error

    def put(self, bucket: str, key: str, new: Object, **arguments: Any) -> Any:
        """PutObject with the content and metadata of `new`."""
        return self.client.put_object(
            Bucket=self.name(bucket), Key=key, Body=new.body, Metadata=dict(new.metadata), **arguments
        )

    def put_tags(self, bucket: str, key: str, tags: Metadata, **version: str) -> Any:
        """Replace all tags. No tags are removed by a call of its own."""
        arguments: dict[str, Any] = {"Bucket": self.name(bucket), "Key": key, **version}
        if not tags:
            return self.client.delete_object_tagging(**arguments)
        tagging = {"TagSet": [{"Key": name, "Value": value} for name, value in tags]}
        return self.client.put_object_tagging(**arguments, Tagging=tagging)

    # A restart takes as long as two hundred calls, so most sequences have none. Afterwards, everything is compared.

    @initialize(stop=st.integers(10, 35), kill=st.integers(5, 25))
    def plan_restarts(self, stop: int, kill: int) -> None:
        self.ends = [stop, stop + kill] if self.restarts else []

    @invariant()
    def restarts_as_planned(self) -> None:
        if self.ends and self.calls >= self.ends[0]:
            del self.ends[0]
            self.place.restart(kill=not self.ends)
            self.check_everything()

    @abstractmethod
    def check_everything(self) -> None:
        """Compare all that the server has with the model."""

    @invariant()
    def serves(self) -> None:
        assert self.place.server._process.poll() is None


class ObjectCalls(Calls):
    """The same with the model of buckets that have no versions."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    def pick(self, bucket: str, pick: int) -> str:
        """A key, usually one that has an object."""
        there = sorted(self.model.buckets.get(bucket, Bucket()).objects)
        return there[pick % len(there)] if there and pick <= LUCK else KEYS[pick % len(KEYS)]

    def condition(self, bucket: str, key: str, choice: int) -> tuple[dict[str, Any], Condition]:
        return condition_on(self.model.buckets.get(bucket, Bucket()).objects.get(key), choice)


def condition_on(found: Object | None, choice: int) -> tuple[dict[str, Any], Condition]:
    """A random condition: none, no object, the present object, or a different one."""
    if choice == 1:
        return {"IfNoneMatch": "*"}, Condition(if_none_match=True)
    if choice == 2 and found is not None:
        return {"IfMatch": f'"{found.etag}"'}, Condition(if_match=found.etag)
    if choice == 3:
        return {"IfMatch": '"0123456789abcdef0123456789abcdef"'}, Condition(if_match="0123456789abcdef")
    return {}, Condition()


# How many sequences a test runs: in every run, and in the full one.
EXAMPLES: Final = (8, *full(24))


def compare(place: Machines, machine: type[Calls], *, examples: int, steps: int) -> None:
    """Run so many sequences of so many calls, and a few more with restarts. Shrinking a failure takes minutes."""
    for restarts, count in ((False, examples), (True, examples // 8)):
        profile = settings(
            max_examples=count,
            stateful_step_count=steps,
            derandomize=True,
            database=None,
            deadline=None,
            print_blob=True,
            report_multiple_bugs=False,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        )
        run_state_machine_as_test(type("Machine", (machine,), {"place": place, "restarts": restarts}), settings=profile)
