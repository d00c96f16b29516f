"""The operator's tools over HTTP, under `/_orcas/admin/`: JSON in, JSON out, for root and whoever is allowed by policies.

A FastAPI application of its own within `RootOnly`, so that no spelling of a path avoids authentication. Long work is a job:
started here, polled by its id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from orcas.admin.guard import Audit, RootOnly
from orcas.admin.jobs import Job, Jobs
from orcas.admin.parts import Parts
from orcas.admin.pins import BackupPins, TooManyPinsError
from orcas.admin.routes.access import add_access
from orcas.admin.routes.audit import add_audit
from orcas.admin.routes.identities import add_identities
from orcas.admin.routes.keys import add_keys
from orcas.admin.routes.orders import CheckBody, Name, Order
from orcas.admin.routes.origins import add_origins
from orcas.admin.routes.quotas import add_quotas
from orcas.admin.routes.replication import add_replication
from orcas.admin.routes.server import Around, add_server, add_watching
from orcas.admin.routes.snapshots import add_snapshots
from orcas.admin.routes.standby import add_standby
from orcas.admin.routes.targets import add_targets
from orcas.admin.routes.tasks import add_tasks
from orcas.admin.routes.testing import add_testing
from orcas.admin.routes.usage import add_usage
from orcas.admin.schedule import Schedule
from orcas.admin.tools import Tools, totals_of
from orcas.cluster.routes import add_cluster
from orcas.engine import Core, Refusal, StoreError
from orcas.errors import UnavailableError
from orcas.iam.directory import Directory
from orcas.settings.values import number_wanted
from orcas.telemetry.reports import note_cause

log = logging.getLogger("orcas")

# Of every route, for the documentation, which adds what goes without saying (`orcas.admin.docs`).
_REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    403: {"description": "The request is not signed, or whoever has signed it is not allowed it"},
    503: {"description": "The store, or what is requested, is not available now"},
}
_CODES: Final = {400: "InvalidRequest", 404: "NotFound", 405: "MethodNotAllowed"}


class CompactBody(Order):
    """`seal`: seal what was stored without encryption, and leave nothing of it in files."""

    seal: bool = False


class Place(Order):
    """The keys of a bucket that begin with a prefix."""

    bucket: Name
    prefix: str = Field(max_length=1024)


class MoveBody(Order):
    """What is moved where. Without `overwrite`, no key may begin with the new prefix."""

    source: Place
    target: Place
    overwrite: bool = False


def admin_app(parts: Callable[[], Parts], around: Callable[[], Around]) -> FastAPI:
    """The application to be mounted at `MOUNT`. `parts` and `around` are called for each request."""

    def core() -> Core:
        return parts().core

    def identities() -> Directory | None:
        return parts().identities

    def data() -> Path | None:
        return parts().directory

    def schedule() -> Schedule:
        return parts().schedule

    def tools() -> Tools:
        return parts().tools

    def audit() -> Audit | None:
        known = identities()
        return None if known is None else known.audit

    def routes() -> list[BaseRoute]:
        return app.routes

    app = FastAPI(
        title="Orcas administration", docs_url=None, redoc_url=None, openapi_url=None, responses=_REFUSALS,
        middleware=[Middleware(RootOnly, gatekeeper=core, routes=routes, audit=audit)],
        # A redirect would be no JSON, and its target would need another signature.
        redirect_slashes=False,
    )  # fmt: skip
    _add_errors(app)
    add_access(app, identities)
    _add_work(app, core, schedule, tools)
    _add_jobs(app, lambda: tools().jobs)
    _add_pins(app, core, lambda: parts().pins)
    add_snapshots(app, core)
    add_cluster(app, lambda: parts().member, core, tools)
    add_standby(app, core, lambda: parts().pins, data, lambda: parts().copies)
    add_targets(app, lambda: parts().deliveries)
    add_tasks(app, schedule, tools)
    add_keys(app, core, data)
    add_identities(app, identities)
    add_audit(app, data)
    add_usage(app, lambda: parts().usage)
    add_watching(app, lambda: parts().watch, around)
    add_server(app, core, identities, data, around)
    add_quotas(app, core, data)
    add_origins(app, core, identities, lambda: parts().pulls)
    add_replication(app, core, identities, lambda: parts().replicator)
    add_testing(app, lambda: parts().testing, schedule)
    return app


def _add_errors(app: FastAPI) -> None:
    def document(request: Request, status: int, code: str, message: str) -> JSONResponse:
        note_cause(request.scope, code, message)
        return JSONResponse({"error": {"code": code, "message": message}}, status)

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> JSONResponse:
        return document(request, *error.args)

    @app.exception_handler(StoreError)
    async def failed(request: Request, error: StoreError) -> JSONResponse:
        return document(request, 503, "StoreError", f"{error}.")

    @app.exception_handler(UnavailableError)
    async def unavailable(request: Request, error: UnavailableError) -> JSONResponse:
        return document(request, 503, "StoreError", str(error))

    @app.exception_handler(HTTPException)
    async def lost(request: Request, error: HTTPException) -> JSONResponse:
        return document(request, error.status_code, _CODES.get(error.status_code, "Error"), str(error.detail))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        # The first part says whether it is in the body, the query or the path.
        place = ".".join(str(part) for part in first["loc"][1:])
        wanted = number_wanted(first)
        said = f"{place or first['loc'][0]}: {first['msg']}" if wanted is None else f"{place} must be {wanted}"
        return document(request, 400, "InvalidRequest", f"{said}.")


def _stats(core: Core) -> dict[str, Any]:
    found = core.stats()
    return {
        **found,
        "totals": totals_of(**found["totals"]),
        "reclaim": core.reclaim_progress(),
        "lifecycle": core.lifecycle_progress(),
        "events": core.events(),
    }


def _add_work(
    app: FastAPI, core: Callable[[], Core], schedule: Callable[[], Schedule], tools: Callable[[], Tools]
) -> None:
    # A coroutine, because the table of tasks belongs to the loop; the store is asked in a thread.
    @app.get("/stats")
    async def stats() -> dict[str, Any]:
        """What the store holds, the space it uses, what was reclaimed, what has expired, and the periodic tasks."""
        return {**await asyncio.to_thread(_stats, core()), "tasks": schedule().describe()}

    # Not coroutines where the store is asked: that may wait for the disk, so FastAPI does it in a thread.
    @app.get("/scrub")
    def scrub() -> dict[str, Any]:
        """The progress of the background scrub, and what it found."""
        return dict(core().scrub_progress())

    @app.post("/gc", status_code=202)
    def gc() -> dict[str, Any]:
        """Begin a job that removes what nothing refers to."""
        return tools().start("gc", tools().reclaim(compact=False))

    @app.post(
        "/compact",
        status_code=202,
        responses={400: {"description": "The body is not valid, or there is no master key"}},
    )
    def compact(order: Annotated[CompactBody | None, Body()] = None) -> dict[str, Any]:
        """Begin a job that does what `gc` does and rewrites files with dead records or chunks. `seal`: encrypt all first."""
        if order is not None and order.seal:
            return tools().start("seal", tools().seal())
        return tools().start("compact", tools().reclaim(compact=True))

    @app.post("/lifecycle/run", status_code=202)
    def lifecycle() -> dict[str, Any]:
        """Begin a job that applies the lifecycle rules of all buckets."""
        return tools().start("lifecycle", tools().task("lifecycle"))

    @app.post("/check", status_code=202)
    def check(order: Annotated[CheckBody | None, Body()] = None) -> dict[str, Any]:
        """Begin a job that reads everything and compares it with its checksums."""
        return tools().start("check", tools().check(**(order or CheckBody()).model_dump()))

    @app.post("/move", responses={404: {"description": "There is no such bucket"}})
    def move(order: Annotated[MoveBody, Body()]) -> dict[str, int]:
        """Move all objects with a prefix to another one, at once."""
        source, target = ((place.bucket, place.prefix) for place in (order.source, order.target))
        moved = tools().move(source, target, overwrite=order.overwrite)
        log.info("%d objects were moved from %r to %r", moved["objects"], "/".join(source), "/".join(target))
        return moved


def _add_jobs(app: FastAPI, known: Callable[[], Jobs]) -> None:
    def found(name: str) -> Job:
        job = known().find(name)
        if job is None:
            raise Refusal(404, "NoSuchJob", "There is no job with this id, or it has expired.")
        return job

    @app.get("/jobs")
    def jobs() -> dict[str, Any]:
        """All jobs, the newest first: those that run, and those that ended within the hour."""
        return {"jobs": [job.describe() for job in known().all()]}

    # The second path is for the jobs of a node, whichever node owns the log.
    @app.get("/jobs/{name}")
    @app.get("/cluster/jobs/{name}")
    def job(name: str) -> dict[str, Any]:
        """The state of a job, and its result once it is done."""
        return found(name).describe()

    @app.delete("/jobs/{name}")
    @app.delete("/cluster/jobs/{name}")
    def end(name: str) -> dict[str, Any]:
        """Cancel a running job, or remove a finished one."""
        job = found(name)
        if job.state != "running":
            known().remove(job)
        elif job.work.cancel is None:
            raise Refusal(409, "NotCancellable", f"A {job.kind} under way ends by itself.")
        else:
            job.cancelled = True
            job.work.cancel()
        return job.describe()


def _add_pins(app: FastAPI, core: Callable[[], Core], pins: Callable[[], BackupPins]) -> None:
    def known(done: bool) -> dict[str, Any]:
        if not done:
            raise Refusal(404, "NoSuchBackupPin", "There is no backup pin with this id. It may have expired.")
        return {}

    # Coroutines, because pins belong to the loop; what blocks goes to a thread there.
    @app.post("/backup-pins", status_code=201)
    async def take() -> dict[str, Any]:
        """Take a backup pin: the files of this point in time stay for 60 seconds, unless it is renewed."""
        try:
            return await pins().take(core().pin_for_backup)
        except TooManyPinsError:
            raise Refusal(503, "TooManyBackupPins", "There are too many backup pins.") from None

    @app.put("/backup-pins/{name}")
    async def renew(name: str) -> dict[str, Any]:
        """Renew a backup pin for another 60 seconds."""
        return known(pins().renew(name))

    @app.delete("/backup-pins/{name}")
    async def release(name: str) -> dict[str, Any]:
        """Release a backup pin."""
        return known(pins().release(name))
