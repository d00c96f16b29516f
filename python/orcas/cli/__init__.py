"""The `orcas` command: arguments in, one module per command, an exit code out.

Exit codes: 0 done, 1 failed, 2 wrong usage, 69 address or store cannot be had, 78 a setting is wrong. A failure that
Orcas can explain is one sentence on stderr. Everything but this module is imported by the command that needs it.
"""

from __future__ import annotations

import sys

from orcas.errors import OrcasError


def main() -> None:
    """Entry point of the `orcas` script."""
    if sys.platform == "win32":
        sys.exit("orcas: Windows is not supported: run Orcas on Linux, on macOS, or in WSL.")
    from orcas.cli.commands import app

    try:
        app()
    except OrcasError as error:
        print(f"orcas: {error}", file=sys.stderr)  # noqa: T201 - this is the command's output
        sys.exit(error.exit_code)
