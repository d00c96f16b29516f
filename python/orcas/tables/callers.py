"""Who calls the catalog, and what they may do: decided from the head and the names in it, before anything is read.

A request is signed for `s3` or `s3tables`, or has a token of OAuth2. Such a token is temporary credentials of STS for
whoever has sent an access key and its secret, and a request that has one is verified as if they had signed it. Rights are
those of S3 Tables, from the policies of IAM.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote

from orcas.control.identities.failures import IamError
from orcas.engine import Refusal, authenticate
from orcas.errors import UnavailableError
from orcas.http.signing import Keys, sign
from orcas.tables.failures import TableError, denied
from orcas.tables.names import Identifier, Namespace, bucket_of, encoded

if TYPE_CHECKING:
    from starlette.types import Scope

    from orcas.control.identities.service import Identities
    from orcas.engine import AdminCaller, Core
    from orcas.iam.directory import Directory

# An action, a resource, and keys of conditions.
Question = tuple[str, str, dict[str, str]]
# Seconds for which a token is valid, and the credentials of a table are: the most that root can give.
TOKEN_SECONDS: Final = 3600
_SIGNED: Final = re.compile(rb"AWS4-HMAC-SHA256 Credential=[^/,\s]+/\d{8}/[\w-]+/(s3|s3tables)/aws4_request\b")
_BEARER: Final = b"bearer "
_TOKEN_MAX: Final = 16 * 1024
_EMPTY: Final = hashlib.sha256(b"").digest()
# Statuses that are no refusal of the signature: the address is locked out, or the limit of the sender is reached.
_BUSY: Final = 503


@dataclass(frozen=True, slots=True)
class Caller:
    """Who has sent a request, with which access key and token of STS. `context`: keys of conditions that it fills."""

    who: AdminCaller
    token: str | None
    identities: Identities
    region: str
    context: dict[str, list[str]]
    # The SHA-256 that its body must have, if that was signed.
    digest: bytes | None

    async def require(self, *asked: Question) -> None:
        """Each action on its resource must be allowed.

        Raises:
            TableError: one is not.
        """
        allowed = await self.may(*asked)
        for (action, resource, _), each in zip(asked, allowed, strict=True):
            if not each:
                raise denied(action, resource)

    def require_root(self) -> None:
        """Raise TableError unless the caller is root."""
        if not self.who.is_root:
            raise TableError(403, "ForbiddenException", "Branches are made, merged and dropped by root alone.")

    def check(self, body: bytes) -> None:
        """Raise TableError unless a body is the one that was signed, if it was."""
        if self.digest is not None and not hmac.compare_digest(hashlib.sha256(body).digest(), self.digest):
            raise TableError(403, "ForbiddenException", "The body is not the one that was signed.")

    async def may(self, *asked: Question) -> list[bool]:
        """Whether each action on its resource is allowed."""
        of_s3: list[tuple[str, str, dict[str, list[str]]]]
        of_s3 = [(action, resource, {}) for action, resource, _ in asked if action.startswith("s3:")]
        others = [each for each in asked if not each[0].startswith("s3:")]
        found = iter(await asyncio.to_thread(self.who.may, of_s3) if of_s3 else ())
        try:
            decided = iter(await self.identities.decide(self.who.access_key, self.token, self.context, others))
        except IamError as error:
            raise TableError(403, "ForbiddenException", error.message) from None
        return [next(found if action.startswith("s3:") else decided) for action, _, _ in asked]

    def warehouse(self, bucket: str, action: str, namespace: Namespace | None = None) -> Question:
        """An action on a warehouse, or on a namespace of it."""
        context = {} if namespace is None else {"s3tables:namespace": encoded(namespace)}
        return f"s3tables:{action}", self.arn(bucket), context

    def table(self, bucket: str, table: Identifier, *actions: str) -> list[Question]:
        """Actions on a table."""
        _, _, name = table.path.partition("/")
        context = {"s3tables:namespace": encoded(table.namespace), "s3tables:tableName": name}
        return [(f"s3tables:{action}", self.arn(bucket, table), context) for action in actions]

    def objects(self, bucket: str, place: str, *actions: str) -> list[Question]:
        """Actions on all objects below a place, or on the object with this key."""
        return [(f"s3:{action}", f"arn:aws:s3:::{bucket_of(bucket)}/{place}", {}) for action in actions]

    def arn(self, bucket: str, table: Identifier | None = None) -> str:
        """The ARN of a warehouse, or of a table in it."""
        below = "" if table is None else f"/table/{table.path}"
        return f"arn:aws:s3tables:{self.region}:{self.account}:bucket/{bucket}{below}"

    @property
    def account(self) -> str:
        """The number of the account."""
        return self.who.arn.split(":")[4]


class Callers:
    """Finds out who calls. `core` and `directory` are called for each request; `account`: the number of the first one."""

    def __init__(
        self,
        core: Callable[[], Core],
        directory: Callable[[], Directory | None],
        account: Callable[[], str],
        region: str,
    ) -> None:
        self._core, self._directory, self._account, self._region = core, directory, account, region

    async def known(self, scope: Scope, body: bytes | None) -> Caller:
        """Who has sent a request, as its head says, and its body if that was received first.

        Raises:
            TableError: nobody has, or somebody of another account: warehouses belong to the first one.
            UnavailableError: the identities cannot be read.
        """
        given = _header(scope, b"authorization") or b""
        signed = _SIGNED.match(given)
        if given[: len(_BEARER)].lower() == _BEARER:
            keys = _keys_in(given[len(_BEARER) :].strip())
            head, token, service, digest = _as_signed(scope, keys, self._region, "s3"), keys.token, "s3", None
        elif signed:
            # As all services but S3, clients sign a path that is percent-encoded once more.
            head, token = {**scope, "raw_path": quote(scope["raw_path"], safe="/~").encode()}, None
            if (sent := _header(scope, b"x-amz-security-token")) is not None:
                token = sent.decode("latin-1")
            service, digest = signed[1].decode(), None if body is None else hashlib.sha256(body).digest()
        else:
            raise _unknown("The request has no token of OAuth2, and is not signed for s3 or s3tables: ask for a token.")
        directory = self._directory()
        if directory is None:
            raise UnavailableError("The store is open for reading: serve it without --salvage.")
        try:
            # Whether it may be sent follows from what it asks for.
            who = self._core().authenticate_tables(dict(head), service, digest)
        except Refusal as refusal:
            status, code, message = refusal.args
            if status == _BUSY:
                raise TableError(503, "SlowDownException", message) from None
            raise _unknown(f"{code}: {message}") from None
        if who.arn.split(":")[4] != self._account():
            raise TableError(403, "ForbiddenException", "The warehouses of this server are those of another account.")
        covered = who.digest if signed else None
        return Caller(who, token, await directory.identities(), self._region, _context(scope), covered)

    async def token(self, scope: Scope, body: bytes) -> dict[str, Any]:
        """The answer to a request for a token.

        Raises:
            TokenError: it is refused.
            UnavailableError: the identities cannot be read.
        """
        directory = self._directory()
        if directory is None:
            raise UnavailableError("The store is open for reading: serve it without --salvage.")
        keys = _asked(scope, body)
        # Whoever can sign for STS with a secret has it.
        head = _as_signed(scope, keys, self._region, "sts")
        try:
            access_key = authenticate(self._core(), head, "sts", _EMPTY)
            identities = await directory.identities()
            answer = await identities.perform(
                "GetSessionToken", {"DurationSeconds": str(TOKEN_SECONDS)}, access_key=access_key, service="sts"
            )
        except Refusal as refusal:
            status, code, message = refusal.args
            if status == _BUSY:
                raise TableError(503, "SlowDownException", message) from None
            raise TokenError(401, "invalid_client", f"{code}: {message}") from None
        except IamError as error:
            raise TokenError(401, "unauthorized_client", error.message) from None
        given = answer["Credentials"]
        parts = [given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"]]
        token = base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()
        return {
            "access_token": token, "token_type": "bearer", "expires_in": TOKEN_SECONDS,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }  # fmt: skip


class TokenError(Exception):
    """A token is refused, in the words of OAuth2."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def is_known_by_body(scope: Scope) -> bool:
    """Whether the signature of a request covers a body whose SHA-256 its head does not say, as that of botocore."""
    return bool(_SIGNED.match(_header(scope, b"authorization") or b"")) and not _header(scope, b"x-amz-content-sha256")


def _as_signed(scope: Scope, keys: Keys, region: str, service: str) -> dict[str, Any]:
    """The head of a request by the same client, with its headers that policies may ask for, which these keys have signed."""
    headers = [("host", "localhost")]
    signed = sign(keys, region, service, (scope["method"], "/", ""), headers, _EMPTY.hex())
    said = [(name, value) for name, value in scope["headers"] if name in (b"referer", b"user-agent")]
    added = [(name.encode(), value.encode()) for name, value in (*headers, *signed)]
    return {**scope, "raw_path": b"/", "query_string": b"", "headers": [*said, *added]}


def _asked(scope: Scope, body: bytes) -> Keys:
    try:
        form = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=32))
    except ValueError:
        raise TokenError(400, "invalid_request", "The request is no form.") from None
    if form.get("grant_type") != "client_credentials":
        raise TokenError(
            400, "unsupported_grant_type", "Tokens are for client credentials, an access key and its secret."
        )
    client, secret = form.get("client_id", ""), form.get("client_secret", "")
    given = _header(scope, b"authorization") or b""
    if not client and given[:6].lower() == b"basic ":
        try:
            client, _, secret = base64.b64decode(given[6:], validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise TokenError(401, "invalid_client", "The credentials cannot be read.") from None
    if not client.isascii() or not client.isprintable() or not client or not secret or "/" in client:
        raise TokenError(401, "invalid_client", "client_id is an access key, and client_secret its secret.")
    return Keys(client, secret)


def _keys_in(token: bytes) -> Keys:
    try:
        if len(token) > _TOKEN_MAX:
            raise ValueError
        access_key, secret, session = json.loads(base64.urlsafe_b64decode(token + b"=" * (-len(token) % 4)))
        if not all(
            isinstance(each, str) and each.isascii() and each.isprintable() for each in (access_key, secret, session)
        ):
            raise ValueError
    except (binascii.Error, RecursionError, TypeError, ValueError):
        raise _unknown("The token is not valid.") from None
    return Keys(access_key, secret, session)


def _context(scope: Scope) -> dict[str, list[str]]:
    """The keys of conditions that a request itself fills."""
    client = scope.get("client")
    found = {"aws:SourceIp": [str(client[0])]} if client and client[0] else {}
    agent = _header(scope, b"user-agent")
    if agent is not None:
        found["aws:UserAgent"] = [agent.decode("latin-1")]
    return {**found, "aws:SecureTransport": ["true" if scope.get("scheme") == "https" else "false"]}


def _header(scope: Scope, wanted: bytes) -> bytes | None:
    found: Iterable[bytes] = (value for name, value in scope["headers"] if name == wanted)
    return next(iter(found), None)


def _unknown(message: str) -> TableError:
    return TableError(401, "NotAuthorizedException", message)
