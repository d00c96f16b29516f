"""Init scripts: those of a stage run one after the other, in the order of their names.

They run as the user of the server, with variables that let AWS's clients find it. One that fails ends neither the others
nor the server.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orcas.settings.config import child_environment

STAGES: Final = ("BOOT", "START", "READY", "SHUTDOWN")
_SUFFIXES: Final = (".sh", ".py")

log = logging.getLogger("orcas.localstack")


@dataclass(slots=True)
class _Script:
    path: Path
    stage: str
    state: str = "UNKNOWN"


class InitScripts:
    """The scripts below a directory, and how far they are. Any thread may ask."""

    def __init__(self, directory: Path) -> None:
        self._lock = threading.Lock()
        self._completed = dict.fromkeys(STAGES, False)
        self._scripts = [script for stage in STAGES for script in _found(directory / f"{stage.lower()}.d", stage)]
        self._running: subprocess.Popen[bytes] | None = None
        self._ended = False

    def run(self, stage: str, environment: Mapping[str, str], seconds: float | None = None) -> None:
        """Run those of a stage. Blocks. What still runs after `seconds` is ended."""
        deadline = None if seconds is None else time.monotonic() + seconds
        for script in self._scripts:
            if script.stage == stage and not self._ended:
                self._run(script, environment, None if deadline is None else max(0.0, deadline - time.monotonic()))
        self._completed[stage] = True

    def end(self) -> None:
        """End the script that runs, because the server stops. No other begins."""
        with self._lock:
            self._ended = True
            if self._running is not None:
                self._running.terminate()

    def shown(self, stage: str | None = None) -> dict[str, Any]:
        """The document of LocalStack about all stages, or about one."""
        scripts = [
            {"stage": each.stage, "name": each.path.name, "state": each.state}
            for each in self._scripts
            if stage in (None, each.stage)
        ]
        completed: object = dict(self._completed) if stage is None else self._completed[stage]
        return {"completed": completed, "scripts": scripts}

    def _run(self, script: _Script, environment: Mapping[str, str], seconds: float | None) -> None:
        script.state = "RUNNING"
        command = [str(script.path)] if script.path.suffix == ".sh" else [sys.executable, str(script.path)]
        try:
            with self._lock:
                if self._ended:
                    return
                # What it prints is for whoever reads the output of the server.
                variables = {**child_environment(), **environment}
                self._running = subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL)
            code = self._running.wait(seconds)
            reason = f"it ended with code {code}"
        except subprocess.TimeoutExpired:
            self.end()
            code, reason = 1, "it took too long"
        except OSError as error:
            code, reason = 1, str(error)
        finally:
            self._running = None
        script.state = "ERROR" if code else "SUCCESSFUL"
        if code:
            log.error("The init script %s failed: %s", script.path, reason)


def _found(directory: Path, stage: str) -> list[_Script]:
    found = []
    try:
        home = directory.resolve()
        for path in sorted(directory.rglob("*")):
            # Kubernetes mounts files as links into a hidden directory beside them.
            hidden = any(part.startswith(".") for part in path.relative_to(directory).parts)
            if hidden or path.suffix not in _SUFFIXES or not path.is_file():
                continue
            if not path.resolve().is_relative_to(home):
                log.error("The init script %s leads out of its directory, and is left out", path)
                continue
            found.append(_Script(path, stage))
    except OSError as error:
        log.error("The init scripts in %s cannot be read: %s", directory, error)
    return found
