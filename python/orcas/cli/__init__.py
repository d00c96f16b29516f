"""The `orcas` command: arguments in, an exit code out.

Exit codes: 0 done, 1 failed, 2 wrong usage, 69 address or store cannot be had, 78 a setting is wrong. A failure that
Orcas can explain is one sentence on stderr. Each command imports what it needs, so that none waits for another's.
"""

from __future__ import annotations

import sys

from orcas.errors import OrcasError

EXIT_FAILED = 1


def main() -> None:
    """Entry point of the `orcas` script."""
    if sys.platform == "win32":
        sys.exit("orcas: Windows is not supported: run Orcas on Linux, on macOS, or in WSL.")
    from orcas.cli.commands import app

    try:
        app()
    except OrcasError as error:
        sys.stderr.write(f"orcas: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(EXIT_FAILED)
