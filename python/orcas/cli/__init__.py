"""The `orcas` command: arguments in, an exit code out.

Exit codes: 0 success, 1 failure, 2 usage error, 69 address or store not available, 78 invalid configuration,
130 interrupted, 141 output pipe closed. With every code except 0 and 141, one sentence goes to stderr, with --json as JSON.
Each command imports only what it needs, so that none waits for the imports of another.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import Any, Final

from orcas.process.failures import EXIT_INTERRUPTED, explain

_SERVERS: Final = ("serve", "localstack", "minio")


def main() -> None:
    """Entry point of the `orcas` script."""
    if sys.platform == "win32":
        sys.exit("orcas: Windows is not supported: run Orcas on Linux, on macOS, or in WSL.")
    _open_standard_streams()
    sys.exit(run(sys.argv[1:]))


def _open_standard_streams() -> None:
    """Open /dev/null for each standard stream that the caller has closed.

    Otherwise the next opened file would get its number, and a log line or a panic message could end up in a store.
    """
    for number in range(3):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for good
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for good


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code. Every failure is explained on stderr."""
    what = arguments[0] if arguments else "the command"
    as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    try:
        code = _run(arguments, as_json)
        # Here a full disk or a closed pipe is still reported as a failure of the command.
        sys.stdout.flush()
    except SystemExit as end:
        # typer exits this way by itself if stdout is a closed pipe, and after completions.
        if isinstance(end.__context__, BrokenPipeError):
            return explain(end.__context__, what, as_json=as_json)
        return end.code if isinstance(end.code, int) else 0
    except BaseException as error:  # noqa: BLE001 - a panic of Rust is no Exception
        return explain(error, what, as_json=as_json)
    if code == EXIT_INTERRUPTED:
        return explain(KeyboardInterrupt(), what, as_json=as_json)
    return code


def _run(arguments: list[str], as_json: bool) -> int:
    import typer

    from orcas.cli.commands import app_with

    # The image of MinIO is told `server /data`.
    arguments = ["minio", *arguments] if arguments[:1] == ["server"] else arguments
    name = arguments[0] if arguments else ""
    if name in _SERVERS:
        # Imports allocate a lot and free little: collections would take a tenth of the start. The server turns them on.
        gc.disable()
    app = app_with(name)
    usage: type[Exception] = typer.BadParameter.__mro__[1]
    try:
        return app(arguments, standalone_mode=False) or 0
    except usage as error:
        return _explain_usage(error, as_json)


def _explain_usage(error: Exception, as_json: bool) -> int:
    """Explain a usage error and refer to the help."""
    from orcas.errors import UsageError

    context = getattr(error, "ctx", None)
    # Creating this exception has already printed the help.
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write("orcas: a command is missing: name one of those above.\n")
        return UsageError.exit_code
    said = _of_number(error) or (error.format_message() if hasattr(error, "format_message") else str(error))
    said = " ".join(said.split())
    path = context.command_path if context is not None else "orcas"
    stop = "" if said.endswith((".", "?")) else "."
    return explain(UsageError(f"{said}{stop} See `{path} --help`."), path, as_json=as_json)


def _of_number(error: Any) -> str | None:
    """What is wrong with a number, in the words of settings; None: it is something else, or of a typer without pydantic."""
    refused = getattr(error.__cause__, "errors", None)
    if refused is None or error.param is None:
        return None
    from orcas.settings.values import number_wanted

    option = error.param
    described = getattr(getattr(option, "type_descriptor", None), "parameter_info", None)
    wanted = number_wanted(refused()[0], getattr(described, "min", None), getattr(described, "max", None))
    called = max(option.opts, key=len) if option.param_type_name == "option" else option.make_metavar(error.ctx)
    return None if wanted is None else f"{called} must be {wanted}"
