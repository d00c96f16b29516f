"""Commands for the keyring: key create, list, rotate, disable, enable, destroy, cancel, accept-older and set-master."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from orcas.cli.options import AsJson, Commands, Data, Where
from orcas.cli.output import print_found, tell
from orcas.cli.store.upkeep import ask, settings_of
from orcas.errors import ConfigurationError, OrcasError, UsageError
from orcas.settings.values import SCRYPT_N

key_app = Commands(help="Keys of the keyring: create, list, rotate, disable and destroy them.")

_DEFAULT: Final = "orcas/s3"

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name or id of the key.")]


@key_app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, slashes, underscores and hyphens.")] = (
        _DEFAULT
    ),
    *,
    where: Where,
) -> None:
    """Create the key NAME (default: orcas/s3). If the store has no keyring yet, one is created, with the key orcas/s3.

    The master key is taken from ORCAS_MASTER_KEY or ORCAS_MASTER_PASSPHRASE, or the same names with _FILE.

    Example:

        orcas key create reports
    """
    from orcas.control.files import KEYRING_NAMES
    from orcas.tools.reach import reached

    settings = settings_of(where.data)
    given = settings.master_key is not None or settings.master_passphrase is not None
    had_keyring = any((settings.data / file).exists() for file in KEYRING_NAMES)
    with reached(settings, where.endpoint, keyring_required=given) as session:
        # A keyring that was created just now has it already.
        if not (name == _DEFAULT and given and not had_keyring and not session.is_remote):
            session.admin("POST", "keys", {"name": name})
    tell({"key": name}, f"key {name} created", where.as_json)


@key_app.command("list")
def list_keys(*, where: Where) -> None:
    """List the keys, including destroyed ones.

    Example:

        orcas key list
    """
    found = ask(where, "GET", "keys")
    rows = [
        (key["name"], key["state"], key["versions"], key["created"], key["destruction"] or "", key["id"])
        for key in found["keys"]
    ]
    print_found(found, where.as_json, ("Key", "State", "Versions", "Created", "Destruction", "Id"), rows)


@key_app.command()
def rotate(name: Name, *, where: Where) -> None:
    """Add a version to a key, and wrap its data keys again. No content is rewritten.

    Example:

        orcas key rotate orcas/s3
    """
    _act("rotate", name, where)
    tell({"key": name}, f"key {name} rotated", where.as_json)


@key_app.command()
def disable(name: Name, *, where: Where) -> None:
    """Stop using a key. Content that needs it can be neither read nor written until the key is enabled again.

    Example:

        orcas key disable reports
    """
    _act("disable", name, where)
    tell({"key": name}, f"key {name} disabled", where.as_json)


@key_app.command()
def enable(name: Name, *, where: Where) -> None:
    """Use a disabled key again.

    Example:

        orcas key enable reports
    """
    _act("enable", name, where)
    tell({"key": name}, f"key {name} enabled", where.as_json)


@key_app.command()
def destroy(
    name: Name,
    after: Annotated[int, typer.Option("--after", metavar="DAYS", help="Days to wait first: 7 to 30.")] = 7,
    now: Annotated[bool, typer.Option("--now", help="Destroy it at once. This cannot be undone.")] = False,
    lose_content: Annotated[
        bool, typer.Option("--lose-content", help="Destroy it even if content needs it, which is then lost.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    *,
    where: Where,
) -> None:
    """Destroy a key after a waiting period. Until then it is not used, and `orcas key cancel` keeps it.

    Content that needs the key is then lost for good. Old backups still have the key, and open with the master key.

    Example:

        orcas key destroy reports --after 30
    """
    if not now and not 7 <= after <= 30:
        raise UsageError(f"--after must be from 7 to 30 days, not {after}; --now destroys the key at once.")
    when = "now" if now else f"in {after} days"
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("Destroying a key needs a confirmation: use a terminal, or --yes.")
        if not typer.confirm(f"Destroy the key {name} {when}? Content that needs it is lost then.", err=True):
            raise OrcasError(f"The key {name} is kept: answer y to destroy it.")
    _act("destroy", name, where, {"days": 0 if now else after, "lose_content": lose_content})
    done = f"key {name} is destroyed" if now else f"key {name} will be destroyed {when}"
    tell({"key": name, "days": 0 if now else after}, done, where.as_json)


@key_app.command()
def cancel(name: Name, *, where: Where) -> None:
    """Cancel the destruction of a key. The key is then disabled.

    Example:

        orcas key cancel reports
    """
    _act("cancel", name, where)
    tell({"key": name}, f"key {name} is kept, and disabled", where.as_json)


@key_app.command("accept-older")
def accept_older(*, where: Where) -> None:
    """Use an older keyring that was put back, if no newer copy can be restored.

    Before that, only content whose keys it has can be read, and nothing can be encrypted or changed. Content under keys
    of newer copies stays unreadable.

    Example:

        orcas key accept-older
    """
    ask(where, "POST", "keys/accept-older")
    tell({}, "the older keyring was accepted: newer copies are no longer valid", where.as_json)


@key_app.command("set-master")
def set_master(
    key_file: Annotated[
        Path | None, typer.Option("--key-file", metavar="FILE", help="File with the new master key, in base64.")
    ] = None,
    passphrase_file: Annotated[
        Path | None, typer.Option("--passphrase-file", metavar="FILE", help="File with the new passphrase.")
    ] = None,
    scrypt_n: Annotated[
        int | None,
        typer.Option(
            "--scrypt-n",
            metavar="N",
            help="Cost of guessing the passphrase, and of a start: 32768 (default) to 1048576.",
        ),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Change the master key. The keyring is sealed again under the new one; no content is rewritten.

    The current master key comes from the settings or from the running server. Change the settings afterwards: the next
    start needs the new master key. Earlier backups still need the old one.

    Example:

        openssl rand -base64 32 > new.key; orcas key set-master --key-file new.key
    """
    if (key_file is None) == (passphrase_file is None):
        raise UsageError("There must be one new secret: give --key-file or --passphrase-file.")
    if scrypt_n is not None and (passphrase_file is None or scrypt_n not in SCRYPT_N):
        raise UsageError("--scrypt-n must be a power of two from 32768 to 1048576, and needs --passphrase-file.")
    path = key_file or passphrase_file
    assert path is not None
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}; name a file that this user can read.") from None
    order: dict[str, Any] = {"passphrase" if key_file is None else "key": secret}
    ask(Where(data), "PUT", "keys/master", order | ({} if scrypt_n is None else {"scrypt_n": scrypt_n}))
    tell({}, "master key changed: the next start needs the new one", as_json)


def _act(action: str, name: str, where: Where, more: dict[str, Any] | None = None) -> None:
    ask(where, "POST", "keys/action", {"key": name, "action": action, **(more or {})})


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(key_app, name="key")
