"""A node measures how well it suits as the owner of the log, and asks for the log if it suits much better.

The owner's measurements go with its messages, so that followers know its score; theirs nobody needs to know. To ask is what
`orcas cluster move` does. Must not take the log.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from orcas.cluster.score import Pace, Wish, load_of_machine
from orcas.engine import StoreError
from orcas.errors import OrcasError

if TYPE_CHECKING:
    from orcas.cluster.member import Member, Owner

_ASK_SECONDS: Final = 5
PACE = Pace()

log = logging.getLogger("orcas")


@contextlib.contextmanager
def measuring(member: Member, *, asks: bool) -> Iterator[None]:
    """Measure while this is entered, in every role. `asks`: for the log, if this node suits much better."""
    stop = threading.Event()
    thread = threading.Thread(target=_run, args=(member, stop), kwargs={"asks": asks}, name="orcas-score", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _run(member: Member, stop: threading.Event, *, asks: bool) -> None:
    wish = Wish(PACE, time.monotonic)
    while True:
        try:
            latency_ms: float | None = member.node.latency() * 1e3
        except StoreError:
            # Whoever follows or owns the log says so.
            latency_ms = None
        member.measured.add(load_of_machine(), latency_ms)
        owner, keys = member.owner, member.keys
        if asks and owner is not None and keys is not None and not member.owns:
            mine = round(member.measured.score(), 2)
            owners = None if owner.released else owner.score
            if wish.look(owner.term, mine, owners, is_complete=member.is_complete()):
                _ask(member, owner, keys, mine)
        if stop.wait(PACE.measure_sec):
            return


def _ask(member: Member, owner: Owner, keys: tuple[str, str], mine: float) -> None:
    """Ask the owner to give the log to this node."""
    from orcas.tools.session import HttpTransport, Session

    log.info("This node suits better as the owner of the log and asks for it: score %s, not %s", mine, owner.score)
    transport = HttpTransport(owner.url)
    transport.silence_seconds_max = _ASK_SECONDS
    try:
        with contextlib.closing(Session(transport, keys, member.region)) as session:
            session.admin("POST", "cluster/move", {"to": member.name})
    except OrcasError as error:
        log.warning("The owner did not give the log to this node, which suits better: %s", error)
