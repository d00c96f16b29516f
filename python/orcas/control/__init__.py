"""The data of the control plane: identities, access keys and the configuration documents of buckets.

`open_control` takes the control lock of the data directory, then opens `control.db`; `Control.load_snapshot` returns what
requests need of it as an immutable `Snapshot`. Sole user of aiosqlite. Must not know HTTP, S3 operations or the engine.
"""

from orcas.control.salvage import salvaged_root
from orcas.control.snapshot import Credential, Snapshot
from orcas.control.store import Control, open_control

__all__ = ["Control", "Credential", "Snapshot", "open_control", "salvaged_root"]
