"""How the application routes a request: to the S3 dispatcher, or to the routes under `/_orcas/`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import orcas
from orcas import engine
from orcas._core import IncompleteBodies
from orcas.admin.health import watch
from orcas.control.root import Root
from orcas.errors import ConfigurationError
from orcas.serving.app import OpenStore, Orcas
from orcas.settings.config import Settings, environment
from orcas.version import orcas_version


async def to_s3(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": scope["raw_path"]})


@dataclass
class Health:
    status: str = "ok"
    reason: str | None = None
    detail: str | None = None
    writable: bool = True
    durability: str = "sync"


HEALTH = Health()


@asynccontextmanager
async def open_store(_: Settings) -> AsyncIterator[OpenStore]:
    yield OpenStore(
        dispatch=to_s3,
        health=lambda: HEALTH,
        root=Root("0" * 64, "a", "b", None, fresh=False),
        incomplete=IncompleteBodies(1 << 20),
    )


async def get_within(app: Orcas, path: str, host: str = "localhost") -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        return await client.get(path, headers={"host": host})


async def get(app: Orcas, path: str, host: str = "localhost") -> httpx.Response:
    async with app.router.lifespan_context(app):
        return await get_within(app, path, host)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/docs",
        "/openapi.json",
        "/bucket/_orcas/health/live",
        "/_orcas",
        "/%5Forcas/health/live",
        "/a%0Ab",
        "//_orcas/",
    ],
)
async def test_everything_else_is_s3(path: str) -> None:
    app = Orcas(Settings(data=Path("/nowhere")), open_store)
    assert (await get(app, path)).status_code == 299


async def test_health_needs_no_credentials() -> None:
    app = Orcas(Settings(data=Path("/nowhere")), open_store)
    live = await get(app, "/_orcas/health/live")
    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    ready = await get(app, "/_orcas/health/ready")
    assert (ready.status_code, ready.json()) == (200, {"status": "ok", "writable": True, "durability": "sync"})
    assert (await get(app, "/_orcas/nothing")).status_code == 404


@pytest.mark.parametrize(
    ("status", "writes", "ready", "writable"),
    [
        ("ok", True, 200, 200),
        ("full", False, 200, 503),
        ("read-only", False, 200, 503),
        ("damaged", True, 503, 200),
        ("damaged", False, 503, 503),
    ],
)
async def test_health_tells_how_the_store_is(
    monkeypatch: pytest.MonkeyPatch, status: str, writes: bool, ready: int, writable: int
) -> None:
    monkeypatch.setattr(HEALTH, "status", status)
    monkeypatch.setattr(HEALTH, "reason", "it is so")
    monkeypatch.setattr(HEALTH, "detail", "EIO on /srv/secret-place")
    monkeypatch.setattr(HEALTH, "writable", writes)
    for asked, code in (("ready", ready), ("writable", writable), ("live", 200)):
        answer = await get(Orcas(Settings(data=Path("/nowhere")), open_store), f"/_orcas/health/{asked}")
        assert answer.status_code == code
        assert "secret-place" not in answer.text
        if asked != "live":
            said = {"status": status, "reason": "it is so", "writable": writes, "durability": "sync"}
            assert (answer.json(), answer.headers["cache-control"]) == (said, "no-store")


async def test_the_log_says_when_the_store_is_not_well(caplog: pytest.LogCaptureFixture) -> None:
    said = [Health("full", "no room", "no room"), Health("full", "no room", "no room"), Health(), Health()]
    said.append(Health("damaged", "a file", "the file /srv/x"))
    with caplog.at_level("INFO", "orcas"), pytest.raises(IndexError):
        await watch(lambda: said.pop(0), seconds=0)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "The store is full: no room"),
        ("INFO", "The store is healthy again and accepts writes"),
        ("ERROR", "The store is damaged: the file /srv/x"),
    ]


async def test_a_key_of_a_virtual_hosted_bucket_may_be_called_like_a_route() -> None:
    app = Orcas(Settings(data=Path("/nowhere"), domains=("s3.example.org",)), open_store)
    for host in ("bucket.s3.example.org", "Bucket.S3.Example.ORG:9000", "bucket.s3.example.org."):
        assert (await get(app, "/_orcas/health/live", host)).status_code == 299
    for host in ("bucket.localhost", "bucket.LOCALHOST.:9000"):
        assert (
            await get(Orcas(Settings(data=Path("/nowhere")), open_store), "/_orcas/health/live", host)
        ).status_code == 299
    for host in (
        "s3.example.org",
        "s3.example.org:9000",
        "localhost",
        "localhost.",
        "[::1]:9000",
        "evils3.example.org",
    ):
        assert (await get(app, "/_orcas/health/live", host)).status_code == 200


async def test_a_page_of_a_website_may_be_called_like_a_route() -> None:
    app = Orcas(Settings(data=Path("/nowhere"), website_host="web.test"), open_store)
    for host in ("bucket.web.test", "Bucket.WEB.test.:9000", "web.test", "_orcas.web.test"):
        assert (await get(app, "/_orcas/health/live", host)).status_code == 299
    assert (await get(app, "/_orcas/health/live", "bucketweb.test")).status_code == 200


async def test_documentation_tells_strangers_no_version() -> None:
    app = Orcas(Settings(data=Path("/nowhere")), open_store)
    for path in ("/_orcas/openapi.json", "/_orcas/docs"):
        answer = await get(app, path)
        assert answer.status_code == 200
        assert orcas_version() not in answer.text


async def test_s3_needs_the_lifespan() -> None:
    app = Orcas(Settings(data=Path("/nowhere")), open_store)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        with pytest.raises(RuntimeError, match="lifespan"):
            await client.get("/bucket")


def test_without_arguments_the_settings_are_those_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orcas.toml").write_text('data = "from-file"')
    with environment({"ORCAS_REGION": "eu-west-3"}):
        ambient = orcas.create_app().settings
        own = orcas.create_app(tmp_path / "own", durability="interval").settings
    assert (ambient.data, ambient.region) == (tmp_path / "from-file", "eu-west-3")
    assert (own.data, own.region, own.durability) == (tmp_path / "own", "us-east-1", "interval")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"region": "eu-west-3"}, "needs either"),
        ({"data": "x", "memory": True}, "not both"),
        ({"memory": True, "regoin": "x"}, "did you mean region"),
        ({"data": "x", "durability": "maybe"}, "durability must be one of"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        orcas.create_app(**arguments)


async def test_a_store_in_memory_is_made_and_removed_with_the_lifespan(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []

    def open_core(settings: Settings, snapshot: Any, **options: bool) -> Any:
        opened.append(settings.data)
        return engine.open_core(settings, snapshot, **options)

    monkeypatch.setattr("orcas.serving.app.open_core", open_core)
    app = orcas.create_app(memory=True)
    for _ in range(2):
        async with app.lifespan():
            assert app.store is not None
            store = opened[-1]
            assert (store / "log").is_dir()
        assert app.store is None
        assert not store.exists()
    assert len(set(opened)) == 2


async def test_a_request_on_another_loop_is_refused() -> None:
    app = Orcas(Settings(data=Path("/nowhere")), open_store)
    async with app.lifespan():
        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, get_within(app, "/bucket"))
