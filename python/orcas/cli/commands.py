"""Which module has each command, by its heading in the help. To run one, only its module is imported."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import typer
    from typer.models import CommandInfo

# Below this package. `serve` is part of every application.
COMMANDS: Final = {
    "Server": {
        "serve": "app", "status": "server.status", "stop": "server.status", "run": "server.running",
        "cluster": "server.cluster", "env": "server.env", "console": "server.console", "demo": "server.demo",
        "top": "server.top", "bench": "server.bench", "version": "config", "config": "config",
    },
    "In place of others": {
        "minio": "server.minio", "localstack": "server.localstack", "mc": "server.mc", "aws": "server.aws",
    },
    "Objects": {
        "ls": "objects.lists", "cp": "objects.copies", "cat": "objects.copies", "rm": "objects.removal",
        "mb": "objects.lists", "rb": "objects.removal", "presign": "objects.lists", "probe": "objects.probe",
    },
    "Buckets": {
        "move": "buckets.moves", "fork": "buckets.snapshots", "usage": "buckets.usage", "snapshot": "buckets.snapshots",
        "table": "buckets.tables", "quota": "buckets.quotas", "origin": "buckets.origins",
        "replication": "buckets.replication", "settings": "buckets.settings",
    },
    "Identities": {
        "account": "identities.users", "user": "identities.users", "group": "identities.users",
        "role": "identities.users", "access-key": "identities.keys", "policy": "identities.policies",
        "credentials": "identities.credentials", "identities": "identities.export", "audit": "identities.audit",
    },
    "Store": {
        "stats": "store.upkeep", "gc": "store.upkeep", "compact": "store.upkeep", "lifecycle": "store.upkeep",
        "tasks": "store.tasks", "key": "store.keys", "events": "store.events",
    },
    "Damage and copies": {
        "fsck": "store.upkeep", "scrub": "store.upkeep", "inspect": "store.inspect", "backup": "store.copies",
        "restore": "store.copies", "standby": "server.standby", "promote": "server.standby", "export": "store.copies",
        "import": "store.imports",
    },
}  # fmt: skip
_MODULES: Final = {name: module for panel in COMMANDS.values() for name, module in panel.items()}


def app_with(name: str) -> typer.Typer:
    """An application with the command `name`; with all commands if there is none of that name, as for the help."""
    if name not in _MODULES:
        return app_with_all()
    from orcas.cli.app import new_app

    app = new_app()
    _add(app, _MODULES[name])
    return app


def app_with_all() -> typer.Typer:
    """An application with all commands, each below its heading."""
    from orcas.cli.app import new_app

    app = new_app()
    for module in dict.fromkeys(_MODULES.values()):
        _add(app, module)
    panels = {name: panel for panel, names in COMMANDS.items() for name in names}
    order = list(panels)

    def name_of(command: CommandInfo) -> str:
        return str(command.name or getattr(command.callback, "__name__", ""))

    # Panels are in the order of their first commands.
    app.registered_commands.sort(key=lambda command: order.index(name_of(command)))
    for command in app.registered_commands:
        command.rich_help_panel = panels[name_of(command)]
    for group in app.registered_groups:
        group.rich_help_panel = panels[str(group.name)]
    return app


def _add(app: typer.Typer, module: str) -> None:
    if module != "app":
        importlib.import_module(f"orcas.cli.{module}").add_to(app)
