"""The names by which a server with published keys may be asked."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.unit.http.test_app import open_store

from orcas.http.hosts import is_own
from orcas.serving.app import orcas_of
from orcas.settings.config import Settings

OWN = [
    "localhost", "LOCALHOST:9000", "localhost.", "bucket.localhost", "a.b.localhost:9000", "127.0.0.1", "127.1.2.3:9000",
    "[::1]", "[::1]:9000", "s3.test", "bucket.s3.test:80", "localhost:",
]  # fmt: skip
FOREIGN = [
    "example.org", "localhost.example.org", "notlocalhost", "127.0.0.1.example.org", "xs3.test", "192.168.1.2", "0.0.0.0",
    "[::2]:9000", "[::]", "", ":9000", "2130706433", "localhost:9000:1", "[::1", "localhost@example.org", "::1:x",
]  # fmt: skip


def test_names_of_this_machine_and_of_the_operator_are_own() -> None:
    for host in OWN:
        assert is_own([host.encode()], ["s3.test"]), host
    for host in FOREIGN:
        assert not is_own([host.encode()], ["s3.test"]), host
        assert not is_own([b"localhost", host.encode()], ["s3.test"]), host


@pytest.mark.parametrize("path", ["/", "/bucket/key", "/_orcas/health/live", "/_orcas/console/", "/_orcas/docs"])
async def test_nothing_answers_to_another_name(path: str) -> None:
    app = orcas_of(Settings(data=Path("/nowhere"), dev=True), open_store)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            assert (await client.get(path)).status_code != 403
            for method in ("GET", "POST", "PUT", "OPTIONS"):
                answer = await client.request(method, path, headers={"host": "rebound.example.org:9000"})
                assert answer.status_code == 403
                assert "answers only to localhost" in answer.text


async def test_other_servers_answer_to_every_name() -> None:
    app = orcas_of(Settings(data=Path("/nowhere")), open_store)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        assert (await client.get("http://example.org/_orcas/health/live")).status_code == 200
