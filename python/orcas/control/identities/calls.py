"""A call of an action: the caller, and parameters, which are checked as they are read.

Parameters are those of AWS, as text or as the types of JSON. An answer is AWS's, as a dictionary. Must not know SQL.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from orcas.control.identities.failures import IamError
from orcas.control.identities.names import (
    DOCUMENT_MAX,
    NAME,
    NAME_MAX,
    PATH,
    PATH_MAX,
    PATH_OF_POLICY,
    TAG_KEY_MAX,
    TAG_VALUE_MAX,
    TAGS_MAX,
)
from orcas.control.identities.records import Account, Entity, Key, Records
from orcas.control.identities.sessions.tokens import Claims, SessionKeys

Answer = dict[str, Any]
_T = TypeVar("_T")

_TEXT: Final = re.compile(r"[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
# Parameters of AWS's actions that are refused, and said to be.
_UNSUPPORTED: Final = frozenset({"ProvidedContexts", "SerialNumber", "SourceIdentity", "TokenCode"})
_WORD: Final = re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII)
_TAG: Final = re.compile(r"[\w\s.:/=+@-]*")
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_ARN: Final = re.compile(r"arn:aws:iam::(?:aws|[0-9]{12}):[\w+=,.@/-]+", re.ASCII)
_LIST_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class WebIdentity:
    """An identity of a provider: the claims of its token, which was verified."""

    # The number of the account that has the provider; its URL, and its ARN.
    account: str
    issuer: str
    arn: str
    audience: str
    # Claims that policies may ask for: `sub`, `aud` and others.
    keys: dict[str, list[str]]
    tags: list[tuple[str, str]]
    transitive: list[str]


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate that a client has shown, signed by a CA that the operator trusts: the user that it names, and when
    it ends."""

    user: str
    ends_ms: int


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the root of an account if there is no `user`, which may be a role. `key`: the access key that signed.

    `session`: what has signed are temporary credentials. Nobody has signed if there is `web`, which is who calls, or
    `certificate`, which names the user.
    """

    account: Account
    user: Entity | None = None
    key: Key | None = None
    session: Claims | None = None
    web: WebIdentity | None = None
    certificate: ClientCertificate | None = None
    # Keys of conditions that the request itself fills.
    context: Mapping[str, list[str]] = field(default_factory=dict)
    # The ARN and the access key of who has told the operator to.
    actor: tuple[str, str] | None = None
    # What the server says of a session that it wants for itself, as of `Claims`. No request has it.
    alias: tuple[str, str] | None = None

    @property
    def arn(self) -> str:
        """The principal."""
        if self.session is not None and self.session.arn is not None:
            return self.session.arn
        return self.account.arn if self.user is None else self.user.arn

    @property
    def user_id(self) -> str:
        """`aws:userid`"""
        if self.session is not None:
            return self.session.user_id
        return self.account.number if self.user is None else self.user.id


class Parameters:
    """The parameters of one call. Each must be read: one that no code reads is refused."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._left = dict(given)

    def take(self, name: str) -> Any:
        """The value, which counts as read; None if there is none."""
        return self._left.pop(name, None)

    def peek(self, name: str) -> str | None:
        """A text that is still to be read."""
        value = self._left.get(name)
        return value if isinstance(value, str) else None

    def peek_list(self, name: str) -> list[Any]:
        """A list that is still to be read."""
        value = self._left.get(name)
        return value if isinstance(value, list) else []

    def end(self) -> None:
        """Raise IamError if a parameter was not read."""
        for name in self._left:
            why = "is not supported" if name in _UNSUPPORTED else "is not a parameter of this action"
            raise _invalid(name if _WORD.fullmatch(name) else "?", why)

    def text(self, name: str, most: int = DOCUMENT_MAX, *, least: int = 1) -> str:
        """A text that must be given."""
        value = self.optional(name, most, least=least)
        if value is None:
            raise _invalid(name, "must not be null")
        return value

    def optional(self, name: str, most: int = DOCUMENT_MAX, *, least: int = 1) -> str | None:
        """A text, or None."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise _invalid(name, "must be text")
        if not least <= len(value) <= most:
            raise _invalid(name, f"must have length from {least} to {most}")
        if not is_text(value):
            raise _invalid(name, "must have only characters that XML can have")
        return value

    def name(self, parameter: str, kind: str) -> str:
        """The name of a user, group, role or policy."""
        return self.maybe_name(parameter, kind) or self.text(parameter)

    def maybe_name(self, parameter: str, kind: str) -> str | None:
        """The name in a parameter, or None."""
        value = self.optional(parameter, NAME_MAX[kind])
        if value is not None and not NAME.fullmatch(value):
            raise _invalid(parameter, "must contain only alphanumeric characters and/or the following: +=,.@_-")
        return value

    def path(self, parameter: str = "Path") -> str | None:
        """A path, or None."""
        value = self.optional(parameter, PATH_MAX)
        if value is not None and not PATH.fullmatch(value):
            raise _invalid(parameter, "must begin and end with / and contain only printable ASCII characters")
        return value

    def path_of_policy(self) -> str | None:
        """The path of a managed policy, which takes fewer characters."""
        value = self.optional("Path", PATH_MAX)
        if value is not None and not PATH_OF_POLICY.fullmatch(value):
            raise _invalid("Path", "must have names between /, of alphanumeric characters and any of .,+@=_-")
        return value

    def prefix(self) -> str:
        """`PathPrefix`."""
        value = self.optional("PathPrefix", PATH_MAX) or "/"
        if not value.startswith("/"):
            raise _invalid("PathPrefix", "must begin with /")
        return value

    def arn(self, parameter: str = "PolicyArn") -> str:
        """An ARN of IAM."""
        value = self.text(parameter, 2048)
        if not _ARN.fullmatch(value):
            raise IamError("InvalidInput", f"ARN {value} is not valid.")
        return value

    def number(self, name: str, low: int, high: int, default: int) -> int:
        """A whole number."""
        value = self.take(name)
        if value is None:
            return default
        if isinstance(value, bool) or not _NUMBER.fullmatch(str(value)) or not low <= int(value) <= high:
            raise _invalid(name, f"must be a number from {low} to {high}")
        return int(value)

    def flag(self, name: str) -> bool:
        """A truth value, false if it is not given."""
        value = self.take(name)
        if value in (None, False, "false"):
            return False
        if value in (True, "true"):
            return True
        raise _invalid(name, "must be true or false")

    def choice(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """The value of a parameter that is one of several words."""
        value = self.take(name) or default
        if value not in choices:
            raise _invalid(name, f"must satisfy enum value set: [{', '.join(choices)}]")
        return str(value)

    def texts(self, name: str, most: int = DOCUMENT_MAX) -> list[str]:
        """A list of texts, empty if it is not given."""
        value = self.take(name)
        found = [] if value in (None, "") else value
        if not isinstance(found, list) or len(found) > _LIST_MAX:
            raise _invalid(name, f"must be a list of at most {_LIST_MAX}")
        if not all(is_text(each) and len(each) <= most for each in found):
            raise _invalid(name, f"must have members with length at most {most}")
        return found

    def entries(self, name: str) -> list[Mapping[str, Any]]:
        """A list of structures, empty if it is not given."""
        value = self.take(name)
        found = [] if value in (None, "") else value
        if not isinstance(found, list) or len(found) > _LIST_MAX or not all(isinstance(each, dict) for each in found):
            raise _invalid(name, "must be a list of structures")
        return found

    def tags(self) -> list[tuple[str, str]]:
        """`Tags`: keys and values."""
        tags = [(entry.get("Key"), entry.get("Value", "")) for entry in self.entries("Tags")]
        found = [(key, value) for key, value in tags if isinstance(key, str) and isinstance(value, str)]
        if len(found) != len(tags) or not all(
            0 < len(key) <= TAG_KEY_MAX
            and len(value) <= TAG_VALUE_MAX
            and _TAG.fullmatch(key)
            and _TAG.fullmatch(value)
            for key, value in found
        ):
            raise _invalid(
                "Tags", f"must have keys of 1 to {TAG_KEY_MAX} and values of at most {TAG_VALUE_MAX} characters"
            )
        if any(key.lower().startswith("aws:") for key, _ in found):
            raise IamError("InvalidInput", "Tag keys that begin with aws: are reserved.")
        if len({key.lower() for key, _ in found}) != len(found):
            raise IamError("InvalidInput", "Duplicate tag keys found. Please note that Tag keys are case insensitive.")
        if len(found) > TAGS_MAX:
            raise IamError("LimitExceeded", f"The number of tags has reached the maximum limit: {TAGS_MAX}")
        return found

    def page(self) -> Page:
        """`Marker` and `MaxItems`."""
        marker = self.optional("Marker", 1024)
        most = self.number("MaxItems", 1, 1000, 100)
        if marker is None:
            return Page("", most)
        try:
            return Page(base64.b64decode(marker, altchars=b"-_", validate=True).decode(), most)
        except (binascii.Error, ValueError):
            raise _invalid("Marker", "is not one of a former answer") from None


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for: `most` entries with names after `after`."""

    after: str
    most: int

    def of(self, title: str, found: list[_T], name: Callable[[_T], str], show: Callable[[_T], Any]) -> Answer:
        """The part of a list that is in the order of its names."""
        left = [each for each in found if name(each).lower() > self.after]
        return self.cut(title, left, name, show)

    def cut(self, title: str, left: list[_T], name: Callable[[_T], str], show: Callable[[_T], Any]) -> Answer:
        """The page of a list that begins where the page does."""
        answer: Answer = {title: [show(each) for each in left[: self.most]], "IsTruncated": len(left) > self.most}
        if answer["IsTruncated"]:
            last = name(left[self.most - 1]).lower()
            answer["Marker"] = base64.urlsafe_b64encode(last.encode()).decode()
        return answer


class AccessDecisions(Protocol):
    """The part of the engine that knows policies."""

    def check(self, document: str, kind: str) -> list[str]:
        """Warnings about a policy of this kind: identity, session, boundary, trust or resource.

        Raises:
            ValueError: it is none; with AWS's message.
        """

    def evaluate(self, question: dict[str, Any]) -> Any:
        """The answer of `_core.simulate`; from any thread."""

    def used(self, access_keys: list[str]) -> list[int | None]:
        """When each of these keys was used last since the start, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an action, while it runs."""

    caller: Caller
    # Whose identities it is about.
    account: Account
    parameters: Parameters
    records: Records
    decisions: AccessDecisions
    # Nonce and ciphertext of the secret of an access key of an owner.
    encrypt: Callable[[str, str, str], tuple[bytes, bytes]]
    # The canonical id of the account whose root may do everything.
    root: str
    # Whether it comes from the operator of the server, not in a request of IAM.
    operator: bool
    # The access key of the root of the store.
    root_key: str
    sessions: SessionKeys

    async def document(self, parameter: str, kind: str, most: int) -> str:
        """A policy, which is valid."""
        return await self.valid(self.parameters.text(parameter), kind, most)

    async def evaluate(self, question: dict[str, Any]) -> dict[str, Any]:
        """An access decision, as of `AccessDecisions`. It is made in a thread, so that others are served meanwhile.

        Raises:
            IamError: the question cannot be read, or takes too much to compare.
        """
        (decision,) = await self.evaluate_all({**question, "action": [question["action"]]})
        return decision

    async def evaluate_all(self, question: dict[str, Any]) -> list[dict[str, Any]]:
        """Answers for each pair of lists of actions and resources."""
        try:
            found: list[dict[str, Any]] = await asyncio.to_thread(self.decisions.evaluate, question)
        except ValueError as error:
            raise IamError("InvalidInput", str(error)) from None
        return found

    async def valid(self, text: str, kind: str, most: int) -> str:
        """The policy itself, which is valid."""
        return await asyncio.to_thread(self._valid, text, kind, most)

    def _valid(self, text: str, kind: str, most: int) -> str:
        if size_of(text) > most:
            raise IamError("LimitExceeded", f"Cannot exceed quota for PolicySize: {most}")
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise IamError("MalformedPolicyDocument", "This policy contains invalid Json")
        try:
            self.decisions.check(text, kind)
        except ValueError as error:
            raise IamError("MalformedPolicyDocument", str(error)) from None
        return text


Action = Callable[[Call], Awaitable[Answer]]


def is_text(value: object) -> bool:
    """Whether it is text that XML can have."""
    return isinstance(value, str) and _TEXT.fullmatch(value) is not None


def size_of(document: str) -> int:
    """The size of a policy as AWS counts it: without white space."""
    return len(re.sub(r"\s", "", document))


def _invalid(parameter: str, why: str) -> IamError:
    name = parameter[:1].lower() + parameter[1:]
    return IamError(
        "ValidationError", f"1 validation error detected: Value at '{name}' failed to satisfy constraint: {why}"
    )
