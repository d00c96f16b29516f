"""`orcas compact --seal`: what is stored without encryption is sealed, and the result says what is left."""

from __future__ import annotations

from typing import Any

from orcas.cli.output import print_json, print_table, progress, size
from orcas.errors import ConfigurationError, OrcasError
from orcas.settings.config import Settings


def seal_stored(settings: Settings, endpoint: str | None, *, as_json: bool) -> None:
    """Seal what is stored, through the server that has the store open or in this process.

    Raises:
        ConfigurationError: there is no master key.
        OrcasError: something is left that is not sealed; the message says what.
    """
    from orcas.admin.tools import NO_MASTER_KEY
    from orcas.tools.reach import reached
    from orcas.tools.work import run_job

    given = settings.master_key is not None or settings.master_passphrase is not None

    def watch(state: dict[str, Any]) -> None:
        advance("rewriting files" if state["finishing"] else "sealing", state["stored_bytes"], 0)

    with reached(settings, endpoint, keyring_required=given) as session, progress(shown=not as_json) as advance:
        if not (session.is_remote or given):
            raise ConfigurationError(NO_MASTER_KEY)
        done = run_job(session, "seal", watch, {"seal": True}, path="compact")
    if as_json:
        print_json(done)
    else:
        left = done["left"]
        rows = [
            ("versions looked at", done["seen"]),
            ("versions sealed", done["versions"]),
            ("incomplete uploads sealed", done["uploads"]),
            ("bytes of their content", size(done["bytes"])),
            ("stored again", size(done["stored_bytes"])),
            ("contents and chunks not sealed", left["blobs"]),
            ("their bytes", size(left["bytes"])),
            ("incomplete uploads not sealed", left["uploads"]),
        ]
        print_table(("", "seal"), rows, right=1)
    if reasons := what_is_left(done):
        raise OrcasError(f"Not everything is sealed: {'; '.join(reasons)}: run the command again.")


def what_is_left(done: dict[str, Any]) -> list[str]:
    """Why something is not sealed, or may still be found in files."""
    left = done["left"]
    reasons = [
        (done["changed"], f"{done['changed']} keys and uploads kept changing"),
        (done["no_room"], f"there was no room for {done['no_room']} keys and uploads: free space on the disk"),
        (done["too_long"], f"{done['too_long']} versions and uploads are too long, or keys have too many versions"),
        (done["unreadable"], f"{done['unreadable']} versions and uploads cannot be read: run `orcas fsck`"),
        (left["uploads"], f"{left['uploads']} incomplete uploads are not sealed, perhaps new ones"),
        (
            left["blobs"],
            f"{left['blobs']} contents and chunks are not sealed, perhaps new ones: turn ORCAS_ENCRYPT_BY_DEFAULT on",
        ),
        (left["files"], "readers, a backup, damage or a lack of room kept files from being rewritten"),
        (left["index"], "the index could not be built anew"),
    ]
    return [reason for counts, reason in reasons if counts]
