"""The data of the control plane: identities, access keys and usage.

`prepared` takes the control lock of the data directory, and `open_control` opens `control.db`; `Control.load_snapshot`
returns what requests need of it as an immutable `IdentitySnapshot`. Sole user of aiosqlite. Must not know HTTP, S3
operations or the engine.
"""

from orcas.control.identities.snapshot import Delta, IdentitySnapshot
from orcas.control.origins import Origin, ReplicationTarget
from orcas.control.salvage import salvaged, salvaged_root
from orcas.control.sealing import Sealer
from orcas.control.store import Control, knows_identity, open_control, prepared

__all__ = [
    "Control", "Delta", "IdentitySnapshot", "Origin", "ReplicationTarget", "Sealer", "knows_identity", "open_control",
    "prepared", "salvaged", "salvaged_root",
]  # fmt: skip
