"""Identities that change while the store is open."""

from __future__ import annotations

import asyncio
import dataclasses

from tests.api.conftest import KEYS, OWNER, App

from orcas.control import Credential, Snapshot
from orcas.edge import replace_identities

CHANGED = dataclasses.replace(KEYS, secret_key="another-secret")
OTHER = dataclasses.replace(KEYS, access_key="other", secret_key="other-secret")


def snapshot(*credentials: Credential) -> Snapshot:
    return Snapshot(credentials, OWNER)


async def test_a_changed_secret_takes_effect_at_once(app: App) -> None:
    """Signed requests run throughout; those accepted before the change are carried out."""
    for old, new in [(KEYS, CHANGED), (CHANGED, KEYS)] * 3:
        running = [asyncio.create_task(app.call("PUT", f"/bucket/{n}", b"x" * 100_000, keys=old)) for n in range(4)]
        await asyncio.sleep(0)
        assert (await app.call("PUT", "/bucket/k", b"old", keys=old)).status == 200
        assert b"SignatureDoesNotMatch" in (await app.call("PUT", "/bucket/k", b"new", keys=new)).body
        replace_identities(app.core, snapshot(Credential(new.access_key, new.secret_key, OWNER)))
        assert b"SignatureDoesNotMatch" in (await app.call("PUT", "/bucket/k", b"old", keys=old)).body
        assert (await app.call("PUT", "/bucket/k", b"new", keys=new)).status == 200
        assert {exchange.status for exchange in await asyncio.gather(*running)} == {200}


async def test_a_key_that_is_gone_signs_nothing(app: App) -> None:
    assert (await app.call("GET", "/bucket")).status == 200
    replace_identities(app.core, snapshot())
    assert b"InvalidAccessKeyId" in (await app.call("GET", "/bucket")).body


async def test_another_identity_learns_nothing(app: App) -> None:
    root = Credential(KEYS.access_key, KEYS.secret_key, OWNER)
    replace_identities(app.core, snapshot(root, Credential(OTHER.access_key, OTHER.secret_key, "1" * 64)))
    for target in ("/", "/bucket", "/missing", "/bucket/k", "/missing/k"):
        answer = await app.call("GET", target, keys=OTHER)
        assert answer.status == 403
        assert b"<Code>AccessDenied</Code>" in answer.body
        assert b"is not authorized to perform: s3:" in answer.body
