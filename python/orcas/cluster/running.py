"""A node at work: one role after the other, each an application of its own behind the same sockets."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from orcas.cluster.choosing import measuring
from orcas.cluster.leaving import is_node
from orcas.cluster.member import Member
from orcas.cluster.promises import check_promises, has_bucket
from orcas.control.files import NODE_FOLDER, InUseError, is_running, locked
from orcas.errors import OrcasError
from orcas.serving.serve import bound, listening, run
from orcas.settings.config import Settings

if TYPE_CHECKING:
    from orcas.control.files.address import Address
    from orcas.serving.app import OpenStore, Orcas
    from orcas.serving.serve import Announce

log = logging.getLogger("orcas")


def run_node(make: Callable[[Member], Orcas], settings: Settings, announce: Announce) -> None:
    """Serve as a node of a cluster until SIGTERM or SIGINT.

    `make` makes the application of a role. `announce` is told when this node first takes requests.

    Raises:
        OrcasError: the node cannot start, or cannot go on.
    """
    if is_running(settings.data):
        # A node that starts anew takes the log from what it was before.
        raise InUseError(settings.data)
    member = Member(settings)
    if (warning := member.node.warning()) is not None:
        log.warning("The store of the log of the cluster is not as safe as it can be: %s", warning)
    if has_bucket(settings) and not is_node(settings.data):
        # A node that has served may have to go on; its owner says it every hour.
        check_promises(settings)
    announced = False

    def announce_once(address: Address, store: OpenStore) -> None:
        nonlocal announced
        if not announced:
            announced = True
            announce(address, store)

    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(settings.data / NODE_FOLDER))
        stack.enter_context(measuring(member, asks=settings.cluster_move_by_score))
        sockets = [stack.enter_context(bound(settings.host, port)) for port in listening(settings)]
        stopped = False
        while not stopped:
            member.prepare()
            try:
                # Clients that come between two roles wait.
                stopped = run(make(member), announce_once, [each.dup() for each in sockets])
            except OrcasError:
                if member.node.over() is None:
                    raise
                # What it had not acknowledged yet, the next owner knows.
                log.warning("The store was closed when this node had lost the log")
            member.ended(stopped=stopped)
