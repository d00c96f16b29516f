"""Any input to the admin API, signed by root, gets an answer in JSON, and starts only work within the limits."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.test_admin import ROOT, URL, Answered, Client
from tests.fixtures.signing import signed_headers

from orcas.admin import api
from orcas.admin.jobs import Work
from orcas.admin.tools import MOUNT
from orcas.serving.app import Orcas
from orcas.settings.config import resolve

# Values of every type, and near the limits of the fields.
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 66), st.integers(), st.floats(), st.text(max_size=5), st.just(1 << 40),
    st.just([]),
)  # fmt: skip
NAMES = st.sampled_from(["read_content", "threads", "bytes_per_sec"]) | st.text(max_size=5)
ORDERS = st.dictionaries(NAMES, VALUES, max_size=4)
BODIES = st.one_of(
    ORDERS.map(json.dumps).map(str.encode), VALUES.map(json.dumps).map(str.encode), st.binary(max_size=40)
)
# Also what JSON can hold and UTF-8 cannot.
TEXTS = st.text(max_size=5) | st.sampled_from(["\ud800", "a\udfff", "x" * 300])
# Paths that take names, with places for them.
NAMED: list[tuple[str, Any]] = [
    ("buckets/b/snapshots", lambda text: {"name": text}),
    ("buckets/b/fork", lambda text: {"name": text}),
    ("buckets/b/fork", lambda text: {"name": "copy", "snapshot": text}),
    ("buckets/b/restore", lambda text: {"snapshot": text}),
    ("move", lambda text: {"source": {"bucket": text, "prefix": ""}, "target": {"bucket": "b", "prefix": ""}}),
    ("move", lambda text: {"source": {"bucket": "b", "prefix": text}, "target": {"bucket": text, "prefix": text}}),
]
SEGMENTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
PLACES = st.sampled_from([("GET", "jobs"), ("DELETE", "jobs"), ("PUT", "backup-pins"), ("DELETE", "backup-pins")])


class Site:
    """An application with one event loop, and the checks that it was told to run; none of them runs."""

    def __init__(self, data: Path, **settings: str) -> None:
        keys = {"root_access_key": ROOT.access_key, "root_secret_key": ROOT.secret_key}
        self.app = Orcas(resolve({"data": str(data), **keys, **settings}, ambient=False).settings)
        self.client = Client(self.app)
        self.runner = asyncio.Runner()
        self.ordered: list[api.CheckBody] = []
        # Those of root.
        self.keys = ROOT

    def open(self) -> None:
        """Start the application; `close` ends it."""
        self.lifespan = self.app.router.lifespan_context(self.app)
        self.runner.run(self.lifespan.__aenter__())
        store = self.app.store
        assert store is not None
        assert store.parts is not None
        self.parts, self.tools = store.parts, store.parts.tools
        self.tools.check = self._check  # type: ignore[method-assign]

    def close(self) -> None:
        """End the application and its loop."""
        self.runner.run(self.lifespan.__aexit__(None, None, None))
        self.runner.close()

    def _check(self, **order: Any) -> Work:
        self.ordered.append(api.CheckBody(**order))
        return Work(dict, dict)

    def ask(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> Answered:
        """The answer to a request that root signed."""
        target = f"{MOUNT}/{path}"
        extra = {"content-type": content_type, "x-amz-orcas-nonce": secrets.token_hex(8)}
        digest = hashlib.sha256(body).hexdigest()
        headers = signed_headers(self.keys, method, URL + target, extra, payload=digest)
        return self.runner.run(self.client.send(method, target, headers, body))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "data")
    made.open()
    yield made
    made.close()


def refusal(answer: dict[str, Any]) -> str:
    """The code of an error document."""
    assert set(answer) == {"error"}
    assert set(answer["error"]) == {"code", "message"}
    return str(answer["error"]["code"])


def test_a_check_is_ordered_within_its_limits_or_refused(site: Site) -> None:
    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(body=BODIES)
    def ordered(body: bytes) -> None:
        site.ordered.clear()
        status, answer = site.ask("POST", "check", body)
        if status == 202:
            (order,) = site.ordered
            assert 1 <= order.threads <= 64
            assert 0 <= order.bytes_per_sec <= 1 << 40
            assert isinstance(order.read_content, bool)
            job = site.tools.jobs.find(answer["id"])
            assert job is not None
            assert job.thread is not None
            job.thread.join()
            assert site.ask("DELETE", f"jobs/{answer['id']}")[0] == 200
        else:
            assert (status, refusal(answer), site.ordered) == (400, "InvalidRequest", [])

    ordered()


@pytest.mark.parametrize("path", ["stats\n", "jobs/a\n", "\n", "a\nb"])
def test_a_path_with_a_line_end_is_one_of_the_api_and_not_found(site: Site, path: str) -> None:
    status, answer = site.ask("GET", quote(path))
    assert (status, refusal(answer)) == (404, "NotFound")
    target = f"{MOUNT}/{quote(path)}"
    status, answer = site.runner.run(site.client.send("GET", target, {}, b""))
    assert (status, refusal(answer)) == (403, "AccessDenied")


def test_any_text_as_a_name_is_refused_in_json(site: Site) -> None:
    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(named=st.sampled_from(NAMED), text=TEXTS)
    def ordered(named: tuple[str, Any], text: str) -> None:
        path, order = named
        status, answer = site.ask("POST", path, json.dumps(order(text)).encode())
        # There is no bucket at all.
        assert (status, refusal(answer)) in {
            (400, "InvalidRequest"), (400, "InvalidBucketName"), (404, "NoSuchBucket"),
        }  # fmt: skip

    ordered()


def test_names_that_nobody_was_given_are_not_found(site: Site) -> None:
    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(where=PLACES, name=SEGMENTS)
    def asked(where: tuple[str, str], name: str) -> None:
        method, kind = where
        status, answer = site.ask(method, f"{kind}/{quote(name, safe='')}")
        assert (status, refusal(answer)) in {(404, "NoSuchJob"), (404, "NoSuchBackupPin"), (404, "NotFound")}

    asked()
