"""How a process that cannot continue ends: one sentence on stderr and an exit code, whatever the exception was.

The message of an OrcasError is printed as it is. Any other exception is a defect or a failure of the system: it also becomes
one sentence, and the traceback is printed only at log level `debug`. With --json, the sentence is in one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import traceback
from typing import Final

from orcas.errors import InstallationError, OrcasError, because
from orcas.settings.config import resolve
from orcas.telemetry.logs import redact, visible

EXIT_FAILED: Final = 1
# `orcas policy explain`: the request is not allowed.
EXIT_NOT_ALLOWED: Final = 3
# `orcas status`: no server has the store open.
EXIT_NOT_RUNNING: Final = 3
# `orcas probe`: the store does not keep a promise.
EXIT_NOT_KEPT: Final = 3
# The exit codes that a shell reports for a command that does not exist, for SIGINT and for SIGPIPE.
EXIT_NOT_FOUND: Final = 127
EXIT_INTERRUPTED: Final = 130
EXIT_UNREAD: Final = 141


def explain(error: BaseException, what: str, *, as_json: bool = False) -> int:
    """Print on stderr why `what` ended, and return the exit code. As JSON, it has the form of errors of the admin API."""
    if isinstance(error, ImportError) and not isinstance(error, OrcasError):
        error = InstallationError(error)
    if isinstance(error, OrcasError):
        _say(str(error), error.code, as_json)
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        _say("interrupted: run the command again.", "Interrupted", as_json)
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader has closed the pipe. Flushing the rest at exit must not fail again.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNREAD
    if isinstance(error, MemoryError):
        _say(f"{what} ran out of memory: give it more.", "OutOfMemory", as_json)
        return EXIT_FAILED
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        _say(f"{what} failed: {place}{_in_one_line(because(error))}.{_where()}", OrcasError.code, as_json)
    else:
        reason = _in_one_line(str(error))
        sentence = f"{what} failed unexpectedly: {type(error).__name__}{f': {reason}' if reason else ''}.{_where()}"
        _say(sentence, "InternalError", as_json)
    if _debugging():
        _write(redact("".join(traceback.format_exception(error))))
    return EXIT_FAILED


def _in_one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def _where() -> str:
    return "" if _debugging() else " With ORCAS_LOG_LEVEL=debug the log on stderr has the traceback."


def _debugging() -> bool:
    if logging.root.isEnabledFor(logging.DEBUG):
        return True
    # The log may not have been set up yet, and settings may be what is wrong.
    with contextlib.suppress(Exception):
        return resolve().settings.log_level == "debug"
    return False


def _say(sentence: str, code: str, as_json: bool) -> None:
    if as_json:
        _write(json.dumps({"error": {"code": code, "message": redact(sentence)}}) + "\n")
        return
    # It may have names that clients chose.
    text = "\n".join(map(visible, redact(sentence).split("\n")))
    _write(f"orcas: {text}\n")


def _write(text: str) -> None:
    # If stderr is closed or full, there is no other place for the message.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
