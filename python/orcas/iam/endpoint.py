"""Requests of AWS's query protocol for IAM and STS to `/`, signed for the service `iam` or `sts`.

Parameters are in the query, in a form that is posted, or in both: nothing of S3 at `/` has an `Action`. The body is received
first, because a signature for this service covers it and no header says its hash. So its size is bounded, and its sender is
unknown until it is complete. Must not know what an action does.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_plus

from orcas.control.identities.failures import IamError
from orcas.engine import Refusal, authenticate
from orcas.errors import UnavailableError
from orcas.http.bodies import BodyError, collect
from orcas.iam import others
from orcas.iam.documents import answer_document, error_document
from orcas.iam.forms import parse_form
from orcas.iam.web.keys import KeySets
from orcas.telemetry.reports import note_cause

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from orcas.control.identities.service import Identities
    from orcas.engine import Core
    from orcas.iam.directory import Directory

VERSIONS: Final = {"iam": "2010-05-08", "sts": "2011-06-15"}
# What nobody signs: a token of a provider says who calls, or a certificate that the client has shown.
_WEB: Final = "AssumeRoleWithWebIdentity"
_CERTIFIED: Final = "AssumeRoleWithCertificate"
# Of the form: the longest policy is 128 KiB of text, most of whose characters may be encoded.
BODY_MAX: Final = 256 * 1024
# Of one that nobody signs: a token has at most 20,000 characters, the policy of a session 2,048.
_UNSIGNED_MAX: Final = 64 * 1024
_FORM: Final = b"application/x-www-form-urlencoded"

# The codes of S3 for what is wrong with a signature, and those of IAM.
_UNKNOWN: Final = ("InvalidClientTokenId", "The security token included in the request is invalid.")
_MISMATCH: Final = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and "
    "signing method. Consult the service documentation for details."
)
_CODES: Final = {
    "InvalidAccessKeyId": _UNKNOWN,
    "InvalidToken": _UNKNOWN,
    "ExpiredToken": ("ExpiredToken", "The security token included in the request is expired"),
    "SignatureDoesNotMatch": ("SignatureDoesNotMatch", _MISMATCH),
    "RequestTimeTooSkewed": ("SignatureDoesNotMatch", None),
    "AccessDenied": ("MissingAuthenticationToken", "Request is missing Authentication Token"),
}


def is_query(scope: Scope) -> bool:
    """Whether a request to `/`, not that of a bucket, is one of the query protocol."""
    method, query = scope["method"], scope["query_string"]
    if query:
        return method in ("GET", "POST") and any(part.startswith(b"Action=") for part in query.split(b"&"))
    return method == "POST" and any(
        name == b"content-type" and value.partition(b";")[0].strip().lower() == _FORM
        for name, value in scope["headers"]
    )


class _Refused(Exception):  # noqa: N818 - an answer
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.message = message


class QueryEndpoint:
    """The application of these requests."""

    def __init__(self, core: Core, directory: Directory) -> None:
        self._core = core
        self._directory = directory
        self._keys = KeySets()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request_id, call = str(uuid.uuid4()), _Call(scope)
        service = call.service
        other = others.other_service(scope)
        if other is not None:
            note_cause(scope, others.CODE, others.sentence(other))
            headers, document = others.document(scope, other)
            await send({"type": "http.response.start", "status": others.STATUS, "headers": headers})
            await send({"type": "http.response.body", "body": document})
            return
        try:
            body = await call.body(receive)
            action, answer = await self._perform(call, body)
            status, document = 200, answer_document(service, action, answer, request_id)
        except (_Refused, IamError) as error:
            status = error.status
            private = getattr(error, "private", None)
            document = _refusal(scope, service, status, (error.code, error.message), request_id, private)
        except BodyError:
            # The client has left, or was ended.
            return
        except UnavailableError as error:
            status = 500
            document = _refusal(scope, service, status, ("ServiceFailure", str(error)), request_id)
        headers = [
            (b"content-type", b"text/xml"), (b"content-length", b"%d" % len(document)),
            (b"x-amzn-requestid", request_id.encode()),
        ]  # fmt: skip
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": document})

    async def _perform(self, call: _Call, body: bytes) -> tuple[str, dict[str, Any]]:
        if not call.is_signed:
            return await self._unsigned(call, body)
        try:
            access_key = authenticate(self._core, call.scope, call.service, hashlib.sha256(body).digest())
        except Refusal as refusal:
            _, code, message = refusal.args
            if code == "SlowDown":
                raise _throttled() from None
            known, said = _CODES.get(code, ("IncompleteSignature", None))
            raise _Refused(403, known, said or message) from None
        action, version, parameters = call.parameters(body)
        if not isinstance(action, str):
            raise _Refused(400, "MissingAction", "The request has no Action.")
        if version != VERSIONS[call.service]:
            raise _Refused(400, "InvalidAction", f"Could not find operation {action} for version {version}")
        identities = await self._directory.identities()
        return action, await identities.perform(
            action, parameters, access_key=access_key, context=_context(call.scope), token=call.token,
            service=call.service,
        )  # fmt: skip

    async def _unsigned(self, call: _Call, body: bytes) -> tuple[str, dict[str, Any]]:
        action, version, parameters = call.parameters(body)
        if action not in (_WEB, _CERTIFIED) or version != VERSIONS["sts"]:
            known, message = _CODES["AccessDenied"]
            raise _Refused(403, known, str(message))
        client = (call.scope.get("client") or ("",))[0]
        try:
            self._core.check_not_locked_out(client)
        except Refusal:
            raise _throttled() from None
        identities = await self._directory.identities()
        if action == _WEB:
            return action, await self._web(call, parameters, identities, client)
        # Imported here, because few servers have such clients.
        from orcas.iam.certificates import shown

        certificate = shown(call.scope)
        return action, await identities.perform(
            action, parameters, context=_context(call.scope), certificate=certificate, service="sts"
        )

    async def _web(
        self, call: _Call, parameters: dict[str, Any], identities: Identities, client: str
    ) -> dict[str, Any]:
        """Credentials for whom a token of a provider is about."""
        # Imported here, because few servers have providers.
        from orcas.iam.web.tokens import verified

        try:
            web = await verified(parameters.get("WebIdentityToken"), parameters.get("RoleArn"), identities, self._keys)
        except IamError as error:
            if error.code == "InvalidIdentityToken":
                self._core.count_forgery(client)
            raise
        return await identities.perform(_WEB, parameters, context=_context(call.scope), web=web, service="sts")


class _Call:
    """The claims of a request about itself before it is verified."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._query, signing = _split(scope["query_string"])
        credential = _header(scope, b"authorization") or signing.get("x-amz-credential")
        # What is verified: of a request that nobody signs, the token or the certificate.
        self.is_signed = credential is not None or "x-amz-signature" in signing
        self.service = "iam" if credential is not None and "/sts/aws4_request" not in credential else "sts"
        # An empty header says that there is none, as to who verifies the signature.
        sent = _header(scope, b"x-amz-security-token")
        self.token = (signing.get("x-amz-security-token") if sent is None else sent) or None

    async def body(self, receive: Receive) -> bytes:
        """The whole body.

        Raises:
            BodyError: the client has left.
        """
        limit = BODY_MAX if self.is_signed else _UNSIGNED_MAX
        try:
            return await collect(receive, limit)
        except BodyError as error:
            if error.is_cut_off:
                raise
            raise _Refused(413, "RequestEntityTooLarge", f"The body has more than {limit} bytes.") from None

    def parameters(self, body: bytes) -> tuple[Any, Any, dict[str, Any]]:
        """Action, version and the other parameters of query and form."""
        try:
            parameters = parse_form(b"&".join(part for part in (self._query, body) if part))
        except ValueError as error:
            raise _Refused(400, "MalformedQueryString", f"The parameters cannot be read: {error}.") from None
        return parameters.pop("Action", None), parameters.pop("Version", None), parameters


def _split(query: bytes) -> tuple[bytes, dict[str, str]]:
    """The parameters of a query as they stand there, and those that sign it, decoded, with names in lower case."""
    parts: list[bytes] = []
    signing: dict[str, str] = {}
    for part in query.split(b"&"):
        name, _, value = part.decode("latin-1").partition("=")
        name = unquote_plus(name).lower()
        if name.startswith("x-amz-"):
            signing.setdefault(name, unquote_plus(value))
        else:
            parts.append(part)
    return b"&".join(parts), signing


def _throttled() -> _Refused:
    return _Refused(400, "Throttling", "Rate exceeded")


def _header(scope: Scope, wanted: bytes) -> str | None:
    return next((value.decode("latin-1").strip() for name, value in scope["headers"] if name == wanted), None)


def _refusal(
    scope: Scope, service: str, status: int, why: tuple[str, str], request_id: str, private: str | None = None
) -> bytes:
    """`private`: what only the log says."""
    code, message = why
    note_cause(scope, code, message if private is None else f"{message} ({private})")
    return error_document(service, code, message, request_id, at_fault=status >= 500)


def _context(scope: Scope) -> dict[str, list[str]]:
    """The keys of conditions that depend on the request and its connection."""
    client = scope.get("client")
    context = {"aws:SecureTransport": ["true" if scope.get("scheme") == "https" else "false"]}
    if client:
        context["aws:SourceIp"] = [str(client[0])]
    for name, value in scope["headers"]:
        key = {b"user-agent": "aws:UserAgent", b"referer": "aws:Referer"}.get(name)
        if key is not None:
            context[key] = [value.decode("latin-1")]
    return context
