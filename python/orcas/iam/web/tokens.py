"""Tokens of OpenID Connect: what one says, once it is verified. Nothing is fetched for an issuer that is not registered.

PyJWT verifies signatures. Which algorithms and keys it may take is decided here: those of public keys alone, and the key
with the id that the token names.
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from orcas.control.identities.calls import WebIdentity, is_text
from orcas.control.identities.failures import IamError
from orcas.control.identities.names import TAG_KEY_MAX, TAG_VALUE_MAX, TAGS_MAX

if TYPE_CHECKING:
    from orcas.control.identities.records import Entity
    from orcas.control.identities.service import Identities
    from orcas.iam.web.keys import KeySets

# By the type of the key that verifies them.
ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "EC": ("ES256", "ES384", "ES512"),
}  # fmt: skip
_TOKEN_MAX: Final = 20_000
_ROLE: Final = re.compile(r"arn:aws:iam::([0-9]{12}):role/.+", re.ASCII)
_TAGS: Final = "https://aws.amazon.com/tags"
# Claims that policies of roles may ask for, besides `aud`.
_KEYS: Final = ("sub", "azp", "amr", "email", "org", "groups", "roles", "repository", "ref", "environment")
_RSA_BITS_MIN: Final = 2_048
# How far the clock of an issuer may be ahead.
_SKEW_MS: Final = 5 * 60 * 1000


def invalid(why: str) -> IamError:
    """The error for a token that proves nothing."""
    return IamError("InvalidIdentityToken", f"The web identity token that was provided could not be validated: {why}")


async def verified(token: object, role: object, identities: Identities, keys: KeySets) -> WebIdentity:
    """The subject of a token. `role`: the ARN of the role that is to be assumed, whose account knows the issuer.

    Raises:
        IamError: it is not verified.
    """
    if not isinstance(token, str) or not 4 <= len(token) <= _TOKEN_MAX or not isinstance(role, str):
        raise IamError("ValidationError", "WebIdentityToken and RoleArn are required.")
    match = _ROLE.fullmatch(role)
    if match is None:
        raise IamError("ValidationError", "1 validation error detected: roleArn is invalid")
    if find_spec("jwt") is None:
        raise IamError("ServiceFailure", "Web identities need the package PyJWT: pip install 'orcas-s3[oidc]'.")
    issuer, algorithm, kid = _claimed(token)
    provider = await identities.provider(match[1], issuer)
    if provider is None:
        raise invalid("no OpenIDConnect provider is found in your account for the issuer")
    found = await keys.find(provider.id, provider.details, kid)
    if found is None:
        raise invalid("the issuer has no key with its kid")
    claims = _verified(token, found, algorithm, issuer, provider.details["clients"], identities.now_ms())
    return _identity(claims, issuer, provider)


def _claimed(token: str) -> tuple[str, str, str]:
    """Issuer, algorithm and id of the key, as it says itself."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise invalid("it is malformed") from None
    issuer, algorithm, kid = claims.get("iss"), header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or not any(algorithm in known for known in ALGORITHMS.values()):
        raise invalid("its algorithm is not one of public keys")
    if "crit" in header or "b64" in header:
        raise invalid("its header has extensions")
    if not isinstance(kid, str) or not kid:
        raise invalid("it names no kid")
    if not isinstance(issuer, str) or not issuer.startswith("https://"):
        raise invalid("it names no issuer")
    return issuer, algorithm, kid


def _verified(
    token: str, key: dict[str, Any], algorithm: str, issuer: str, clients: list[str], now_ms: int
) -> dict[str, Any]:
    import jwt

    kind = key.get("kty")
    fits = algorithm in ALGORITHMS.get(str(kind), ()) and key.get("alg", algorithm) == algorithm
    if not fits or key.get("use", "sig") != "sig":
        raise invalid("the key with its kid is not for its algorithm")
    try:
        public = jwt.PyJWK({name: key[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in key}, algorithm)
        if kind == "RSA" and public.key.key_size < _RSA_BITS_MIN:
            raise invalid(f"the key has fewer than {_RSA_BITS_MIN} bits")
        # Times are compared below, by the clock of the server.
        options: Any = {
            "require": ["iss", "aud", "exp", "sub"], "verify_exp": False, "verify_nbf": False, "verify_iat": False,
        }  # fmt: skip
        claims = jwt.decode(token, public.key, algorithms=[algorithm], audience=clients, issuer=issuer, options=options)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise invalid(f"{error}") from None
    times: dict[str, Any] = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
    if not all(isinstance(at, int | float) and not isinstance(at, bool) and 0 <= at < 1e11 for at in times.values()):
        raise invalid("its times are no numbers")
    if times["exp"] * 1000 <= now_ms:
        raise IamError(
            "ExpiredTokenException", "Token expired: current date/time must be before the expiration date/time"
        )
    if any(times.get(name, 0) * 1000 > now_ms + _SKEW_MS for name in ("nbf", "iat")):
        raise invalid("it is not valid yet")
    return dict(claims)


def _identity(claims: dict[str, Any], issuer: str, provider: Entity) -> WebIdentity:
    clients = provider.details["clients"]
    audiences = _values(claims["aud"])
    keys = {name: values for name in _KEYS if (values := _values(claims.get(name)))}
    named = [audience for audience in audiences if audience in clients]
    if not named or len(keys.get("sub", ())) != 1 or not keys["sub"][0]:
        raise invalid("it names nobody, or another audience")
    tags, transitive = _tags(claims.get(_TAGS, {}))
    return WebIdentity(provider.number, issuer, provider.arn, named[0], {**keys, "aud": named}, tags, transitive)


def _values(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str) and is_text(each)]


def _tags(given: object) -> tuple[list[tuple[str, str]], list[str]]:
    """Session tags: names with lists of one value, and the names of those that are handed on."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = None
    principal = given.get("principal_tags", {}) if isinstance(given, dict) else None
    transitive = given.get("transitive_tag_keys", []) if isinstance(given, dict) else None
    if not isinstance(principal, dict) or not isinstance(transitive, list):
        raise invalid(f"{_TAGS} has another form")
    tags = [
        (name, value[0] if isinstance(value, list) and len(value) == 1 else value) for name, value in principal.items()
    ]
    fits = all(
        isinstance(value, str) and is_text(value) and len(value) <= TAG_VALUE_MAX and 0 < len(name) <= TAG_KEY_MAX
        for name, value in tags
    )
    names = {name.lower() for name, _ in tags}
    if not fits or len(tags) > TAGS_MAX or len(names) != len(tags) or any(name.startswith("aws:") for name in names):
        raise invalid(f"{_TAGS} has tags that a session cannot have")
    if not all(isinstance(name, str) and name.lower() in names for name in transitive):
        raise invalid(f"{_TAGS} hands on tags that it does not have")
    return tags, transitive
