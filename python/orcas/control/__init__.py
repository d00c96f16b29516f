"""The data of the control plane: identities, access keys and usage.

`prepared` takes the control lock of the data directory, and `open_control` opens `control.db`; `Control.load_snapshot`
returns what requests need of it as an immutable `IdentitySnapshot`. Sole user of aiosqlite. Must not know HTTP, S3
operations or the engine.
"""
