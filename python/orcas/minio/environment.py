"""MinIO's command line and variables as settings of Orcas. Pure, except that files which they name are read.

Everything that is set is either translated, or named as without effect, or refused: what protects data or lets somebody in
must not go missing in silence.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from orcas.errors import ConfigurationError, UsageError, because
from orcas.minio.notify import PREFIX as NOTIFY
from orcas.minio.notify import Targets, targets_of
from orcas.settings.config import check_setting
from orcas.settings.values import boolean

PREFIX: Final = "MINIO_"
# Of a server that nobody has given any.
DEFAULT_KEY: Final = "minioadmin"
_PORT: Final = 9000
_SECRETS: Final = Path("/run/secrets")
_CERTIFICATES: Final = Path("~/.minio/certs")
_USER_MIN, _PASSWORD_MIN = 3, 8
# Flags without a value.
_SWITCHES: Final = ("quiet", "anonymous", "json", "log-compress", "no-compat", "strict-s3-compat", "insecure")
# Flags whose value is used.
_USED: Final = ("address", "console-address", "certs-dir")
# Flags with a value that has no effect here.
_UNUSED: Final = (
    "listeners", "shutdown-timeout", "idle-timeout", "read-header-timeout", "conn-user-timeout", "interface",
    "dns-cache-ttl", "max-idle-conns-per-host", "crossdomain-xml", "memlimit", "send-buf-size", "recv-buf-size",
    "log-dir", "log-size", "log-prefix", "config-dir", "C",
)  # fmt: skip
_REFUSED: Final = {
    "config": "a configuration in YAML is not read: use flags and variables",
    "ftp": "there is no FTP server: use an S3 client such as rclone",
    "sftp": "there is no SFTP server: use an S3 client such as rclone",
}
# Variables whose loss would leave data less protected than their owner believes.
_PROTECTING: Final = {
    "MINIO_KMS_KES_": "keys of KES are not used: set MINIO_KMS_SECRET_KEY, or ORCAS_MASTER_KEY",
    "MINIO_KMS_SERVER": "keys of a key server are not used: set MINIO_KMS_SECRET_KEY, or ORCAS_MASTER_KEY",
    "MINIO_WORM": "there is no mode in which nothing can be deleted: lock buckets instead (PutObjectLockConfiguration)",
    "MINIO_CERT_PASSWD": "encrypted keys of certificates are not read: decrypt the key with `openssl pkey`",
    "MINIO_POLICY_PLUGIN_URL": "access decisions are not left to another server: write policies (`orcas policy`)",
    "MINIO_POLICY_OPA_URL": "access decisions are not left to another server: write policies (`orcas policy`)",
}
# What follows a bucket of MINIO_DEFAULT_BUCKETS.
_ACCESS: Final = ("none", "download", "upload", "public")
_KEY: Final = re.compile(r"[A-Za-z0-9._-]+:[A-Za-z0-9+/]{43}=")


@dataclass(slots=True)
class Wanted:
    """What a command line and an environment ask for."""

    # By the names of `orcas.settings.config.Settings`; the data directory among them.
    settings: dict[str, object] = field(default_factory=dict)
    buckets: list[str] = field(default_factory=list)
    # Receivers of events, with their secrets.
    targets: Targets = field(default_factory=dict, repr=False)
    # Flags and variables without an effect here.
    unused: list[str] = field(default_factory=list)
    has_default_keys: bool = False


def wanted(arguments: list[str], environ: Mapping[str, str]) -> Wanted:
    """What `minio server ARGUMENTS` is to do with these variables.

    Raises:
        UsageError: the command line is wrong, or Orcas cannot do what it says.
        ConfigurationError: a variable is wrong, or Orcas cannot do what it says.
    """
    made = Wanted()
    flags, places = _parsed(arguments, made.unused)
    variables = _read(environ)
    variables.refuse()
    made.settings["data"] = _place(places or variables.words("MINIO_ARGS", "MINIO_VOLUMES", "MINIO_ENDPOINTS"))
    _listen(made, flags, variables)
    _certify(made, flags.get("certs-dir") or variables.take("MINIO_CERTS_DIR"))
    _root(made, variables)
    _keys(made, variables)
    if (region := variables.take("MINIO_SITE_REGION", "MINIO_REGION", "MINIO_REGION_NAME")) is not None:
        made.settings["region"] = check_setting("region", region, variables.taken)
    if (domain := variables.take("MINIO_DOMAIN")) is not None:
        made.settings["domains"] = check_setting("domains", domain, "MINIO_DOMAIN")
    if (browser := variables.flag("MINIO_BROWSER")) is not None:
        made.settings["console"] = browser
    kind = variables.take("MINIO_PROMETHEUS_AUTH_TYPE")
    if kind not in (None, "jwt", "public"):
        raise ConfigurationError(f"MINIO_PROMETHEUS_AUTH_TYPE must be jwt or public, not {kind!r}.")
    made.settings["metrics_public"] = kind == "public"
    if (buckets := variables.take("MINIO_DEFAULT_BUCKETS")) is not None:
        made.buckets = _buckets(buckets)
    made.targets, used = targets_of(variables.starting(NOTIFY))
    variables.take(*used)
    # As on MinIO, a policy of a bucket is all that is needed for strangers to read it.
    made.settings |= {"minio": True, "public_access": "open"}
    made.unused += variables.left()
    return made


def reached_by(environ: Mapping[str, str]) -> dict[str, object]:
    """The settings by which clients on this machine find a server with these variables: address, certificate, root key.

    Raises:
        ConfigurationError: a variable is wrong.
    """
    made, variables = Wanted(), _read(environ)
    _listen(made, {}, variables)
    _certify(made, variables.take("MINIO_CERTS_DIR"))
    _root(made, variables)
    return made.settings


def _read(environ: Mapping[str, str]) -> _Variables:
    known = dict(environ)
    if path := known.pop("MINIO_CONFIG_ENV_FILE", None):
        known |= _of_file(Path(path))
    return _Variables(known)


class _Variables:
    """Variables, each of which is to be taken."""

    def __init__(self, known: dict[str, str]) -> None:
        # An empty one is as none.
        self._left = {name: value for name, value in known.items() if value}
        # The one that had the last value.
        self.taken = ""

    def refuse(self) -> None:
        """Refuse what protects something and is not here."""
        for name in sorted(self._left):
            for prefix, why in _PROTECTING.items():
                if name.startswith(prefix) and self._left[name].lower() != "off":
                    raise ConfigurationError(f"{name} is set, but {why}.")

    def take(self, *names: str) -> str | None:
        """The value of the first that is set. All count as taken."""
        found: str | None = None
        for name in names:
            value = self._left.pop(name, None)
            if found is None and value is not None:
                found, self.taken = value, name
        return found

    def words(self, *names: str) -> list[str]:
        """The words of the first that is set."""
        return (self.take(*names) or "").split()

    def flag(self, name: str) -> bool | None:
        """The value of a switch."""
        value = self.take(name)
        try:
            return None if value is None else boolean(value)
        except TypeError:
            raise ConfigurationError(f"{name} must be on or off, not {value!r}.") from None

    def secret(self, name: str) -> str | None:
        """The value, or that of the file that the variable with _FILE names."""
        value, path = self.take(name), self.take(f"{name}_FILE")
        if value is not None or path is None:
            return value
        self.taken = name
        # A name alone is that of a secret of the container.
        place = Path(path) if Path(path).is_file() else _SECRETS / path
        try:
            return place.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{name}_FILE names {path}, which cannot be read: {error}.") from None

    def starting(self, prefix: str) -> dict[str, str]:
        """Variables whose names begin like this."""
        return {name: value for name, value in self._left.items() if name.startswith(prefix)}

    def left(self) -> list[str]:
        """Variables that nothing has taken, by name."""
        return sorted(self._left)


def _parsed(arguments: list[str], unused: list[str]) -> tuple[dict[str, str], list[str]]:
    """The flags that are used, and the other arguments."""
    flags: dict[str, str] = {}
    places: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument == "--":
            places.extend(left)
            break
        if not argument.startswith("-") or argument == "-":
            places.append(argument)
            continue
        name, given, value = argument.lstrip("-").partition("=")
        name = {"S": "certs-dir"}.get(name, name)
        if name in _REFUSED:
            raise UsageError(f"--{name}: {_REFUSED[name]}.")
        if name in _SWITCHES:
            unused.append(f"--{name}")
            continue
        if name not in (*_USED, *_UNUSED):
            raise UsageError(f"{argument} is not a flag of `minio server`.")
        if not given:
            value = next(left, "")
        if not value:
            raise UsageError(f"--{name} needs a value.")
        if name in _USED:
            flags[name] = value
        else:
            unused.append(f"--{name}")
    return flags, places


def _of_file(path: Path) -> dict[str, str]:
    """The variables of a file of lines `NAME=VALUE`, with or without `export` and quotes."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"MINIO_CONFIG_ENV_FILE names {path}, which cannot be read: {error}.") from None
    found: dict[str, str] = {}
    for line in lines:
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, given, value = text.partition("=")
        if not given:
            raise ConfigurationError(f"{path} has a line that is not NAME=VALUE: {line!r}.")
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        if name.startswith(PREFIX):
            found[name] = value
    return found


def _place(places: list[str]) -> str:
    if not places:
        raise UsageError("`minio server` needs the directory of the store: name it, as in `orcas minio server /data`.")
    if len(places) > 1 or "..." in places[0] or "://" in places[0]:
        raise UsageError(
            "Orcas keeps a store in one directory of one machine, and spreads it over no drives: name one directory, such "
            "as that of a RAID or ZFS volume."
        )
    place = Path(places[0])
    try:
        taken = (place / ".minio.sys").exists()
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be read: {because(error)}.") from None
    if taken:
        raise ConfigurationError(
            f"{place} has the files of a MinIO server, which Orcas does not touch: name an empty directory, and bring the "
            "objects over with `orcas import --minio-disk`."
        )
    return places[0]


def _listen(made: Wanted, flags: Mapping[str, str], variables: _Variables) -> None:
    address = flags.get("address") or variables.take("MINIO_ADDRESS") or f":{_PORT}"
    # Those of Bitnami's image.
    port = variables.take("MINIO_API_PORT_NUMBER")
    called = "--address" if "address" in flags and port is None else variables.taken
    host, made.settings["port"] = _address(address if port is None else f":{port}", called)
    # All addresses of both kinds, where the system has both.
    made.settings["host"] = host or ("::" if socket.has_dualstack_ipv6() else "0.0.0.0")  # noqa: S104 - as MinIO
    port = variables.take("MINIO_CONSOLE_PORT_NUMBER")
    console = flags.get("console-address") or variables.take("MINIO_CONSOLE_ADDRESS")
    if port is not None or console is not None:
        called = "--console-address" if "console-address" in flags else variables.taken
        given, number = _address(console or f":{port}", called)
        made.settings["console_port"] = check_setting("console_port", number, f"The port of {called}")
        if given not in ("", "0.0.0.0", "::", host):  # noqa: S104 - narrower ones alone are named
            # Both ports have the same addresses: the console is a page of the server.
            made.unused.append(f"the address {given} of --console-address")


def _address(text: str, called: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        if called.startswith("--"):
            raise UsageError(f"{text!r} is not an address: give ADDRESS:PORT or :PORT.")
        raise ConfigurationError(f"{called} must be ADDRESS:PORT or :PORT, not {text!r}.")
    return host.strip("[]"), int(port)


def _certify(made: Wanted, directory: str | None) -> None:
    place = (
        Path(directory) if directory else _CERTIFICATES.expanduser() if Path("~").expanduser() != Path("~") else None
    )
    if place is None or not place.is_dir():
        if directory:
            raise ConfigurationError(f"{directory} is not a directory: name that of the certificates.")
        return
    # The first is for clients that ask for none of the other hosts.
    pairs = [(each / "public.crt", each / "private.key") for each in (place, *sorted(place.iterdir()))]
    pairs = [pair for pair in pairs if pair[0].is_file() and pair[1].is_file()]
    if pairs:
        made.settings["tls_cert_file"] = [str(certificate) for certificate, _ in pairs]
        made.settings["tls_key_file"] = [str(key) for _, key in pairs]


def _root(made: Wanted, variables: _Variables) -> None:
    user = variables.secret("MINIO_ROOT_USER") or variables.secret("MINIO_ACCESS_KEY")
    called = variables.taken
    password = variables.secret("MINIO_ROOT_PASSWORD") or variables.secret("MINIO_SECRET_KEY")
    variables.take("MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", "MINIO_ACCESS_KEY_FILE", "MINIO_SECRET_KEY_FILE")
    if user is None and password is None:
        made.has_default_keys = True
        user = password = called = variables.taken = DEFAULT_KEY
    if user is None or password is None:
        raise ConfigurationError("MINIO_ROOT_USER and MINIO_ROOT_PASSWORD are one pair: set both or neither.")
    if len(user) < _USER_MIN or len(password) < _PASSWORD_MIN:
        raise ConfigurationError(
            f"MINIO_ROOT_USER needs at least {_USER_MIN} characters, and MINIO_ROOT_PASSWORD at least {_PASSWORD_MIN}."
        )
    made.settings["root_access_key"] = check_setting("root_access_key", user, called)
    made.settings["root_secret_key"] = check_setting("root_secret_key", password, variables.taken)


def kms_key(environ: Mapping[str, str]) -> str | None:
    """NAME:KEY of MinIO's KMS, if these variables have it.

    Raises:
        ConfigurationError: the value is wrong.
    """
    return _kms_key(_Variables(dict(environ)))


def _kms_key(variables: _Variables) -> str | None:
    given = variables.secret("MINIO_KMS_SECRET_KEY")
    if given is not None and not _KEY.fullmatch(given):
        raise ConfigurationError("MINIO_KMS_SECRET_KEY must be NAME:KEY, with a key of 32 bytes in base64.")
    return given


def _keys(made: Wanted, variables: _Variables) -> None:
    given = _kms_key(variables)
    if given is not None:
        key = given.partition(":")[2]
        made.settings["master_key"] = check_setting("master_key", key, "The key of MINIO_KMS_SECRET_KEY")
    if variables.flag("MINIO_KMS_AUTO_ENCRYPTION"):
        if given is None:
            raise ConfigurationError("MINIO_KMS_AUTO_ENCRYPTION needs a key: set MINIO_KMS_SECRET_KEY.")
        made.settings["encrypt_by_default"] = True


def _buckets(text: str) -> list[str]:
    """As `ORCAS_BUCKETS` has them."""
    found = []
    for word in re.split(r"[\s,;]+", text.strip(" ,;\t\n")):
        name, _, access = word.partition(":")
        if access not in ("", *_ACCESS):
            raise ConfigurationError(
                f"MINIO_DEFAULT_BUCKETS has {word!r}: behind a bucket stands one of {', '.join(_ACCESS)}."
            )
        found.append(name if access in ("", "none") else word)
    return found
