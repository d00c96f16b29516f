"""Commands for the periodic tasks of a store: tasks list and run."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from orcas.cli.options import Commands, Where
from orcas.cli.output import print_json, print_table, say, show_tasks, waiting
from orcas.cli.store.upkeep import opened

tasks_app = Commands(help="Periodic tasks of a server, or of the node that owns the log: list them, or run one now.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a task, as in `orcas tasks list`.")]


@tasks_app.command("list")
def list_tasks(*, where: Where) -> None:
    """List the periodic tasks of a server: the last run of each, its failures, and the next run.

    Example:

        orcas tasks list
    """
    from orcas.tools.reach import check_tasks

    with opened(where) as session:
        check_tasks(session)
        found = session.admin("GET", "tasks")
    if where.as_json:
        print_json(found)
        return
    show_tasks(found["tasks"])
    for task in found["tasks"]:
        if task["error"] is not None:
            say(f"{task['name']} failed: {task['error']}.")


@tasks_app.command()
def run(name: Name, *, where: Where) -> None:
    """Run a task now, wait for its end, and show what it did.

    If the task is already running, the new run begins when that one is over. Exit code 1: the run failed.

    Example:

        orcas tasks run lifecycle
    """
    from orcas.tools.reach import check_tasks
    from orcas.tools.work import run_job

    with opened(where) as session, waiting(shown=not where.as_json) as advance:
        check_tasks(session)
        done = run_job(session, f"task {name}", lambda _: advance(name), path=f"tasks/{quote(name, safe='')}")
    if where.as_json:
        print_json(done)
    elif done:
        rows = [(what, ", ".join(value) if isinstance(value, list) else value) for what, value in done.items()]
        print_table(("", name), rows, right=1)
    else:
        typer.echo(f"The task {name} is done.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(tasks_app, name="tasks")
