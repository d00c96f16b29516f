"""The paths of LocalStack beside AWS, below `/_localstack/`: health, information and init scripts."""

from __future__ import annotations

import platform
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from orcas.localstack.environment import SERVICES
from orcas.localstack.scripts import STAGES
from orcas.version import orcas_version

if TYPE_CHECKING:
    from orcas.localstack.scripts import InitScripts

PREFIX: Final = "/_localstack"
_EDITION: Final = "orcas"


def router(scripts: InitScripts | None) -> APIRouter:
    """The routes. `scripts`: the init scripts of the server, if it has any."""
    routes = APIRouter(tags=["localstack"])
    began, session = time.monotonic(), str(uuid.uuid4())

    async def health() -> dict[str, Any]:
        """Which services there are."""
        return {"services": dict.fromkeys(SERVICES, "running"), "edition": _EDITION, "version": orcas_version()}

    async def info() -> dict[str, Any]:
        """What this server is."""
        return {
            "version": orcas_version(), "edition": _EDITION, "is_license_activated": False, "session_id": session,
            "machine_id": "", "system": platform.system().lower(), "is_docker": False,
            "server_time_utc": datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="seconds"),
            "uptime": int(time.monotonic() - began),
        }  # fmt: skip

    async def init() -> dict[str, Any]:
        """How far the init scripts are."""
        return {"completed": dict.fromkeys(STAGES, True), "scripts": []} if scripts is None else scripts.shown()

    async def stage(stage: str) -> JSONResponse:
        """How far the init scripts of a stage are."""
        if stage.upper() not in STAGES:
            return JSONResponse({"error": f"There is no stage {stage[:40]}."}, 404)
        return JSONResponse({"completed": True, "scripts": []} if scripts is None else scripts.shown(stage.upper()))

    for path, answer in (("health", health), ("info", info), ("init", init), ("init/{stage}", stage)):
        routes.add_api_route(f"/{path}", answer, methods=["GET", "HEAD"], response_model=None)
    return routes
