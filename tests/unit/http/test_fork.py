"""A program that forks while it has a store open and serves it: the child can neither use what it inherits nor harm it."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from orcas.engine import Front

# Ends as any program does, so that all it has is dropped.
PROGRAM = """
    import json, os, socket, sys, threading
    from pathlib import Path
    from types import SimpleNamespace
    from orcas.control.identities.snapshot import IdentitySnapshot
    from orcas.engine import close_core, open_core
    from orcas.serving.front import start_front
    from orcas.settings.config import resolve
    from orcas.telemetry import diagnostics

    data = Path(sys.argv[1])
    tls = {"certificates": [], "client_ca": None}
    calls = {
        "stop": (0,), "under_way": (), "cut": (), "connections": (), "refusals": (), "set_origins": ([],), "passed": (),
        "use_tls": (tls,), "use_challenges": ([],), "hold": (True,), "be_owner": (), "set_owner": (None,),
    }
    settings = resolve({"data": str(data)}, ambient=False).settings
    core = open_core(settings, IdentitySnapshot.of_root("0" * 64))
    parts = SimpleNamespace(core=core, pulls=SimpleNamespace(buckets=[]), testing=None, member=None)
    listener, (way, application) = socket.create_server(("127.0.0.1", 0)), socket.socketpair()
    front = start_front(settings, SimpleNamespace(parts=parts), None, [listener], way)

    def said(call, arguments):
        try:
            return f"returned {call(*arguments)}"
        except OSError as error:
            return str(error)

    def log():
        with diagnostics._writing:
            writing.set()
            forked.wait()

    # At the fork, a thread writes to the log.
    writing, forked = threading.Event(), threading.Event()
    threading.Thread(target=log).start()
    writing.wait()
    if os.fork() == 0:
        refused = {name: said(getattr(front, name), arguments) for name, arguments in calls.items()}
        print(json.dumps(refused | {"close": said(core.close, ())}), flush=True)
        del core, front, parts
        sys.exit(7)
    forked.set()
    child = os.waitstatus_to_exitcode(os.wait()[1])
    print(json.dumps([child, (data / "store.closed").exists(), front.connections(), front.stop(0)]))
    close_core(core)
    print(json.dumps((data / "store.closed").exists()))
"""


def test_a_child_neither_uses_nor_closes_what_its_parent_serves(tmp_path: Path) -> None:
    program = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM), str(tmp_path / "data")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    refused, of_parent, closed = map(json.loads, done.stdout.splitlines())
    says = "the {} belongs to the process that has started it, not to its child"
    assert refused.pop("close") == says.format("store")
    assert set(refused) == {name for name in dir(Front) if not name.startswith("_")} - {"start", "check_tls"}
    assert set(refused.values()) == {says.format("listener")}
    # The child has ended by itself, and what it dropped is the parent's still.
    assert of_parent == [7, False, 0, [0, 0]]
    assert closed
