"""Options that several commands share.

Values stay text here. `orcas.settings.config` checks them, so a mistake gets the same message wherever the value comes from.
"""

from __future__ import annotations

from typing import Annotated

import typer

Data = Annotated[str | None, typer.Option("--data", metavar="DIR", help="Data directory of the store.")]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[
    str | None, typer.Option("--port", "-p", metavar="PORT", help="Port to listen on; 0 picks a free one.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
