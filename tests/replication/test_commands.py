"""`orcas replication`: each command against a server, its exit codes, and that no secret shows."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.fixtures.targets import keys_of
from tests.fixtures.waiting import wait_until
from tests.replication.conftest import Pair, admin

from orcas.settings.config import child_environment


def orcas(pair: Pair, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    server = pair.here.server
    variables = {
        "AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_ENDPOINT_URL_S3": server.endpoint, "AWS_REGION": server.region,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "orcas", "replication", *arguments, "--endpoint", server.endpoint],
        env=child_environment() | variables, input=stdin, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_each_command_does_what_it_says(pair: Pair) -> None:
    there = pair.there.server
    name = f"cli-{pair.name}"
    added = orcas(
        pair,
        "target",
        "add",
        name,
        pair.proxy.url,
        "--access-key",
        there.access_key,
        "--private",
        stdin=there.secret_key,
    )
    assert (added.returncode, added.stderr) == (0, "")
    listed = orcas(pair, "target", "list", "--json")
    assert [it["url"] for it in json.loads(listed.stdout)["targets"] if it["name"] == name] == [pair.proxy.url]
    assert orcas(pair, "target", "test", name).returncode == 0
    pair.put("a")
    to = f"{name}/{pair.bucket}"
    assert orcas(pair, "add", pair.bucket, "--to", to, "--existing", "--delete-markers").returncode == 0
    waited = orcas(pair, "status", pair.bucket, "--wait", "--json")
    assert waited.returncode == 0, waited.stderr
    (route,) = json.loads(waited.stdout)["routes"]
    assert (route["exceptions"], route["results"]["copied"]) == ([], 1)
    assert keys_of(pair.there.client(), pair.bucket) == ["a"]
    assert orcas(pair, "verify", pair.bucket, "--metadata").returncode == 0
    # The bucket of the target is emptied.
    pair.there.client().delete_object(Bucket=pair.bucket, Key="a")
    differs = orcas(pair, "verify", pair.bucket)
    assert (differs.returncode, "missing: a" in differs.stdout) == (1, True)
    assert orcas(pair, "retry", pair.bucket, "--all").returncode == 0
    assert wait_until(lambda: keys_of(pair.there.client(), pair.bucket) == ["a"])
    pair.here.client().delete_bucket_replication(Bucket=pair.bucket)
    assert orcas(pair, "target", "remove", name).returncode == 0
    assert orcas(pair, "target", "test", name).returncode == 1
    for shown in (added, listed, waited):
        assert there.secret_key not in shown.stdout + shown.stderr


def refused(pair: Pair, **changed: Any) -> str:
    there = pair.there.server
    order = {
        "name": "x", "url": pair.proxy.url, "access_key": there.access_key, "secret_key": there.secret_key,
        "private": True, "timeout_sec": 5,
    }  # fmt: skip
    with pytest.raises(Exception, match="cannot be used") as found:
        admin(pair.here, "PUT", "replication/targets", order | changed)
    assert there.secret_key not in str(found.value)
    return str(found.value)


def test_a_target_is_checked_when_it_is_added(pair: Pair) -> None:
    here = pair.here.server
    assert "refuses the key" in refused(pair, secret_key="wrong")
    assert "no public address" in refused(pair, private=False)
    assert "cannot be reached" in refused(pair, url="http://127.0.0.1:1")
    own = refused(pair, url=here.endpoint, access_key=here.access_key, secret_key=here.secret_key)
    assert "this server itself" in own


def test_a_rule_is_checked_when_it_is_added(pair: Pair) -> None:
    plain = f"p-{pair.bucket}"[:63]
    pair.there.client().create_bucket(Bucket=plain)
    to = f"{pair.name}/{plain}"
    unversioned = orcas(pair, "add", pair.bucket, "--to", to)
    assert (unversioned.returncode, "has no versioning" in unversioned.stderr) == (1, True)
    assert orcas(pair, "add", pair.bucket, "--to", f"{pair.name}/absent-{plain[:40]}").returncode == 1
    assert orcas(pair, "add", pair.bucket, "--to", f"absent/{plain}").returncode == 1
    assert orcas(pair, "add", pair.bucket, "--to", "absent").returncode == 2
