"""Identities that change while the store is open."""

from __future__ import annotations

import asyncio
import dataclasses

from tests.api.conftest import KEYS, OWNER, App
from tests.fixtures.signing import Identity

from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.engine import replace_identities

CHANGED = dataclasses.replace(KEYS, secret_key="another-secret")
OTHER = dataclasses.replace(KEYS, access_key="other", secret_key="other-secret")


def snapshot(*identities: Identity) -> IdentitySnapshot:
    return IdentitySnapshot.of_root(OWNER, *((each.access_key, each.secret_key) for each in identities))


async def test_a_changed_secret_takes_effect_at_once(app: App) -> None:
    """Signed requests run throughout; those accepted before the change are carried out."""
    for old, new in [(KEYS, CHANGED), (CHANGED, KEYS)] * 3:
        running = [asyncio.create_task(app.call("PUT", f"/bucket/{n}", b"x" * 100_000, keys=old)) for n in range(4)]
        await asyncio.sleep(0)
        assert (await app.call("PUT", "/bucket/k", b"old", keys=old)).status == 200
        assert b"SignatureDoesNotMatch" in (await app.call("PUT", "/bucket/k", b"new", keys=new)).body
        replace_identities(app.core, snapshot(new))
        assert b"SignatureDoesNotMatch" in (await app.call("PUT", "/bucket/k", b"old", keys=old)).body
        assert (await app.call("PUT", "/bucket/k", b"new", keys=new)).status == 200
        assert {exchange.status for exchange in await asyncio.gather(*running)} == {200}


async def test_a_key_that_is_gone_signs_nothing(app: App) -> None:
    assert (await app.call("GET", "/bucket")).status == 200
    replace_identities(app.core, snapshot())
    assert b"InvalidAccessKeyId" in (await app.call("GET", "/bucket")).body


async def test_the_root_of_another_account_may_do_nothing_in_this_one(app: App) -> None:
    root = snapshot(KEYS)
    other = IdentitySnapshot.of_root("1" * 64, (OTHER.access_key, OTHER.secret_key))
    both = IdentitySnapshot(
        root.accounts + other.accounts, (), root.identities + other.identities, root.keys + other.keys
    )
    replace_identities(app.core, both)
    assert b"<Name>" not in (await app.call("GET", "/", keys=OTHER)).body
    for method, target in [("GET", "/bucket"), ("GET", "/bucket/k"), ("PUT", "/bucket/k"), ("DELETE", "/bucket")]:
        answer = await app.call(method, target, keys=OTHER)
        assert answer.status == 403
        assert b"is not authorized to perform: s3:" in answer.body
        assert b"because no resource-based policy allows" in answer.body
