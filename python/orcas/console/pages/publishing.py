"""A folder that everybody may read: the statement of the policy, the public access block and the link, in one step.

What else the policy says stays as it is.
"""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, Visit, object_path
from orcas.console.documents.policies import BUCKET, VERSION, shown
from orcas.console.pages.settings.policy import SOURCE
from orcas.console.pages.settings.sections import SECTIONS
from orcas.console.rendering import field, flash, flash_error, page, redirect, visit

# Those of the public access block that do not let a policy be public; of the others, each stays as it is.
_OF_POLICIES: Final = ("BlockPublicPolicy", "RestrictPublicBuckets")
# They stand for other characters in a policy.
_WILD: Final = frozenset("*?$")


async def show(request: Request) -> Response:
    """Whether everybody may read the folder by a statement of its own, and where."""
    who, bucket, prefix = visit(request), request.path_params["bucket"], request.query_params.get("prefix", "")
    policy = await _policy(who, bucket)
    return await page(
        request, "publish.html", prefix=prefix, folder=prefix, wild=bool(_WILD & set(prefix)),
        public=_statement(bucket, prefix) in policy["Statement"],
        link=f"{who.endpoint}{object_path(bucket)}/{quote(prefix, safe='/~')}",
    )  # fmt: skip


def _statement(bucket: str, prefix: str) -> dict[str, Any]:
    (statement,) = BUCKET["public-read"].build(bucket, prefix, "")
    return statement


async def _policy(who: Visit, bucket: str) -> dict[str, Any]:
    document = await SOURCE.load(who, bucket)
    found: dict[str, Any] = json.loads(document) if document else {"Version": VERSION, "Statement": []}
    return found | {"Statement": found["Statement"] if isinstance(found["Statement"], list) else [found["Statement"]]}


async def publish(request: Request) -> Response:
    """Let everybody read the folder, or no longer."""
    who, bucket, prefix = visit(request), request.path_params["bucket"], unquote(field(request, "prefix"))
    ends, statement = bool(field(request, "end")), _statement(bucket, prefix)
    try:
        if _WILD & set(prefix):
            raise CallError(400, "InvalidRequest", "The folder has a character that means others in a policy.")
        policy = await _policy(who, bucket)
        kept = [each for each in policy["Statement"] if each != statement]
        if not ends:
            await _open(who, bucket)
            kept.append(statement)
        await SOURCE.save(who, bucket, shown(policy | {"Statement": kept}) if kept else None)
    except CallError as error:
        flash_error(request, error, "Nothing was changed" if ends else "The folder is not public")
    else:
        flash(request, "The folder is no longer public." if ends else "Everybody may read the folder.")
    return redirect(request, f"/b{object_path(bucket)}/publish", prefix=prefix or None)


async def _open(who: Visit, bucket: str) -> None:
    """Let policies of the bucket be public."""
    block = SECTIONS["public-access"]
    filled = block.form.fill(await block.source.load(who, bucket))
    if filled is not None and any(filled.fixed[name] for name in _OF_POLICIES):
        filled.fixed |= dict.fromkeys(_OF_POLICIES, "")
        await block.source.save(who, bucket, block.form.write(filled))


ROUTES = [
    Route("/b/{bucket}/publish", show, methods=["GET"]),
    Route("/b/{bucket}/publish", publish, methods=["POST"]),
]
