"""The table of actions: the function of each, and what it is done to. The modules with the functions fill it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from orcas.control.identities.calls import Action

# What names the resource: the parameter `UserName`, and so on. `self`: also the caller, if it is left out.
Target = Literal[
    "user", "self", "group", "role", "policy", "new policy", "key", "source", "account", "provider", "session"
]


@dataclass(frozen=True, slots=True)
class Entry:
    """An action. Only one that `changes` anything has a transaction. `root`: for the root of the store alone."""

    run: Action
    target: Target
    changes: bool
    root: bool = False
    # Those of `sts` decide themselves who may call them.
    service: Literal["iam", "sts"] = "iam"


ACTIONS: Final[dict[str, Entry]] = {}


def action(
    target: Target, name: str | None = None, *, root: bool = False, service: Literal["iam", "sts"] = "iam"
) -> Callable[[Action], Action]:
    """Add a function to the table. Its name is that of the action: `create_user` is CreateUser."""

    def add(function: Action) -> Action:
        called = name or "".join(word.capitalize() for word in function.__name__.split("_"))
        changes = service == "iam" and not called.startswith(("Get", "List", "Simulate"))
        ACTIONS[called] = Entry(function, target, changes, root, service)
        return function

    return add
