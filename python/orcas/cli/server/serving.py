"""`orcas serve`: runs the server and reports to a person or a supervisor."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from orcas.cluster.running import run_node
from orcas.errors import UnavailableError, because
from orcas.process.descriptors import allow_files
from orcas.process.memory import private_directory
from orcas.serving.app import OpenStore, Orcas, open_store, orcas_of
from orcas.serving.serve import Announce, run
from orcas.settings.config import (
    DAY_SECONDS,
    DEV_SECRET_KEY,
    Resolved,
    Settings,
    has_tls,
    is_loopback,
    unlike_a_root_key,
    variables_named,
)
from orcas.telemetry import logs
from orcas.tools.salvage import in_words, readable_salvage, write_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from orcas.cluster.member import Member
    from orcas.control.files.address import Address
    from orcas.engine import SalvageReport

log = logging.getLogger("orcas")


def serve_command(
    resolved: Resolved,
    report: Path | None = None,
    then: Callable[[str], None] = lambda _: None,
    make: Callable[..., Orcas] = orcas_of,
) -> None:
    """Serve until a signal arrives. The ready line goes to stdout, everything else to stderr.

    `report`: the file to which the findings of a salvage are written. `then` gets the URL after the ready line.
    `make`: makes the application, with the arguments of `orcas_of`.

    Raises:
        OrcasError: the server cannot start.
    """

    settings = resolved.settings

    def announce(address: Address, store: OpenStore) -> None:
        url = address.url
        if store.salvage is not None:
            _tell_salvage(store.salvage, report)
        sys.stdout.write(f"orcas ready {url}\n")
        sys.stdout.flush()
        then(url)
        env = _env_command(settings, url)
        _tell_root_key(store, settings, env)
        if address.ca is not None:
            log.info("The certificate is for development; clients have to trust its CA, %s", address.ca)
        _warn(settings)
        if sys.stderr.isatty() and not settings.salvage:
            _tell_use(url, env)

    serve_with(resolved, announce, make=make)


def serve_with(
    resolved: Resolved, announce: Announce, *, owned: bool = False, make: Callable[..., Orcas] = orcas_of
) -> None:
    """Configure logging, create the directory of a store in memory, and run.

    `owned`: the server belongs to the program that started it. `make`: as of `serve_command`.
    """
    settings = resolved.settings
    logs.configure(settings.log_format, settings.log_level)
    # Everything created from here on, including the key files of the engine, is accessible only to its owner.
    os.umask(0o077)
    allow_files()
    with contextlib.ExitStack() as stack:
        if settings.memory:
            try:
                data = stack.enter_context(private_directory(owned=owned))
            except OSError as error:
                raise UnavailableError(
                    f"A directory for the store in memory cannot be created: {because(error)}."
                ) from None
            settings = dataclasses.replace(settings, data=data)
        if settings.cluster_log is None:
            run(make(settings, sources=resolved.sources), announce)
        else:
            run_node(functools.partial(_of_node, make, resolved), settings, announce)


def _of_node(make: Callable[..., Orcas], resolved: Resolved, member: Member) -> Orcas:
    opener = functools.partial(open_store, member=member)
    return make(resolved.settings, opener, sources=resolved.sources, member=member)


def _warn(settings: Settings) -> None:
    """Warn about settings whose consequences an operator may not know."""
    if settings.durability != "sync" and not settings.salvage:
        log.warning("Durability is %s: an acknowledged write may be lost in a crash", settings.durability)
    if settings.lifecycle_day_sec != DAY_SECONDS:
        log.warning("A day of lifecycle rules has %s seconds: objects expire early", settings.lifecycle_day_sec)
    if not is_loopback(settings.host) and not has_tls(settings):
        log.warning(
            "Listening on %s unencrypted: anyone who sees the traffic can read it and replay requests; "
            "ORCAS_TLS_CERT_FILE and ORCAS_TLS_KEY_FILE turn TLS on", settings.host,
        )  # fmt: skip
    if not settings.minio and variables_named(["MINIO_ROOT_USER"]):
        log.warning("MINIO_ROOT_USER has no effect on orcas serve: start orcas minio server DIR, which takes it")
    if settings.website_host is not None:
        log.warning("Websites are public: anyone who reaches %s can read those of all buckets", settings.website_host)


def _tell_salvage(found: SalvageReport, report: Path | None) -> None:
    document = readable_salvage(found)
    if report is not None:
        write_report(report, document)
    for line in in_words(document):
        log.warning("Salvage: %s", line)


def _tell_root_key(store: OpenStore, settings: Settings, env: str) -> None:
    """Say where to find the root key. Print the key itself only on a terminal, or if it is public anyway."""
    root = store.root
    if settings.dev and root.secret_key == DEV_SECRET_KEY:
        log.info("The keys are those of --dev: access key %s, secret key %s", root.access_key, root.secret_key)
        if (reason := unlike_a_root_key()) is not None:
            log.warning("The keys in the variables of AWS's clients are not used: %s", reason)
    elif settings.dev and root.path is None:
        log.info("The keys are those that clients have, access key %s", root.access_key)
    elif root.path is None and root.fresh:
        sys.stderr.write(
            "The root key of the store is lost. Until this server stops, use this one:\n"
            f"  access key  {root.access_key}\n"
            f"  secret key  {root.secret_key}\n"
        )
    elif root.path is None:
        log.info("The root key was set by the operator, access key %s", root.access_key)
    else:
        if root.fresh and sys.stderr.isatty():
            sys.stderr.write(
                f"A root key was generated and saved in {root.path}.\n"
                f"  access key  {root.access_key}\n"
                f"  secret key  {root.secret_key}\n"
            )
        else:
            log.info("The root key is in %s; %s prints it", root.path, env)


def _tell_use(url: str, env: str) -> None:
    """Tell a person what to do next."""
    sys.stderr.write(
        "\nIn another shell, type this, and the aws command, boto3 and every AWS SDK use this server:\n\n"
        f'  eval "$({env})"\n\n'
        f"{url}/ says more in a browser. `{_command()} --help` lists all commands. Ctrl-C stops the server.\n\n"
    )


def _env_command(settings: Settings, url: str) -> str:
    """The command that prints the address and the key of this server."""
    place = "--memory" if settings.memory else f"--data {shlex.quote(str(settings.data))}"
    # A salvage server publishes no address, and several servers may have stores in memory.
    port = f" --port {urlsplit(url).port}" if settings.memory or settings.salvage else ""
    return f"{_command()} env {place}{port}"


def _command() -> str:
    """The command to type for `orcas` in another shell, whatever its directory and PATH are."""
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m orcas"
    found = shutil.which("orcas")
    # The shell that activated a virtual environment is not the other one.
    if found is not None and (sys.prefix == sys.base_prefix or Path(found).parent != Path(sys.prefix) / "bin"):
        return "orcas"
    return shlex.quote(str(Path(sys.argv[0]).absolute()))
