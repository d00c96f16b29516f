"""What the open store of a follower shows: as much as an owner has shown, and to whom.

Invariants. Records are shown up to the last one that an owner has shown, and not beyond. A start, a new index, and a log
whose owner is gone may show more; then reads are not answered here before an owner has shown that, or with all of the log
while none can answer. What is said to be shown includes the identities and the keyring of that place in the log.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from orcas.cluster.small import small_folder
from orcas.control.copied import load_identities
from orcas.control.files import DATABASE_NAME, KEY_NAME, ROOT_NAME
from orcas.engine import StoreError, closed_sealer, follow, reopen_keyring, replace_identities, shows_all
from orcas.errors import OrcasError

if TYPE_CHECKING:
    from orcas.engine import ClusterNode, ClusterStep, Core
    from orcas.settings.config import Settings

_IDENTITIES: Final = frozenset({ROOT_NAME, DATABASE_NAME, KEY_NAME})
# Files, ends of files, and holes; and files that are there anew.
_GivenUp = tuple[list[str], list[tuple[str, int]], list[tuple[str, int, int]], list[str]]

log = logging.getLogger("orcas")


class View:
    """That of one role; used by its thread."""

    def __init__(self, settings: Settings, core: Core, node: ClusterNode) -> None:
        self._settings, self._core, self._node = settings, core, node
        self._shown = core.published_sequence()
        # The last record that an owner has shown.
        self._known = 0
        # What owners have given up, the oldest first. It may be needed up to the record that an owner shows for the second
        # time after a step that has brought it: one that it noted before may have been found out before, too.
        self._given_up: list[_GivenUp] = [_nothing(), _nothing(), _nothing()]
        # Whether other identities sign than those of the last place in the log.
        self.is_stale, self._has_new_keys = True, False
        self._is_told = False
        # Buckets with an origin.
        self.pulled: list[str] = []

    def take(self, brought: ClusterStep) -> None:
        """Take what a step has brought."""
        (files, ends, holes, _), new = self._given_up[-1], brought["given_up"]
        for name in new[3]:
            for each in self._given_up:
                each[0][:] = [file for file in each[0] if file != name]
                each[1][:] = [end for end in each[1] if end[0] != name]
                each[2][:] = [hole for hole in each[2] if hole[0] != name]
        files += new[0]
        ends += new[1]
        holes += new[2]
        # With the next call, before anything is given up.
        self._given_up[0][3].extend(new[3])
        self._has_new_keys |= brought["keys"]
        self.is_stale |= brought["keys"] or not _IDENTITIES.isdisjoint(brought["small"])

    def load(self) -> bool:
        """Use the keyring and the identities of the log, if they have changed. Whether that was done. Blocks."""
        if not self.is_stale:
            return False
        try:
            if self._has_new_keys:
                reopen_keyring(self._core, self._settings)
            loaded = asyncio.run(load_identities(small_folder(self._settings.data), closed_sealer(self._settings)))
            replace_identities(self._core, loaded.snapshot)
        except (OrcasError, StoreError, ValueError) as error:
            if not self._is_told:
                log.warning("Reads go to the owner of the log: its identities and keys cannot be used: %s", error)
            self._is_told = True
            return False
        self._core.use_session_keys(loaded.session_keys)
        self.pulled = loaded.pulled
        self._is_told = self.is_stale = self._has_new_keys = False
        return True

    def show(self, known: int) -> None:
        """Show records up to this one, which an owner has shown. Blocks.

        Raises:
            UnavailableError: the index cannot follow.
        """
        oldest, *later = self._given_up
        self._known = max(self._known, known)
        if self._known > self._shown or any(oldest):
            self._shown = follow(self._core, *oldest, until=self._known)
        self._given_up = [*later, _nothing()]

    def is_known(self) -> bool:
        """Whether this shows everything that was applied, and an owner has shown as much. Blocks. Raises as of `show`."""
        if self._known > self._shown:
            self._shown = follow(self._core, [], anew=self._given_up[0][3], until=self._known)
        return self._shown <= self._known and shows_all(self._core)

    def show_all(self) -> None:
        """Show everything that was applied: no owner can show less. Blocks. Raises as of `show`."""
        self._shown = follow(self._core, *self.rest())
        self._given_up = [_nothing(), _nothing(), _nothing()]

    def rest(self) -> _GivenUp:
        """What owners have given up and this node has not."""
        files, ends, holes, anew = _nothing()
        for each in self._given_up:
            files += each[0]
            ends += each[1]
            holes += each[2]
            anew += each[3]
        return files, ends, holes, anew

    def tell(self, term: int, position: int, ended: tuple[int, bool]) -> None:
        """Let reads know what is shown, with all entries of the log before `position`."""
        self._node.show(None if self.is_stale else (term, self._shown, position), self._known, ended)


def _nothing() -> _GivenUp:
    return [], [], [], []
