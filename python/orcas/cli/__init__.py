"""The `orcas` command: arguments in, an exit code out.

Exit codes: 0 done, 1 failed, 2 wrong usage, 69 address or store cannot be had, 78 a setting is wrong, 130 interrupted,
141 nobody reads the output. Every other code than 0 and 141 comes with one sentence on stderr. Each command imports what
it needs, so that none waits for another's.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from orcas.process.failures import EXIT_INTERRUPTED, explain


def main() -> None:
    """Entry point of the `orcas` script."""
    if sys.platform == "win32":
        sys.exit("orcas: Windows is not supported: run Orcas on Linux, on macOS, or in WSL.")
    _open_standard_streams()
    sys.exit(run(sys.argv[1:]))


def _open_standard_streams() -> None:
    """Let what the caller closed lead nowhere.

    The next file to be opened would get its number, and a log line or a panic would be written into a store.
    """
    for number in range(3):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for good
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for good


def run(arguments: list[str]) -> int:
    """Run one command; the exit code. Whatever ends it is explained on stderr."""
    what = arguments[0] if arguments else "the command"
    try:
        code = _run(arguments)
        # Here a full disk or a reader that has gone is still a failure of the command.
        sys.stdout.flush()
    except SystemExit as end:
        # typer ends so by itself where nobody reads stdout, and after completions.
        if isinstance(end.__context__, BrokenPipeError):
            return explain(end.__context__, what)
        return end.code if isinstance(end.code, int) else 0
    except BaseException as error:  # noqa: BLE001 - a panic of Rust is no Exception
        return explain(error, what)
    if code == EXIT_INTERRUPTED:
        return explain(KeyboardInterrupt(), what)
    return code


def _run(arguments: list[str]) -> int:
    import typer

    from orcas.cli.commands import app

    usage: type[Exception] = typer.BadParameter.__mro__[1]
    try:
        return app(arguments, standalone_mode=False) or 0
    except usage as error:
        return _explain_usage(error)


def _explain_usage(error: Exception) -> int:
    """What is wrong, and where the options are listed."""
    from orcas.errors import UsageError

    context = getattr(error, "ctx", None)
    # Making this one prints the help.
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write("orcas: a command is missing.\n")
        return UsageError.exit_code
    said = error.format_message() if hasattr(error, "format_message") else str(error)
    said = " ".join(said.split())
    path = context.command_path if context is not None else "orcas"
    stop = "" if said.endswith((".", "?")) else "."
    return explain(UsageError(f"{said}{stop} See `{path} --help`."), path)
