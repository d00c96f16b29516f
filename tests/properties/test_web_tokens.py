"""Tokens of OpenID Connect that were changed at random: none that the provider has not signed as it stands is verified."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.iam.tokens import ISSUER, Provider

from orcas.control.identities.calls import WebIdentity
from orcas.control.identities.failures import IamError
from orcas.iam.web.keys import KeySets, parse_keys
from orcas.iam.web.tokens import verified

ROLE = "arn:aws:iam::111122223333:role/reader"
NOW_MS = 1_700_000_000_000
PROVIDER = Provider()
CLAIMS = {"iss": ISSUER, "aud": "app", "sub": "ann", "iat": NOW_MS // 1000, "exp": NOW_MS // 1000 + 3600}

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


class Known:
    """The identities of one account, which knows the provider."""

    async def provider(self, _account: str, issuer: str) -> Any:
        if issuer != ISSUER:
            return None
        return SimpleNamespace(
            id="provider", number="111122223333", arn="arn", details={"clients": ["app"], "url": ISSUER}
        )

    def now_ms(self) -> int:
        return NOW_MS


class Keys(KeySets):
    """Those of the provider, which need not be fetched."""

    async def find(self, _provider: str, _details: dict[str, Any], kid: str) -> dict[str, Any] | None:
        return parse_keys(PROVIDER.key_set()).get(kid)


def verdict(token: str) -> WebIdentity | IamError:
    """Whom the token is about, or why it is refused; anything else is a fault."""
    identities: Any = Known()
    try:
        # Nothing of it waits, so that it needs no loop.
        verified(token, ROLE, identities, Keys()).send(None)
    except StopIteration as done:
        found: WebIdentity = done.value
        return found
    except IamError as error:
        return error
    raise AssertionError("it waits for something")


def of_parts(header: Any, claims: Any, signature: bytes) -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@pytest.mark.parametrize("kid", ["rsa", "ec"])
def test_the_token_that_is_changed_is_valid(kid: str) -> None:
    found = verdict(PROVIDER.token(kid, **CLAIMS))
    assert isinstance(found, WebIdentity), found
    assert (found.audience, found.keys["sub"]) == ("app", ["ann"])


@settings(max_examples=100, deadline=None)
@given(
    kid=st.sampled_from(["rsa", "ec"]),
    at=st.integers(0, 2000),
    removed=st.integers(0, 3),
    inserted=st.text("AQgw-_.=é", max_size=3),
)
def test_a_token_that_was_changed(kid: str, at: int, removed: int, inserted: str) -> None:
    token = PROVIDER.token(kid, **CLAIMS)
    at %= len(token)
    changed = token[:at] + inserted + token[at + removed :]
    found = verdict(changed)
    if isinstance(found, WebIdentity):
        # Base64 has several spellings of the bits behind the last byte.
        assert changed.split(".")[:2] == token.split(".")[:2]


@settings(max_examples=100, deadline=None)
@given(
    header=st.fixed_dictionaries(
        {"alg": st.sampled_from(["none", "HS256", "RS256", "ES256", "PS384", "rs256"]) | values},
        optional={"kid": st.sampled_from(["rsa", "ec"]) | values, "typ": values, "crit": values, "jwk": values},
    ),
    claims=st.dictionaries(st.sampled_from(list(CLAIMS)) | st.text(max_size=8), values, max_size=6) | values,
    signature=st.binary(max_size=300),
)
def test_what_nobody_has_signed(header: Any, claims: Any, signature: bytes) -> None:
    if isinstance(claims, dict):
        claims = CLAIMS | claims
    found = verdict(of_parts(header, claims, signature))
    assert isinstance(found, IamError)
    assert found.code == "InvalidIdentityToken"


@settings(max_examples=100, deadline=None)
@given(
    changed=st.dictionaries(
        st.sampled_from([*CLAIMS, "nbf", "azp", "amr", "groups", "https://aws.amazon.com/tags"]), values, max_size=4
    )
)
def test_what_a_provider_may_sign(changed: dict[str, Any]) -> None:
    """Whatever it says, it is refused or about one subject and an audience that is known."""
    try:
        token = PROVIDER.token("ec", **(CLAIMS | changed))
    except (TypeError, ValueError):
        # PyJWT signs no such claims.
        return
    found = verdict(token)
    if isinstance(found, WebIdentity):
        assert found.audience == "app"
        assert len(found.keys["sub"]) == 1
        assert found.keys["sub"][0]
