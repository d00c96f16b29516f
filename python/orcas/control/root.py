"""The root identity: its id, and its key pair.

`root.json` in the data directory keeps the id for ever and, if the operator sets no pair, the generated key pair, sealed
if the store has a keyring. A pair that the operator sets is never written there; see `control.keys`. Its note of the
keyring tells a store that has lost its keyring from one that never had any, and `files` does so for other files. It is kept
twice (`twice.py`).
"""

from __future__ import annotations

import base64
import json
import logging
import re
import secrets
import string
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final

from orcas.control.files import ROOT_NAME
from orcas.control.files.twice import BothDamagedError, read_twice, secure, write_twice
from orcas.control.sealing import Sealer
from orcas.errors import UnavailableError

FILE_NAME: Final = ROOT_NAME
# What the sealed pair is bound to.
_NAME: Final = ROOT_NAME
_OWNER: Final = re.compile(r"[0-9a-f]{64}")
_ADVICE: Final = (
    "restore it from a backup, because it has the identity that owns the buckets, or serve the objects without it, with "
    "`orcas serve --salvage`."
)
# Held while the file is read and written again: the start of a server and its periodic tasks note generations in threads.
_NOTING: Final = Lock()

log = logging.getLogger("orcas")


@dataclass(slots=True)
class Root:
    """The root identity. `path` is the file with the pair, None for the operator's own; `fresh`: generated just now.

    The pair changes when it is replaced while the store is open.
    """

    owner: str
    access_key: str
    secret_key: str = field(repr=False)
    path: Path | None
    fresh: bool


def generated_pair(directory: Path, sealer: Sealer | None) -> tuple[str, str] | None:
    """The pair that was generated for the store of `directory`, if one was.

    Raises:
        UnavailableError: the file is damaged, or `sealer` does not open the pair.
    """
    path = directory / FILE_NAME
    content = _read(path)
    return None if content is None else _pair(path, _parse(path, content), sealer)


def has_sealed_pair(directory: Path) -> bool:
    """Whether the pair that was generated for the store of `directory` is sealed.

    Raises:
        UnavailableError: the file is damaged.
    """
    path = directory / FILE_NAME
    content = _read(path)
    return content is not None and "sealed" in _parse(path, content)


def ensure_owner(directory: Path, *, established: bool) -> str:
    """The id of the root identity of `directory`, made if it is missing. The caller holds the control lock.

    `established`: the store was used before, so a missing identity is an error.

    Raises:
        UnavailableError: the identity is lost or damaged, or cannot be written.
    """
    path = directory / FILE_NAME
    content = _read(path)
    if content is not None:
        return _parse(path, content)["owner"]
    if established:
        raise UnavailableError(f"{path} and its copy are missing: {_ADVICE}")
    owner = secrets.token_hex(32)
    _write(path, {"owner": owner})
    return owner


def ensure_root(directory: Path, access_key: str | None, secret_key: str | None, sealer: Sealer | None) -> Root:
    """The root identity of `directory`, which has an id. Generates the pair if there is none, and seals it with `sealer`.

    Raises:
        UnavailableError: the file is damaged or cannot be written, or `sealer` does not open the pair, which is needed.
    """
    path = directory / FILE_NAME
    document = _parse(path, _read(path) or b"")
    if access_key is not None and secret_key is not None:
        root = Root(document["owner"], access_key, secret_key, None, fresh=False)
    else:
        pair = _pair(path, document, sealer)
        root = Root(document["owner"], *(pair or fresh_pair()), path, fresh=pair is None)
        if root.fresh:
            _write(path, _with_pair(document, root.access_key, root.secret_key, sealer))
            return root
    secure(path)
    if sealer is not None and "access_key" in document:
        try:
            _write(path, _with_pair(document, document["access_key"], document["secret_key"], sealer))
            log.warning(
                "%s is sealed now, but its key pair is unchanged: anyone with an earlier copy, such as a backup, can sign "
                "in with it until it is replaced",
                FILE_NAME,
            )
        except UnavailableError as error:
            # The disk may be full. A start must succeed all the same.
            log.warning("%s is not sealed yet: %s", FILE_NAME, error)
    return root


def replace_pair(directory: Path, root: Root, sealer: Sealer | None) -> Root:
    """The root with a new pair, which is in the file for the next start. The caller holds the control lock.

    Raises:
        UnavailableError: the file is damaged or cannot be written.
    """
    path = directory / FILE_NAME
    pair = fresh_pair()
    with _NOTING:
        document = _parse(path, _read(path) or b"")
        document.pop("sealed", None)
        _write(path, _with_pair(document, *pair, sealer))
    return Root(root.owner, *pair, path, fresh=True)


def noted_keyring(directory: Path) -> int:
    """The newest generation of the keyring that a server of `directory` has met; 0 if the store never had one.

    Raises:
        UnavailableError: the file is damaged.
    """
    content = _read(directory / FILE_NAME)
    return 0 if content is None else int(_parse(directory / FILE_NAME, content).get("keyring", "0"))


def note_keyring(directory: Path, generation: int) -> None:
    """Note that the keyring has this generation, unless it has had a newer one. The caller holds the control lock.

    Raises:
        UnavailableError: the file is damaged, or cannot be written.
    """
    path = directory / FILE_NAME
    with _NOTING:
        content = _read(path)
        if content is not None and noted_keyring(directory) < generation:
            _write(path, _parse(path, content) | {"keyring": str(generation)})


def noted_files(directory: Path) -> frozenset[str]:
    """The names of files that the store of `directory` has had, as far as they were noted.

    Raises:
        UnavailableError: the file is damaged.
    """
    content = _read(directory / FILE_NAME)
    return (
        frozenset() if content is None else frozenset(_parse(directory / FILE_NAME, content).get("files", "").split())
    )


def note_files(directory: Path, there: Iterable[str] = (), gone: Iterable[str] = ()) -> None:
    """Note that the store has files, and that its operator has given others up. The caller holds the control lock.

    Raises:
        UnavailableError: the file is damaged, or cannot be written.
    """
    path = directory / FILE_NAME
    with _NOTING:
        content = _read(path)
        noted = noted_files(directory)
        names = noted.union(there).difference(gone)
        if content is None or names == noted:
            return
        document = {name: value for name, value in _parse(path, content).items() if name != "files"}
        _write(path, document | ({"files": " ".join(sorted(names))} if names else {}))


def fresh_pair() -> tuple[str, str]:
    """A new random access key and secret key."""
    alphabet = string.ascii_uppercase + string.digits
    return "ORCAS" + "".join(secrets.choice(alphabet) for _ in range(15)), fresh_secret()


def fresh_secret() -> str:
    """A new random secret key of 40 characters. The first is no dash, with which a command line has an option."""
    return secrets.choice(string.ascii_letters + string.digits) + secrets.token_urlsafe(30)[1:]


def ephemeral_root(owner: str) -> Root:
    """The root identity with a pair that nobody else knows, for a process that has the store to itself."""
    return Root(owner, *fresh_pair(), None, fresh=True)


def known_owner(directory: Path) -> str | None:
    """The id of the root identity, None if `root.json` is missing or damaged; for salvage."""
    path = directory / FILE_NAME
    try:
        content = _read(path)
        return None if content is None else _parse(path, content)["owner"]
    except UnavailableError:
        return None


def _read(path: Path) -> bytes | None:
    """As `read_twice`. Unlike other files, this one cannot be given up."""
    try:
        return read_twice(path)
    except BothDamagedError:
        raise UnavailableError(f"{path} and its copy are damaged: {_ADVICE}") from None


def _parse(path: Path, content: bytes) -> dict[str, str]:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if (
        not isinstance(document, dict)
        or not all(isinstance(value, str) and value for value in document.values())
        or not _OWNER.fullmatch(document.get("owner", ""))
        or ("access_key" in document) != ("secret_key" in document)
        or ("access_key" in document and "sealed" in document)
        or not re.fullmatch(r"[0-9]{1,20}", document.get("keyring", "0"), re.ASCII)
    ):
        raise UnavailableError(f"{path} is damaged: {_ADVICE}")
    return document


def _pair(path: Path, document: dict[str, str], sealer: Sealer | None) -> tuple[str, str] | None:
    if "sealed" not in document:
        return (document["access_key"], document["secret_key"]) if "access_key" in document else None
    try:
        opened = sealer and sealer.open(_NAME, base64.b64decode(document["sealed"], validate=True))
        access_key, secret_key = json.loads(opened or b"")
    except ValueError:
        raise UnavailableError(
            f"The root key in {path} is sealed under a key that the keyring lacks: restore a newer keyring, or set "
            "ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY."
        ) from None
    return access_key, secret_key


def _with_pair(document: dict[str, str], access_key: str, secret_key: str, sealer: Sealer | None) -> dict[str, str]:
    kept = {name: value for name, value in document.items() if name not in {"access_key", "secret_key"}}
    if sealer is None:
        return kept | {"access_key": access_key, "secret_key": secret_key}
    sealed = sealer.seal(_NAME, json.dumps([access_key, secret_key]).encode())
    return kept | {"sealed": base64.b64encode(sealed).decode()}


def _write(path: Path, document: dict[str, str]) -> None:
    write_twice(path, json.dumps(document, indent=2).encode() + b"\n")
