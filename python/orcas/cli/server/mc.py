"""`orcas mc`: the few commands of MinIO's client that set a server up, for scripts and health checks that call `mc`.

Each is translated into a request or a command of Orcas. Everything else is refused with the command that does it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit

import typer

from orcas.cli.options import Where
from orcas.cli.server.aws import taken
from orcas.cli.store.upkeep import opened, settings_of
from orcas.errors import OrcasError, UnavailableError, UsageError, because
from orcas.settings.clients import S3_ENDPOINTS, client_variables, server_url
from orcas.settings.config import environment, set_by_variables, variables_of

_PASSED_ON: Final = {"ignore_unknown_options": True, "allow_interspersed_args": False}
# The alias of the server that runs here, unless another was given this name.
_LOCAL: Final = "local"
_POLL_SECONDS: Final = 0.5
# What does that which is not here.
_INSTEAD: Final = {
    "admin user": "`orcas user`", "admin policy": "`orcas policy`", "admin group": "`orcas group`",
    "admin info": "`orcas status`", "admin accesskey": "`orcas access-key`", "du": "`orcas ls`",
    "mirror": "`orcas cp -r`", "mv": "`orcas move`", "cat": "`orcas cat`", "get": "`orcas cp`", "put": "`orcas cp`",
    "pipe": "`orcas cp`", "rb": "`orcas rb`", "share": "`orcas presign`", "quota": "`orcas quota`",
    "ping": "`orcas status`", "rm": "`orcas rm`",
}  # fmt: skip
_OTHERS: Final = "a client such as `aws s3api`"


class _Server(NamedTuple):
    url: str
    access_key: str
    secret_key: str
    # File with the certificates to trust, if none is named otherwise.
    ca: str | None = None


Command = Annotated[list[str] | None, typer.Argument(metavar="COMMAND...", help="As those of `mc`.")]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(context_settings=_PASSED_ON)(mc)


def mc(command: Command = None) -> None:
    """Run one of those commands of MinIO's client, `mc`, by which scripts set a server up and wait for it.

    They are ready, alias set, mb, stat of a bucket, ls, cp, anonymous set, version enable and version suspend. In the
    image, `mc` is this command. Aliases are where MinIO's client has them: in MC_HOST_ALIAS, or in MC_CONFIG_DIR (~/.mc).
    Unless there is one, `local` is the server that runs here: by its store, else at MINIO_ADDRESS, or port 9000.

    Examples:

        orcas mc ready local

        orcas mc alias set s http://127.0.0.1:9000 minioadmin minioadmin

        orcas mc mb --ignore-existing s/photos
    """
    words = command or []
    if words[:1] in (["--version"], ["-v"]):
        from orcas.cli.app import print_version

        print_version()
        return
    for count in (3, 2, 1):
        if (found := _COMMANDS.get(" ".join(words[:count]))) is not None:
            found(words[count:])
            return
    named = next((name for name in (" ".join(words[:2]), *words[:1]) if name in _INSTEAD), " ".join(words[:2]))
    does = _INSTEAD.get(named, _OTHERS)
    raise UsageError(f"`mc {named}` is not here: use {does}, or MinIO's own client, which works with this server.")


def _parsed(words: list[str], usage: str, least: int, most: int, **flags: str) -> tuple[set[str], list[str]]:
    """The flags among words, and the others. `flags`: short forms, by name."""
    known = {f"--{name.replace('_', '-')}": name for name in flags} | {short: name for name, short in flags.items()}
    rest = [word for word in words if word not in known]
    unknown = next((word for word in rest if word.startswith("-") and word != "-"), None)
    if unknown is not None or not least <= len(rest) <= most:
        why = f"{unknown} is not taken" if unknown else "something is missing, or too much"
        raise UsageError(f"{why}: write `mc {usage}`.")
    return {known[word] for word in words if word in known}, rest


def _directory() -> Path:
    return Path(variables_of("MC_").get("MC_CONFIG_DIR", "~/.mc")).expanduser()


def _aliases() -> dict[str, Any]:
    """The file of MinIO's client."""
    path = _directory() / "config.json"
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {"aliases": {}} | found
    except FileNotFoundError:
        return {"version": "10", "aliases": {}}
    except (OSError, ValueError, TypeError) as error:
        raise UnavailableError(f"{path} cannot be read: {error}; correct or remove it.") from None


def _server(alias: str) -> _Server | None:
    """The server of an alias; None: the one that has the store open that commands find here."""
    if (given := variables_of("MC_HOST_").get(f"MC_HOST_{alias}")) is not None:
        parts = urlsplit(given)
        keys = unquote(parts.username or ""), unquote(parts.password or "")
        return _Server(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", *keys)
    # MinIO's client makes an alias `local` of its own, which is port 9000 without keys.
    if (found := _aliases()["aliases"].get(alias)) is not None and (alias != _LOCAL or found["accessKey"]):
        return _Server(found["url"], found["accessKey"], found["secretKey"])
    if alias != _LOCAL:
        raise UsageError(f"There is no alias {alias}: make it with `mc alias set {alias} URL ACCESS_KEY SECRET_KEY`.")
    return _local()


def _local() -> _Server | None:
    from orcas.control.files.address import linked, running_at
    from orcas.minio.environment import PREFIX, reached_by

    settings, variables = settings_of(None), variables_of(PREFIX)
    # The link leads to the server of this container, whatever its command line says.
    by_its_store = "data" in set_by_variables() or running_at(settings.data) is not None
    if linked(settings.server_link) is not None or (by_its_store and "MINIO_ADDRESS" not in variables):
        return None
    found = reached_by(variables)
    host = found["host"] if found["host"] not in ("::", "0.0.0.0") else "localhost"  # noqa: S104 - of all addresses, one
    certificates = cast("list[str] | None", found.get("tls_cert_file"))
    return _Server(
        server_url(str(host), cast("int", found["port"]), tls=certificates is not None),
        str(found["root_access_key"]),
        str(found["root_secret_key"]),
        certificates[0] if certificates else None,
    )


@contextlib.contextmanager
def _at(server: _Server | None) -> Iterator[Where]:
    """The options by which commands of Orcas find a server. They take its keys from variables."""
    if server is None:
        with environment(dict.fromkeys(S3_ENDPOINTS)):
            yield Where()
        return
    keys = {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_SESSION_TOKEN": None,
    }
    with environment({**keys, "AWS_CA_BUNDLE": client_variables().ca_bundle or server.ca}):
        yield Where(endpoint=server.url)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _ready(words: list[str]) -> None:
    from orcas.cli.server.status import ready_url

    _, (alias,) = _parsed(words, "ready ALIAS", 1, 1)
    said = ""
    while True:
        try:
            # Where the server is may be known only once it has started.
            with _at(_server(alias)) as where:
                _say(f"The cluster '{ready_url(where)}' is ready")
                return
        except UnavailableError as error:
            if str(error) != said:
                said = str(error)
                sys.stderr.write(f"Waiting for the cluster '{alias}': {said}\n")
        time.sleep(_POLL_SECONDS)


def _set_alias(words: list[str]) -> None:
    from orcas.tools.objects import buckets

    left = list(words)
    # The values that a server of Orcas needs anyway.
    for option, value in (("--api", "s3v4"), ("--path", "auto")):
        given = taken(left, option)
        if given is not None and given.lower() != value:
            raise UsageError(f"{option} {given} is not taken: leave it out.")
    _, (alias, url, access_key, secret_key) = _parsed(left, "alias set ALIAS URL ACCESS_KEY SECRET_KEY", 4, 4)
    server = _Server(url.rstrip("/"), access_key, secret_key)
    with _at(server) as where, opened(where) as session:
        # As MinIO's client, it wants to be sure of the server and the key.
        buckets(session)
    known, directory = _aliases(), _directory()
    entry = {"url": server.url, "accessKey": access_key, "secretKey": secret_key, "api": "s3v4", "path": "auto"}
    known["aliases"][alias] = entry
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = directory / f"config.json.{os.getpid()}"
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(known, indent=2), encoding="utf-8")
        fresh.replace(directory / "config.json")
    except OSError as error:
        raise UnavailableError(f"The alias cannot be kept in {directory}: {because(error)}.") from None
    _say(f"Added `{alias}` successfully.")


def _ask(place: str, method: str, query: str = "", body: bytes = b"") -> None:
    """A request about ALIAS/BUCKET."""
    from orcas.tools.imports.requests import ObjectError, Side, path_of
    from orcas.tools.session import RefusedError, no_bucket

    alias, bucket = _split(place)
    with _at(_server(alias)) as where, opened(where) as session:
        try:
            Side(session, is_target=True).ask(method, path_of(bucket), {query: ""} if query else {}, body)
        except ObjectError as error:
            # The answer to HEAD has no document that says it.
            if error.status == HTTPStatus.NOT_FOUND:
                raise no_bucket(bucket) from None
            sentence = f"The server refuses this for {place} ({error}): remove the cause, and run it again."
            raise RefusedError(error.status, sentence, error.code) from None


def _split(place: str) -> tuple[str, str]:
    alias, _, bucket = place.rstrip("/").partition("/")
    if not bucket or "/" in bucket:
        raise UsageError(f"{place} is not ALIAS/BUCKET: name one bucket.")
    return alias, bucket


def _make_buckets(words: list[str]) -> None:
    flags, places = _parsed(words, "mb [--ignore-existing] ALIAS/BUCKET...", 1, 100, ignore_existing="-p")
    for place in places:
        try:
            _ask(place, "PUT")
        except OrcasError as error:
            if error.code != "BucketAlreadyOwnedByYou" or not flags:
                raise
        _say(f"Bucket created successfully `{place}`.")


def _show_bucket(words: list[str]) -> None:
    """Fails if there is no such bucket: scripts then make it."""
    _, (place,) = _parsed(words, "stat ALIAS/BUCKET", 1, 1)
    _ask(place, "HEAD")
    _say(f"Name      : {_split(place)[1]}\nType      : folder")


def _set_versioning(status: str, words: list[str]) -> None:
    _, (place,) = _parsed(words, "version enable|suspend ALIAS/BUCKET", 1, 1)
    body = f"<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>"
    _ask(place, "PUT", "versioning", body.encode())


def _set_access(words: list[str]) -> None:
    from orcas.s3.delivery import ACCESS, policy_for_everybody

    _, (access, place) = _parsed(words, "anonymous set none|download|upload|public ALIAS/BUCKET", 2, 2)
    if access == "none":
        _ask(place, "DELETE", "policy")
    elif access in ACCESS:
        _ask(place, "PUT", "policy", policy_for_everybody(_split(place)[1], access))
    else:
        raise UsageError(f"{access} is not none, download, upload or public: give one of them.")
    _say(f"Access permission for `{place}` is set to `{access}`")


def _list(words: list[str]) -> None:
    from orcas.cli.objects.lists import ls

    flags, (place,) = _parsed(words, "ls [--recursive] ALIAS/WHAT", 1, 1, recursive="-r")
    alias, _, rest = place.partition("/")
    with _at(_server(alias)) as where:
        ls(f"s3://{rest}", bool(flags), where=where)


def _copy(words: list[str]) -> None:
    """As `orcas cp`, for which objects are s3://BUCKET/KEY. What is no file is an object."""
    from orcas.cli.objects.copies import Stored, cp

    flags, places = _parsed(words, "cp [--recursive] SOURCE... TARGET", 2, 100, recursive="-r")
    aliases = set()
    for at, place in enumerate(places):
        if not (place.startswith((".", "/")) or Path(place).exists()):
            alias, _, rest = place.partition("/")
            aliases.add(alias)
            places[at] = f"s3://{rest}"
    if len(aliases) != 1:
        raise UsageError("Name one alias, as in ALIAS/BUCKET/KEY; `orcas import` copies from server to server.")
    *sources, target = places
    with _at(_server(*aliases)) as where:
        for source in sources:
            # A directory without a slash behind it is copied with its name.
            name = source.rpartition("/")[2] if flags else ""
            cp(source, f"{target.rstrip('/')}/{name}" if name else target, bool(flags), stored=Stored(), where=where)


_COMMANDS: Final[dict[str, Callable[[list[str]], None]]] = {
    "ready": _ready, "alias set": _set_alias, "config host add": _set_alias, "mb": _make_buckets,
    "stat": _show_bucket,
    "version enable": functools.partial(_set_versioning, "Enabled"),
    "version suspend": functools.partial(_set_versioning, "Suspended"),
    "anonymous set": _set_access, "policy set": _set_access,
    "ls": _list, "cp": _copy,
}  # fmt: skip
