"""Replication over the admin API, under `/_orcas/admin/replication`: targets, rules, how far copies are.

The secret of a key arrives in the signed body of a request. It is never logged, and no response contains it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from fastapi import Body, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import ConfigDict, Field, SecretStr

from orcas.admin.routes.orders import Name, Order
from orcas.control.origins import ReplicationTarget
from orcas.engine import Core, Refusal
from orcas.errors import UnavailableError
from orcas.iam.directory import Directory
from orcas.replication.replicator import TARGETS_MAX, Replicator

log = logging.getLogger("orcas.replication")

_PEM_MAX: Final = 64 << 10
Text = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[\x21-\x7e]+$")]
TargetName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class TargetBody(Order):
    """A target, in place of one of the same name. `bucket`: one that is checked there."""

    model_config = ConfigDict(hide_input_in_errors=True)
    name: TargetName
    url: Text
    access_key: Text
    secret_key: Annotated[SecretStr, Field(min_length=1, max_length=1024)]
    region: Text = "us-east-1"
    private: bool = False
    ca: Annotated[str, Field(max_length=_PEM_MAX)] | None = None
    concurrency: int = Field(default=16, ge=1, le=64)
    bytes_per_sec: int = Field(default=0, ge=0, le=1 << 40)
    timeout_sec: int = Field(default=60, ge=1, le=600)


class RuleBody(Order):
    """A rule for a bucket, beside those that it has."""

    bucket: Name
    target: TargetName
    to: Name
    prefix: Annotated[str, Field(max_length=1024)] = ""
    existing: bool = False
    markers: bool = False


class RetryBody(Order):
    """A bucket. `everything`: also what is no exception is compared and, if it differs, copied."""

    bucket: Name
    everything: bool = False


class VerifyBody(Order):
    """The next keys of a bucket to compare, behind `after`. `metadata`: also metadata and tags, key by key."""

    bucket: Name
    after: Annotated[str, Field(max_length=1024)] = ""
    metadata: bool = False


class _Held:
    """What the operations share."""

    def __init__(
        self,
        core: Callable[[], Core],
        identities: Callable[[], Directory | None],
        replicator: Callable[[], Replicator],
    ) -> None:
        self.core = core
        self.replicator = replicator
        self._identities = identities

    def directory(self) -> Directory:
        """The identities of the store, with its targets."""
        directory = self._identities()
        if directory is None:
            raise Refusal(409, "NoReplication", "A store that is open for salvage is not replicated.")
        return directory

    async def targets(self) -> dict[str, ReplicationTarget]:
        """The targets by name. A command has not loaded them."""
        directory = self.directory()
        if not self.replicator().targets:
            try:
                await run_in_threadpool(self.replicator().replace, await directory.servers(ReplicationTarget))
            except UnavailableError as error:
                raise Refusal(503, "StoreError", str(error)) from None
        return self.replicator().targets

    async def change(self, request: Request, name: str, target: ReplicationTarget | None) -> None:
        """Set or remove a target."""
        client = request.scope.get("client")
        try:
            address = client[0] if client else None
            targets = await self.directory().change_server(ReplicationTarget, name, target, address)
        except UnavailableError as error:
            raise Refusal(503, "StoreError", str(error)) from None
        await run_in_threadpool(self.replicator().replace, targets)


def add_replication(
    app: FastAPI,
    core: Callable[[], Core],
    identities: Callable[[], Directory | None],
    replicator: Callable[[], Replicator],
) -> None:
    """Add these paths to the application. Changes of targets are coroutines: they belong to the loop."""
    held = _Held(core, identities, replicator)
    _add_targets(app, held)
    _add_rules(app, held)


def _add_targets(app: FastAPI, held: _Held) -> None:
    @app.get("/replication", responses={409: {"description": "The store is open for salvage"}})
    async def replication() -> dict[str, Any]:
        """The targets, and how far the copies along each route are. `sequence`: of the newest change."""
        targets, events = await held.targets(), held.core().events()
        shown = [target.shown() for _, target in sorted(targets.items())]
        sequence = 0 if events is None else events["log"]
        return {"targets": shown, "routes": await run_in_threadpool(held.replicator().describe), "sequence": sequence}

    @app.put("/replication/targets", responses={400: {"description": "The target is not valid, or cannot be used"}})
    async def put(request: Request, order: Annotated[TargetBody, Body()]) -> dict[str, Any]:
        """Add a target, or replace one, after it was asked whether its key is right."""
        target, known = _target(order), await held.targets()
        if order.name not in known and len(known) >= TARGETS_MAX:
            raise Refusal(400, "TooManyTargets", f"There can be at most {TARGETS_MAX} targets: remove one.")
        await run_in_threadpool(_check, held.replicator(), target)
        await held.change(request, target.name, target)
        log.info("The target %s of replication was set", target.name)
        return {}

    @app.delete("/replication/targets/{name}", responses={404: {"description": "There is no such target"}})
    async def remove(request: Request, name: str) -> dict[str, Any]:
        """Remove a target. Rules that name it copy nothing until there is one of its name again."""
        if name not in await held.targets():
            raise _no_target()
        await held.change(request, name, None)
        log.info("The target %s of replication was removed", name)
        return {}

    @app.post("/replication/targets/{name}/test", responses={404: {"description": "There is no such target"}})
    async def test(name: str) -> dict[str, Any]:
        """Ask a target now whether it answers, and whether its key is right."""
        target = (await held.targets()).get(name)
        if target is None:
            raise _no_target()
        try:
            await run_in_threadpool(_check, held.replicator(), target)
        except Refusal as refused:
            return {"answers": False, "reason": refused.args[2]}
        return {"answers": True, "reason": None}


def _add_rules(app: FastAPI, held: _Held) -> None:
    @app.post(
        "/replication/rules",
        responses={400: {"description": "The rule is not valid"}, 404: {"description": "There is no such target"}},
    )
    async def put_rule(order: Annotated[RuleBody, Body()]) -> dict[str, Any]:
        """Add a rule to the replication configuration of a bucket, if the target has the bucket with versions."""
        from orcas.replication.orders import RuleError, add_rule

        target = (await held.targets()).get(order.target)
        if target is None:
            raise _no_target()
        given = order.model_dump(exclude={"target"})
        try:
            return {"id": await run_in_threadpool(lambda: add_rule(held.replicator().here(), target, **given))}
        except RuleError as error:
            raise Refusal(400, "InvalidRule", f"{error}.") from None

    @app.post("/replication/retry", responses={404: {"description": "The bucket is not replicated"}})
    def retry(order: Annotated[RetryBody, Body()]) -> dict[str, Any]:
        """Try the exceptions of a bucket soon, or compare everything that rules are about."""
        count = held.replicator().retry(order.bucket, everything=order.everything)
        if count is None:
            raise _not_replicated()
        return {"retried": count}

    @app.post("/replication/verify", responses={404: {"description": "The bucket is not replicated"}})
    def verify(order: Annotated[VerifyBody, Body()]) -> dict[str, Any]:
        """Compare the next keys of a bucket with the copies, and report which differ."""
        from orcas.replication.orders import RuleError

        try:
            found = held.replicator().verify(order.bucket, order.after.encode(), metadata=order.metadata)
        except RuleError as error:
            raise Refusal(502, "TargetError", f"{error}.") from None
        if found is None:
            raise _not_replicated()
        return found


def _no_target() -> Refusal:
    return Refusal(404, "NoSuchTarget", "There is no target of this name: `orcas replication target list` shows them.")


def _not_replicated() -> Refusal:
    return Refusal(404, "NotReplicated", "No rule replicates this bucket: `orcas replication add` adds one.")


def _check(replicator: Replicator, target: ReplicationTarget) -> None:
    from orcas.replication.orders import problem_of

    problem = problem_of(target, replicator.here())
    if problem:
        raise Refusal(400, "TargetError", f"The target cannot be used: {problem}.")


def _target(order: TargetBody) -> ReplicationTarget:
    try:
        url = urlsplit(order.url)
        valid = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        valid = False
    if not valid or order.url != f"{url.scheme}://{url.netloc}" or url.username is not None:
        raise Refusal(400, "InvalidRequest", "url must be http://HOST:PORT or https://HOST:PORT.")
    secret = order.secret_key.get_secret_value()
    if not (secret.isascii() and secret.isprintable()):
        raise Refusal(400, "InvalidRequest", "secret_key must be printable ASCII text.")
    return ReplicationTarget(**order.model_dump(exclude={"secret_key"}), secret_key=secret)
