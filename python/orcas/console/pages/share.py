"""Links to an object for people without a key: a presigned URL with its end, as text, QR code and commands."""

from __future__ import annotations

import datetime as dt
import re
import shlex
from typing import Final

import segno
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import object_path, presigned
from orcas.console.contents import head
from orcas.console.rendering import asked_object, page, visit
from orcas.settings.config import is_loopback

_CHOICES: Final = ((3600, "1 hour"), (86_400, "1 day"), (2 * 86_400, "2 days"), (604_800, "7 days"))
# Bytes of a URL that a code holds and a telephone still reads.
_CODE_MAX: Final = 1200
_PORT: Final = re.compile(r":\d+$")


async def show(request: Request) -> Response:
    """The form, and the link once its time was chosen."""
    who, (bucket, key, version) = visit(request), asked_object(request)
    await head(who, bucket, key, version)
    longest = request.app.state.settings.presign_max_sec
    choices = [(str(seconds), said) for seconds, said in _CHOICES if seconds <= longest] or [
        (str(longest), f"{longest} seconds")
    ]
    chosen = request.query_params.get("seconds", "")
    link = code = ""
    ends: dt.datetime | None = None
    if chosen in dict(choices):
        path = presigned(who, "GET", object_path(bucket, key), {"versionId": version}, seconds=int(chosen))
        link = f"{who.scheme}://{who.host}{path}"
        ends = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=int(chosen))
        if len(link) <= _CODE_MAX:
            code = segno.make(link, error="l", micro=False).svg_data_uri(scale=4, border=4, dark="#000", light="#fff")
    return await page(
        request, "share.html", key=key, version=version, choices=choices, chosen=chosen, link=link,
        code=code, ends=ends, is_local=is_loopback(_PORT.sub("", who.host).strip("[]")),
        lines=_lines(who.endpoint, bucket, key, link, chosen) if link else [],
    )  # fmt: skip


def _lines(endpoint: str, bucket: str, key: str, link: str, seconds: str) -> list[tuple[str, str]]:
    """How to use the link, and how to make one, in the words of each tool."""
    name = key.rpartition("/")[2] or "object"
    place = f"--endpoint-url {shlex.quote(endpoint)} --expires-in {seconds} {shlex.quote(f's3://{bucket}/{key}')}"
    parameters = f'"get_object", Params={{"Bucket": {bucket!r}, "Key": {key!r}}}, ExpiresIn={seconds}'
    client = f'boto3.client("s3", endpoint_url={endpoint!r})'
    return [
        ("curl", f"curl --output {shlex.quote(name)} {shlex.quote(link)}"),
        ("aws", f"aws s3 presign {place}"),
        ("boto3", f"{client}.generate_presigned_url(\n    {parameters}\n)"),
    ]


ROUTES = [Route("/b/{bucket}/share", show)]
