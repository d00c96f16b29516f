"""Random calls that change what a version has besides its content: tags, retention and legal hold."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, rule

from .calls import tag_sets
from .model import Metadata
from .versioned_calls import KEYS, VersionedCalls, named
from .versions import UNLOCKED, Lock, Retention

# Retention ends after every test. Later ones extend it.
FIRST_END = (dt.datetime.now(dt.UTC) + dt.timedelta(days=2)).replace(microsecond=0)

keys = st.sampled_from(KEYS)
# The first ones, and their forks.
buckets: Bundle[str] = Bundle("buckets")
lockable = st.sampled_from(("locks", "locks", "plain")) | buckets
picks = st.integers(0, 159)
bypasses = st.sampled_from((False, False, False, True))
retentions = st.builds(
    Retention,
    st.sampled_from(("GOVERNANCE", "GOVERNANCE", "COMPLIANCE")),
    st.builds(lambda hours: FIRST_END + dt.timedelta(hours=hours), st.integers(0, 2)),
)
locks = st.just(UNLOCKED) | st.builds(Lock, st.none() | retentions, st.none() | st.booleans())


class AttributeRules(VersionedCalls):
    """None of these calls makes a version."""

    @rule(bucket=buckets, pick=picks, tags=tag_sets)
    def put_object_tagging(self, bucket: str, pick: int, tags: Metadata) -> None:
        key, version_id = self.choose(bucket, pick)
        answer, found = self.both(
            lambda: self.put_tags(bucket, key, tags, **named(version_id)),
            lambda: self.model.put_object_tagging(bucket, key, version_id, tags),
        )
        if found:
            self.check_name(bucket, found, answer)

    @rule(bucket=buckets, pick=picks)
    def get_object_tagging(self, bucket: str, pick: int) -> None:
        self.check_tags(bucket, *self.choose(bucket, pick))

    @rule(bucket=st.sampled_from(("locks", "locks", "locks", "plain")),
          default=st.none() | st.tuples(st.sampled_from(("GOVERNANCE", "COMPLIANCE")), st.integers(1, 3)))  # fmt: skip
    def put_object_lock_configuration(self, bucket: str, default: tuple[str, int] | None) -> None:
        """Also enables Object Lock where there is versioning."""
        configuration: dict[str, Any] = {"ObjectLockEnabled": "Enabled"}
        if default is not None:
            configuration["Rule"] = {"DefaultRetention": {"Mode": default[0], "Days": default[1]}}
        self.both(
            lambda: self.client.put_object_lock_configuration(
                Bucket=self.name(bucket), ObjectLockConfiguration=configuration
            ),
            lambda: self.model.put_object_lock_configuration(bucket, default),
        )

    @rule(bucket=lockable, pick=picks,
          changes=st.lists(st.tuples(st.none() | retentions, bypasses), min_size=2, max_size=4))  # fmt: skip
    def put_object_retention(self, bucket: str, pick: int, changes: list[tuple[Retention | None, bool]]) -> None:
        """Several changes of one version."""
        key, version_id = self.choose(bucket, pick)
        for new, bypass in changes:
            self.change_retention(bucket, key, version_id, new, bypass=bypass)

    def change_retention(
        self, bucket: str, key: str, version_id: str | None, new: Retention | None, *, bypass: bool
    ) -> None:
        retention = {} if new is None else {"Mode": new.mode, "RetainUntilDate": new.until}
        arguments: dict[str, Any] = {"Bucket": self.name(bucket), "Key": key, **named(version_id)}
        if bypass:
            arguments["BypassGovernanceRetention"] = True
        _, found = self.both(
            lambda: self.client.put_object_retention(**arguments, Retention=retention),
            lambda: self.model.put_object_retention(bucket, key, version_id, new, bypass=bypass),
        )
        if found:
            self.lock_changed(bucket, key, found)

    @rule(bucket=lockable, pick=picks, on=st.booleans())
    def put_object_legal_hold(self, bucket: str, pick: int, on: bool) -> None:
        key, version_id = self.choose(bucket, pick)
        _, found = self.both(
            lambda: self.client.put_object_legal_hold(
                Bucket=self.name(bucket), Key=key, LegalHold={"Status": "ON" if on else "OFF"}, **named(version_id)
            ),
            lambda: self.model.put_object_legal_hold(bucket, key, version_id, on=on),
        )
        if found:
            self.lock_changed(bucket, key, found)
