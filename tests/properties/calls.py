"""How a model test calls the server and the model, and compares how the calls end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis.stateful import RuleBasedStateMachine

from .machines import Machines
from .model import Bucket, Condition, Model, S3Error

KEYS = ("a", "a/b", "a/b/c", "a/", "b", "b/c", "a b+c%2F", "é", "é/\U0010ffff", "../x", "//", "a\nb", "z" * 1024)
# Picks up to this one are keys that have an object.
LUCK = 60


class Calls(RuleBasedStateMachine):
    """A server and its model."""

    place: Machines

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.example = next(self.place.serial)
        self.calls = 0

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
            code = refused.value.response["Error"]["Code"]
            # The answer to a HEAD has no error document.
            assert code in error.codes or (code == "404" and error.codes[0].startswith("NoSuch")), (code, error.codes)
            return None, None
        return real(), expected

    def pick(self, bucket: str, pick: int) -> str:
        """A key, usually one that has an object."""
        there = sorted(self.model.buckets.get(bucket, Bucket()).objects)
        return there[pick % len(there)] if there and pick <= LUCK else KEYS[pick % len(KEYS)]

    def condition(self, bucket: str, key: str, choice: int) -> tuple[dict[str, str], Condition]:
        """A random condition: none, no object, the present object, or a different one."""
        found = self.model.buckets.get(bucket, Bucket()).objects.get(key)
        if choice == 1:
            return {"IfNoneMatch": "*"}, Condition(if_none_match=True)
        if choice == 2 and found is not None:
            return {"IfMatch": f'"{found.etag}"'}, Condition(if_match=found.etag)
        if choice == 3:
            return {"IfMatch": '"0123456789abcdef0123456789abcdef"'}, Condition(if_match="0123456789abcdef")
        return {}, Condition()
