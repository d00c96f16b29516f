"""`orcas minio server`: the server, started as one starts MinIO's."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orcas.errors import ConfigurationError, UnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orcas.minio.environment import Wanted
    from orcas.minio.notify import Targets
    from orcas.settings.config import Settings

_PASSED_ON: Final = {"ignore_unknown_options": True, "allow_interspersed_args": False}

_USAGE: Final = (
    "Usage: orcas minio server [--address ADDRESS:PORT] [--console-address ADDRESS:PORT] [--certs-dir DIR] DIR"
)

# What users of MinIO have set, by the names of the settings that it became.
_CALLED: Final = {
    "buckets": "MINIO_DEFAULT_BUCKETS", "event_targets_file": "MINIO_NOTIFY", "master_key": "MINIO_KMS_SECRET_KEY",
    "root_access_key": "MINIO_ROOT_USER", "root_secret_key": "MINIO_ROOT_PASSWORD", "tls_cert_file": "--certs-dir",
}  # fmt: skip

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")

log = logging.getLogger("orcas.minio")

Command = Annotated[list[str] | None, typer.Argument(metavar="server [FLAGS] DIR", help="As those of `minio`.")]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(context_settings=_PASSED_ON)(minio)


def minio(command: Command = None) -> None:
    """Run the server in place of a MinIO server: with its command line, its variables and its ports.

    The keys are MINIO_ROOT_USER and MINIO_ROOT_PASSWORD. Flags and variables that have no effect here are named once at
    the start.

    Examples:

        orcas minio server /data

        orcas minio server /data --address :9000 --console-address :9001
    """
    words = command or []
    if words[:1] in (["--version"], ["-v"]):
        from orcas.cli.app import print_version

        print_version()
        return
    if words[:1] != ["server"]:
        raise UsageError(
            "Only `minio server` is here: `orcas --help` lists the other commands, and `mc` is a client of its own."
        )
    if set(words) & {"-h", "--help"}:
        sys.stdout.write(f"{_USAGE}\n")
        return
    _serve(words[1:])


def _serve(arguments: list[str]) -> None:
    from orcas.cli.server.serving import serve_command
    from orcas.minio.environment import PREFIX, wanted
    from orcas.settings.config import resolve, variables_of

    made = wanted(arguments, variables_of(PREFIX))
    if found := [*_made_beforehand(Path(str(made.settings["data"]))), *made.buckets]:
        made.settings["buckets"] = found
    with contextlib.ExitStack() as stack:
        if made.targets:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="orcas-minio-")))
            made.settings["event_targets_file"] = _write_targets(directory, made.targets)
        stack.enter_context(_in_words_of_minio(made.settings))
        resolved = resolve(made.settings)
        serve_command(resolved, then=lambda url: _tell(made, resolved.settings, url))


@contextlib.contextmanager
def _in_words_of_minio(given: dict[str, object]) -> Iterator[None]:
    """Let messages about settings name what somebody has given: MinIO's variables and flags."""
    from orcas.settings.config import variable_name

    try:
        yield
    except (ConfigurationError, UnavailableError) as error:
        text = re.sub(r"--port or --host\b|--port\b|--host\b", "--address", str(error)).replace(" with --data", "")
        # Nobody has written the file of targets.
        text = text.replace(f" in {given.get('event_targets_file')}", " of the MINIO_NOTIFY variables")
        for name, called in _CALLED.items():
            if name in given:
                text = re.sub(rf"{variable_name(name)}\b", called, text)
        error.args = (text,)
        raise


def _made_beforehand(place: Path) -> list[str]:
    """The buckets that an entry point has made as directories, as in `mkdir -p /data/photos && minio server /data`.

    Only of a directory that has nothing else, so that there is no store yet; they give way to it.
    """
    try:
        found = sorted(place.iterdir())
        if all(each.is_dir() and _BUCKET.fullmatch(each.name) and not any(each.iterdir()) for each in found):
            for each in found:
                each.rmdir()
            return [each.name for each in found]
    except OSError:
        # Whatever it is, the start says it.
        pass
    return []


def _write_targets(directory: Path, targets: Targets) -> Path:
    from orcas.settings.config import set_by_variables

    if "event_targets_file" in set_by_variables():
        raise ConfigurationError(
            "ORCAS_EVENT_TARGETS_FILE and MINIO_NOTIFY variables are both set: set only one of them."
        )
    lines = []
    for name, table in targets.items():
        # Strings, lists and booleans of JSON are those of TOML.
        lines += [f"[{json.dumps(name)}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    path = directory / "targets.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _tell(made: Wanted, settings: Settings, url: str) -> None:
    """Say what people and scripts look for in the output of MinIO, and what has no effect."""
    sys.stdout.write(f"API: {url}\n")
    if settings.console:
        place, port = url, settings.console_port
        if port is not None:
            place = f"{url.rpartition(':')[0]}:{port}"
        sys.stdout.write(f"WebUI: {place}{'' if port is not None else '/_orcas/console/'}\n")
    sys.stdout.flush()
    if made.unused:
        log.warning("Without effect here: %s", ", ".join(dict.fromkeys(made.unused)))
    if made.has_default_keys:
        log.warning("The keys are the published ones of MinIO: set MINIO_ROOT_USER and MINIO_ROOT_PASSWORD")
