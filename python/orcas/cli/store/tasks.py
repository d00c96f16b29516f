"""Commands for the periodic tasks of a store: tasks list and run."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from orcas.cli.options import AsJson, Commands, Data
from orcas.cli.output import print_json, print_table, say, show_tasks, waiting
from orcas.cli.store.upkeep import Endpoint, ask, settings_of

tasks_app = Commands(help="Periodic tasks: list them, or run one now.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a task, as in `orcas tasks list`.")]


@tasks_app.command("list")
def list_tasks(data: Data = None, endpoint: Endpoint = None, as_json: AsJson = False) -> None:
    """List the periodic tasks of a server: the last run of each, its failures, and the next run."""
    found = ask(data, endpoint, "GET", "tasks")
    if as_json:
        print_json(found)
        return
    show_tasks(found["tasks"])
    for task in found["tasks"]:
        if task["error"] is not None:
            say(f"{task['name']} failed: {task['error']}.")


@tasks_app.command()
def run(name: Name, data: Data = None, endpoint: Endpoint = None, as_json: AsJson = False) -> None:
    """Run a task now, wait for its end, and show what it did.

    If the task is already running, the new run begins when that one is over. Exit code 1: the run failed.
    """
    from orcas.tools.reach import reached
    from orcas.tools.work import run_job

    with reached(settings_of(data), endpoint) as session, waiting(shown=not as_json) as advance:
        done = run_job(session, f"task {name}", lambda _: advance(name), path=f"tasks/{quote(name, safe='')}")
    if as_json:
        print_json(done)
    elif done:
        rows = [(what, ", ".join(value) if isinstance(value, list) else value) for what, value in done.items()]
        print_table(("", name), rows, right=1)
    else:
        typer.echo(f"The task {name} is done.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(tasks_app, name="tasks")
