"""The addresses of the pages about users, and their places in the navigation."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.pages.users import accounts, asking, auditing, editing, handing, lists, one
from orcas.console.places import Place
from orcas.console.rendering import redirect


async def first(request: Request) -> Response:
    """Lead to the list of users."""
    return redirect(request, "/users/users")


_ONE: Final = "/users/{kind}/{name}"
ROUTES = [
    Route("/users", first, methods=["GET"]),
    Route("/users/policies", lists.policies, methods=["GET"]),
    Route("/users/policies", lists.create_policy, methods=["POST"]),
    Route("/users/policies/one", editing.policy, methods=["GET"]),
    Route("/users/policies/one", editing.change_policy, methods=["POST"]),
    Route("/users/may", asking.show, methods=["GET"]),
    Route("/users/audit", auditing.show, methods=["GET"]),
    Route("/users/accounts", accounts.show, methods=["GET"]),
    Route("/users/accounts", accounts.create, methods=["POST"]),
    Route("/users/accounts/key", accounts.create_key, methods=["POST"]),
    Route("/users/root-key", accounts.root_key, methods=["GET"]),
    Route("/users/root-key", accounts.replace_root_key, methods=["POST"]),
    Route(handing.PATH, handing.show, methods=["GET"]),
    Route(handing.PATH, handing.done, methods=["POST"]),
    Route("/users/{kind}", lists.show, methods=["GET"]),
    Route("/users/{kind}", lists.create, methods=["POST"]),
    Route(_ONE, one.show, methods=["GET"]),
    *(Route(f"{_ONE}/{name}", editing.edit, methods=["GET"]) for name in ("inline", "trust")),
    *(Route(f"{_ONE}/{name}", editing.save, methods=["POST"]) for name in ("inline", "trust")),
    Route(f"{_ONE}/create-key", one.create_key, methods=["POST"]),
    Route(f"{_ONE}/delete", one.delete, methods=["POST"]),
    Route(f"{_ONE}/{{action}}", one.change, methods=["POST"]),
]
PLACES = [
    Place("Users", "/users/users", "People and rights", ("iam:ListUsers",)),
    Place("Groups", "/users/groups", "People and rights", ("iam:ListGroups",)),
    Place("Roles", "/users/roles", "People and rights", ("iam:ListRoles",)),
    Place("Policies", "/users/policies", "People and rights", ("iam:ListPolicies",)),
    Place("May somebody …?", "/users/may", "People and rights", ("orcas:SimulateAccess",)),
    Place("Accounts", "/users/accounts", "Owner", ("orcas:ListAccounts",)),
    Place("Root key", "/users/root-key", "Owner", ("root",)),
    Place("Audit log", "/users/audit", "Owner", ("orcas:GetAuditLog",)),
]
