"""The way to the identities: one action at a time, in a transaction, and in effect before it is answered.

A change that is committed always reaches the engine, also if its caller is gone. A reader never sees half of a change.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from orcas.control.files.audit import NOT_IN_EFFECT
from orcas.control.files.audit import Entry as AuditEntry
from orcas.control.identities.actions import (
    entities,
    keys,
    limits,
    none,
    policies,
    providers,
    reports,
    sessions,
    simulation,
)
from orcas.control.identities.authorization import authorize, caller_facts, times
from orcas.control.identities.calls import (
    AccessDecisions,
    Answer,
    Call,
    Caller,
    ClientCertificate,
    Parameters,
    WebIdentity,
)
from orcas.control.identities.failures import IamError, missing
from orcas.control.identities.named import Named, named
from orcas.control.identities.names import PROVIDER, account_number, root_arn
from orcas.control.identities.records import Account, Entity, Records
from orcas.control.identities.registry import ACTIONS, Entry
from orcas.control.identities.rows import Pair, delta, snapshot
from orcas.control.identities.sessions.tokens import Opener, SessionKeys
from orcas.control.identities.snapshot import Delta, IdentitySnapshot
from orcas.errors import UnavailableError

if TYPE_CHECKING:
    import aiosqlite

_T = TypeVar("_T")

log = logging.getLogger("orcas")

# They fill the table of actions.
assert all((entities, keys, limits, none, policies, providers, reports, sessions, simulation))


class Secrets(Protocol):
    """Encrypts the secrets of access keys."""

    def encrypt(self, access_key: str, identity: str, secret: str, /) -> tuple[bytes, bytes]:
        """Nonce and ciphertext."""

    def decrypt(self, access_key: str, identity: str, nonce: bytes, encrypted: bytes, /) -> str:
        """The secret."""


class Engine(AccessDecisions, Opener, Protocol):
    """The engine, which authorizes requests."""

    def change(self, delta: Delta) -> None:
        """Let requests that arrive from now on see a change.

        Raises:
            ValueError: it does not fit to what the engine knows. Nothing has changed.
        """

    def replace(self, snapshot: IdentitySnapshot) -> None:
        """Let requests that arrive from now on see these identities, and nothing of earlier ones."""


class Trail(Protocol):
    """The audit log. What changes identities is written there first."""

    def change(self) -> AbstractAsyncContextManager[None]:
        """A transaction."""

    async def write(self, entries: Sequence[AuditEntry], /) -> int:
        """Write lines, within `change`. The number of the last one.

        Raises:
            UnavailableError: they cannot be written.
        """

    def owe(self, number: int, /) -> None:
        """The change of this line is not in effect, which could not be written."""


class Identities:
    """The identities of an open control store; used from one event loop."""

    def __init__(
        self,
        connection: aiosqlite.Connection,
        secrets: Secrets,
        root: Pair,
        trail: Trail,
        engine: Engine,
        changed: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._secrets = secrets
        self._root = root
        self._trail = trail
        self._engine = engine
        # Told after each change of the database.
        self._changed = changed
        self.lock = asyncio.Lock()
        self._sessions = SessionKeys(connection, secrets, engine, changed)
        self._running: set[asyncio.Task[Any]] = set()

    async def snapshot(self) -> IdentitySnapshot:
        """All identities, with decrypted secrets.

        Raises:
            UnavailableError: a secret cannot be decrypted with the key of this directory.
        """
        return await all_identities(self._connection, self._secrets, self._root)

    async def open_sessions(self) -> None:
        """Let the engine open the tokens of sessions that were issued before."""
        async with self.lock:
            await self._sessions.load()

    async def perform(
        self,
        name: str,
        given: Mapping[str, Any],
        *,
        access_key: str | None = None,
        account: str | None = None,
        context: Mapping[str, list[str]] | None = None,
        token: str | None = None,
        web: WebIdentity | None = None,
        certificate: ClientCertificate | None = None,
        service: str | None = None,
        actor: tuple[str, str] | None = None,
        alias: tuple[str, str] | None = None,
    ) -> Answer:
        """The answer of an action of IAM or STS.

        `access_key`: what has signed. Without it, the operator of the server calls, as the root of `account`, a number or
        canonical id; without that, of the first account. `context`: keys of conditions that the request fills. `token`: that
        of the session whose credentials have signed. `web` or `certificate`: who calls, where nobody has signed.
        `service`: the one that the request is for; either, if the operator calls. `actor`: the ARN and the access key of who
        has told the operator to, for the audit log. `alias`: of a session of `GetFederationToken`, as of its claims.

        Raises:
            IamError: it is refused, and nothing was changed.
        """

        async def run() -> Answer:
            async with self._turn():
                entry = ACTIONS.get(name)
                other = service is not None and (entry is None or entry.service != service)
                if (
                    other
                    or (web is not None and name != "AssumeRoleWithWebIdentity")
                    or (certificate is not None and name != "AssumeRoleWithCertificate")
                ):
                    raise _unknown(name)
                records = Records(self._connection)
                if web is not None:
                    caller = Caller(await _account(records, web.account), web=web, context=context or {})
                elif certificate is not None:
                    caller = await self._certified(records, certificate, context or {})
                elif token is not None:
                    caller = await self._in_session(records, (access_key, token), context or {}, service)
                else:
                    caller = await self._caller(records, access_key, account, context or {})
                caller = dataclasses.replace(caller, actor=actor, alias=alias)
                operator = access_key is None and web is None and certificate is None
                return await self._perform(records, caller, name, given, operator=operator)

        return await self.finished(run())

    async def decide(
        self,
        access_key: str,
        token: str | None,
        context: Mapping[str, list[str]],
        asked: Sequence[tuple[str, str, Mapping[str, str]]],
    ) -> list[bool]:
        """Whether who has signed may do each of these, of another service than S3, to what is in its own account.

        `asked`: an action, a resource, and its keys of conditions. `access_key`, `token` and `context`: as of `perform`.

        Raises:
            IamError: it is nobody any more, or takes too much to compare.
        """
        async with self._turn():
            records = Records(self._connection)
            if token is None:
                caller = await self._caller(records, access_key, None, context)
            else:
                caller = await self._in_session(records, (access_key, token), context, "sts")
            call = self._call(records, caller, {}, operator=False)
            facts = await caller_facts(call)
        known = {"resource_policy": None, **facts, "resource_account": caller.account.number}
        found = []
        for action, resource, given in asked:
            told = {**context, **times(), **{name: [value] for name, value in given.items()}}
            decision = await call.evaluate({**known, "action": action, "resource": resource, "context": told})
            found.append(decision["decision"] == "allowed")
        return found

    async def provider(self, account: str, issuer: str) -> Entity | None:
        """The provider with this URL that the account with this number has registered."""
        async with self._turn():
            records = Records(self._connection)
            known = await records.account(account)
            name = issuer.removeprefix("https://")
            found = None if known is None else await records.find(known.id, PROVIDER, name)
            if found is not None:
                await records.check(found.id)
            return found if found is not None and found.details["url"] == issuer else None

    async def named(self, kind: str, names: Iterable[str]) -> dict[str, Named]:
        """Users, groups or policies of the first account with these names."""
        async with self._turn():
            return await named(Records(self._connection), self._secrets.decrypt, self._root.owner, kind, names)

    async def label(self, policy: str) -> str:
        """The name of the policy with this id for people: an inline one by the entity that has it, others as they are."""
        owner, _, name = policy.partition("/")
        async with self._turn():
            entity = await Records(self._connection).by_id(owner)
        return policy if entity is None else f"{entity.kind} {entity.name}: {name}"

    def now_ms(self) -> int:
        """The time by which sessions expire."""
        return self._sessions.now_ms()

    async def perform_all(self, steps: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Actions of the operator, of which all are done or none.

        Raises:
            IamError: one is refused.
        """

        async def run() -> None:
            async with self._turn():
                records = Records(self._connection)
                caller = Caller(await _account(records, self._root.owner))
                calls = [
                    (name, given, *self._called(records, caller, name, given, operator=True)) for name, given in steps
                ]
                await self._change(records, calls)

        await self.finished(run())

    async def note(
        self, action: str, parameters: dict[str, Any], actor: str, access_key: str | None, address: str | None
    ) -> Callable[[], Awaitable[None]]:
        """Write into the audit log what is about to be done elsewhere. Returns what writes that it was not.

        Raises:
            IamError: it cannot be written.
        """

        async def write(action: str, given: dict[str, Any]) -> int:
            async with self._turn():
                records = Records(self._connection)
                first = await _account(records, self._root.owner)
                async with self._trail.change():
                    line = AuditEntry(actor, action, given, first.number, access_key, address)
                    number = await self._trail.write([line])
                self._changed()
                return number

        number = await self.finished(write(action, parameters))

        async def failed() -> None:
            try:
                await self.finished(write(NOT_IN_EFFECT, {"From": number, "To": number}))
            except IamError:
                # The next line that can be written says so before.
                self._trail.owe(number)

        return failed

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self.lock:
            try:
                yield
            except sqlite3.Error as error:
                log.error("Identities cannot be read or changed: %s", error)
                raise IamError("ServiceFailure", f"control.db cannot be used: {error}.") from None
            except UnavailableError as error:
                log.error("Identities cannot be read or changed: %s", error)
                raise IamError("ServiceFailure", str(error)) from None

    async def finished(self, work: Awaitable[_T]) -> _T:
        """Do all of the work, whether or not the caller waits for it."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Wait for what is under way, and write down when keys were used."""
        await asyncio.gather(*self._running, return_exceptions=True)
        with contextlib.suppress(IamError):
            async with self._turn():
                await self._note_uses()

    async def _note_uses(self) -> None:
        found = await self._connection.execute_fetchall("SELECT access_key FROM access_keys WHERE user IS NOT NULL")
        keys = [access_key for (access_key,) in found]
        used = [(at_ms, key) for key, at_ms in zip(keys, self._engine.used(keys), strict=True) if at_ms is not None]
        if used:
            async with transaction(self._connection):
                await self._connection.executemany("UPDATE access_keys SET used_ms = ? WHERE access_key = ?", used)
            self._changed()

    async def _perform(
        self, records: Records, caller: Caller, name: str, given: Mapping[str, Any], *, operator: bool
    ) -> Answer:
        entry, call = self._called(records, caller, name, given, operator=operator)
        await authorize(call, name, entry)
        if entry.changes:
            return (await self._change(records, [(name, given, entry, call)]))[0]
        return await _answer(entry, call)

    def _called(
        self, records: Records, caller: Caller, name: str, given: Mapping[str, Any], *, operator: bool
    ) -> tuple[Entry, Call]:
        entry, root = ACTIONS.get(name), self._root.owner
        if entry is None or (entry.root and not operator and (caller.user is not None or caller.account.id != root)):
            raise _unknown(name)
        return entry, self._call(records, caller, given, operator=operator)

    def _call(self, records: Records, caller: Caller, given: Mapping[str, Any], *, operator: bool) -> Call:
        return Call(
            caller,
            caller.account,
            Parameters(given),
            records,
            self._engine,
            self._secrets.encrypt,
            self._root.owner,
            operator,
            self._root.access_key,
            self._sessions,
        )

    async def _change(self, records: Records, calls: list[tuple[str, Mapping[str, Any], Entry, Call]]) -> list[Answer]:
        """All of these in one transaction, which is in effect afterwards."""
        async with self._trail.change():
            answers, lines = [], []
            for name, given, entry, call in calls:
                answers.append(await _answer(entry, call))
                lines.append(self._line(name, given, call.caller, answers[-1], operator=call.operator))
            await self._trail.write(lines)
        told = await delta(records, self._secrets.decrypt, records.changes)
        try:
            # In a thread: with many identities it takes milliseconds, in which nobody would be served.
            await asyncio.to_thread(self._engine.change, told)
        except ValueError as error:
            # A deleted key must not stay valid.
            log.error("The engine is told all identities again, because it did not take a change: %s", error)
            await asyncio.to_thread(self._engine.replace, await self.snapshot())
        self._changed()
        return answers

    def _line(
        self, name: str, given: Mapping[str, Any], caller: Caller, answer: Answer, *, operator: bool
    ) -> AuditEntry:
        """The line of the audit log about a change. `operator`: the root of the first account calls, for any account."""
        actor = root_arn(account_number(self._root.owner)) if operator else caller.arn
        # What was made gets its name only now.
        made = {"AccessKeyId": answer["AccessKey"]["AccessKeyId"]} if "AccessKey" in answer else {}
        signed = None if caller.key is None else caller.key.access_key
        actor, signed = caller.actor or (actor, signed)
        address = next(iter(caller.context.get("aws:SourceIp", ())), None)
        return AuditEntry(actor, name, {**given, **made}, caller.account.number, signed, address)

    async def _caller(
        self, records: Records, access_key: str | None, account: str | None, context: Mapping[str, list[str]]
    ) -> Caller:
        if access_key is None or access_key == self._root.access_key:
            return Caller(await _account(records, self._root.owner if account is None else account), context=context)
        key = await records.key(access_key)
        if key is None:
            # It was deleted a moment ago.
            raise IamError("AccessDenied", "The security token included in the request is invalid.")
        await records.check(key.user or key.account)
        user = None if key.user is None else await records.by_id(key.user)
        return Caller(await _account(records, key.account), user, key, context=context)

    async def _certified(
        self, records: Records, certificate: ClientCertificate, context: Mapping[str, list[str]]
    ) -> Caller:
        """The user of the first account whom a certificate names."""
        account = await _account(records, self._root.owner)
        user = await records.find(account.id, "user", certificate.user)
        if user is None:
            said = "The certificate of the client names no user."
            raise IamError("AccessDenied", said, f"it names {certificate.user!r}")
        await records.check(user.id)
        return Caller(account, user, certificate=certificate, context=context)

    async def _in_session(
        self, records: Records, signed: tuple[str | None, str], context: Mapping[str, list[str]], service: str | None
    ) -> Caller:
        """The caller that signs with temporary credentials, `signed`: access key and token, which the engine has found
        valid."""
        claims = await self._sessions.open(signed[1])
        # Whatever the engine has taken for the token.
        if claims is not None and claims.access_key != signed[0]:
            claims = None
        # As on AWS, a session of a user or root manages no identities: it is without MFA. Those of roles have names.
        if claims is not None and (claims.name is not None or service == "sts"):
            root = await records.account(claims.id)
            user = None if root is not None else await records.by_id(claims.id)
            account = root if user is None else await records.account(user.account)
            if account is not None:
                await records.check(claims.id)
                return Caller(account, user, session=claims, context=context)
        raise IamError("InvalidClientTokenId", "The security token included in the request is invalid.")


def _unknown(name: str) -> IamError:
    return IamError("InvalidAction", f"Could not find operation {name} for this version")


async def _answer(entry: Entry, call: Call) -> Answer:
    answer = await entry.run(call)
    call.parameters.end()
    return answer


async def all_identities(connection: aiosqlite.Connection, secrets: Secrets, root: Pair) -> IdentitySnapshot:
    """As of `Identities.snapshot`."""
    return await snapshot(Records(connection), secrets.decrypt, root)


async def _account(records: Records, wanted: str) -> Account:
    account = await records.account(wanted)
    if account is None:
        raise missing("account", wanted)
    return account


@asynccontextmanager
async def transaction(connection: aiosqlite.Connection) -> AsyncIterator[None]:
    """A transaction that writes; rolled back if the block raises."""
    await connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        await connection.commit()
    except BaseException:
        # A COMMIT that found the file busy has left the transaction open.
        await connection.rollback()
        raise
