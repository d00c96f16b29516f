"""Work in the background: periodic tasks with "run now", fsck and the scrub with their progress, reclamation, jobs."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import admin
from orcas.console.pages.server.health import in_words
from orcas.console.places import Place
from orcas.console.rendering import attempt, field, flash, page, redirect, visit
from orcas.console.shown import number, size

# Jobs that a button of the page begins: path, order, and what they do.
_JOBS: Final[dict[str, tuple[str, dict[str, Any] | None, str]]] = {
    "check": ("check", {"read_content": True}, "Check: read everything and compare it with its checksums"),
    "check-quick": ("check", {"read_content": False}, "Quick check: records and the index, without content"),
    "gc": ("gc", None, "Free what nothing refers to"),
    "compact": ("compact", None, "Free it, and rewrite files that are partly dead"),
}
_NAMES: Final = {"check": "fsck", "gc": "reclamation", "compact": "compaction"}


async def show(request: Request) -> Response:
    """Tasks, the scrub and jobs."""
    paths = ("tasks", "scrub", "jobs")
    tasks, scrub, jobs = await asyncio.gather(*(admin(visit(request), "GET", path) for path in paths))
    described = [_described(job) for job in jobs["jobs"]]
    busy = any(job["state"] == "running" for job in described) or any(task["running"] for task in tasks["tasks"])
    return await page(
        request, "server/work.html", tasks=tasks["tasks"], scrub=scrub, jobs=described, starts=_JOBS, span=in_words,
        refresh=2 if busy else 10, said=said,
    )  # fmt: skip


def _described(job: dict[str, Any]) -> dict[str, Any]:
    """A job with its name, how far it is, and what it came to."""
    progress = job["progress"]
    total = progress.get("total_bytes")
    return {
        **job, "name": _NAMES.get(job["kind"], job["kind"]), "span": in_words(job["seconds"]), "total": total,
        "done": progress.get("done_bytes"), "phase": progress.get("phase"), "findings": _findings(job["result"]),
        "outcome": said(job["result"]),
    }  # fmt: skip


def _findings(result: dict[str, Any] | None) -> list[str]:
    """What a check has found, one line for each cause."""
    groups = (result or {}).get("groups") or []
    return [
        f"{group['count']} times {group['kind']}: {group['cause']}, first {group['first']}" for group in groups[:20]
    ]


def said(result: dict[str, Any] | None) -> str:
    """The numbers of a result in one line, with what is true of it."""
    parts = []
    for name, value in (result or {}).items():
        words = name.replace("_", " ")
        if value is True:
            parts.append(words)
        elif isinstance(value, int) and value is not False:
            parts.append(f"{words} {size(value) if name.endswith('bytes') else number(value)}")
        elif isinstance(value, (str, float)):
            parts.append(f"{words} {value}")
    return ", ".join(parts)


async def run(request: Request) -> Response:
    """Run a task now."""
    task = field(request, "task")
    return await _begin(request, f"tasks/{quote(task, safe='')}", None, f"Task {task}")


async def start(request: Request) -> Response:
    """Begin a job."""
    path, order, what = _JOBS.get(field(request, "job"), ("", None, "That"))
    return await _begin(request, path or "jobs/none", order, what.partition(":")[0])


async def _begin(request: Request, path: str, order: dict[str, Any] | None, what: str) -> Response:
    if job := await attempt(request, admin(visit(request), "POST", path, order), f"{what} was not begun"):
        flash(request, f"{what} has begun as job {job['id']}.")
    return redirect(request, "/tasks")


async def end(request: Request) -> Response:
    """Cancel a job, or forget a finished one."""
    name = field(request, "id")
    work = admin(visit(request), "DELETE", f"jobs/{quote(name, safe='')}")
    if job := await attempt(request, work, f"Job {name} stays as it is"):
        flash(request, f"Job {name} is being cancelled." if job["state"] == "running" else f"Job {name} was removed.")
    return redirect(request, "/tasks")


ROUTES = [
    Route("/tasks", show, methods=["GET"]),
    Route("/tasks/run", run, methods=["POST"]),
    Route("/tasks/start", start, methods=["POST"]),
    Route("/tasks/end", end, methods=["POST"]),
]
PLACES = [Place("Tasks", "/tasks", "Operation", ("orcas:ListTasks",))]
