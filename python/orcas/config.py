"""Settings: what each one is called, means, defaults to and may be. Beside `orcas.clients` the only reader of `os.environ`.

A value comes from the command line, else from an `ORCAS_*` variable, else from an `orcas.toml` (the working directory's,
the user's, then the machine's), else from the default here; Rust and every other module take what stands in `Settings`
and have no defaults of their own. Whatever is wrong ends in a `ConfigurationError` of one sentence: an unknown name too,
because a misspelt durability setting must not be found out after a power cut. Must not know FastAPI, uvicorn or Rust.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from orcas.errors import ConfigurationError, UsageError

PREFIX: Final = "ORCAS_"
FILE_NAME: Final = "orcas.toml"
SYSTEM_FILE: Final = Path("/etc/orcas") / FILE_NAME
KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
TIB: Final = 1024 * GIB
_MEMORY_RESERVE: Final = 32 * MIB

# Fixed keys of `--dev`. Anybody can read them here, so config refuses them on any address but loopback.
DEV_ACCESS_KEY: Final = "orcas-dev-access-key"
DEV_SECRET_KEY: Final = "orcas-dev-secret-key"  # noqa: S105 - published on purpose, loopback only

DURABILITIES: Final = ("sync", "interval", "buffered", "unsafe-none")
_ACCESS_KEY: Final = re.compile(r"[A-Za-z0-9._+=@-]{3,128}")
_SECRET_KEY: Final = re.compile(r"[\x21-\x7e]{8,128}")
_REGION: Final = re.compile(r"[a-z0-9-]{1,64}")
# Variables that Kubernetes makes for a service called `orcas`. `ORCAS_PORT` is one too, but that is a setting.
_SERVICE_LINK: Final = re.compile(r"ORCAS_(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)")
# Likeness, from 0 to 1, of a name that may be meant. Below it, words that merely share letters pass for each other.
_SLIP: Final = 0.75
_DOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("text")
    return value


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError("a whole number")
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        raise TypeError("a whole number")
    return int(value)


def _number(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str) or not re.fullmatch(r"[+-]?[0-9]{1,12}(\.[0-9]{1,9})?", value):
        raise TypeError("a number")
    return float(value)


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else ""
    if word in {"true", "1", "yes", "on"}:
        return True
    if word in {"false", "0", "no", "off"}:
        return False
    raise TypeError("true or false")


def _directory(value: object) -> Path:
    if isinstance(value, Path):
        return value.expanduser()
    return Path(_text(value)).expanduser()


def _domains(value: object) -> tuple[str, ...]:
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise TypeError("a list of host names")
    names = tuple(dict.fromkeys(word.lower().rstrip(".") for word in words))
    for name in names:
        if not _DOMAIN.fullmatch(name):
            raise TypeError("a list of host names")
    return names


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one setting beside its value.

    `low` and `high` are inclusive bounds in `unit`. `variable` is False for what only the command line can ask for.
    """

    doc: str
    parse: Callable[[object], Any]
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    says: str = ""
    secret: bool = False
    variable: bool = True


def _setting(default: object, doc: str, parse: Callable[[object], Any], **facts: Any) -> Any:
    return field(
        default=default, metadata={"setting": Setting(doc, parse, **facts)}, repr=not facts.get("secret", False)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting, checked. Sizes are in bytes, times in the unit that ends the name."""

    data: Path = _setting(None, "directory that holds the store; `~` is expanded", _directory)
    host: str = _setting("127.0.0.1", "address or host name to listen on", _text)
    port: int = _setting(9000, "port to listen on; 0 picks a free one", _integer, low=0, high=65535)
    region: str = _setting(
        "us-east-1", "region of the store", _text, pattern=_REGION, says="lower-case letters, digits and hyphens"
    )
    strict_region: bool = _setting(False, "refuse signatures made for another region than `ORCAS_REGION`", _boolean)
    presign_v2: bool = _setting(
        True,
        "accept presigned URLs of Signature Version 2, which boto3 and the AWS command line make by default; "
        "with `ORCAS_STRICT_REGION` none is accepted, for they name no region",
        _boolean,
    )
    domains: tuple[str, ...] = _setting(
        (),
        "host names under which `BUCKET.NAME` addresses a bucket (virtual-hosted style), separated by commas",
        _domains,
    )
    root_access_key: str | None = _setting(
        None, "access key of the root identity; generated once when absent", _text,
        secret=True, pattern=_ACCESS_KEY, says="3 to 128 letters, digits or any of . _ + = @ -",
    )  # fmt: skip
    root_secret_key: str | None = _setting(
        None, "secret key of the root identity; generated once when absent", _text,
        secret=True, pattern=_SECRET_KEY, says="8 to 128 visible ASCII characters",
    )  # fmt: skip

    durability: str = _setting(
        "sync", "what an acknowledged write has survived; see the modes below", _text, choices=DURABILITIES
    )
    sync_interval_ms: int = _setting(
        50, "time between two syncs in `interval` mode", _integer, unit="milliseconds", low=1, high=60_000
    )
    batch_write_enabled: bool = _setting(
        True, "small objects share commits; without it each is written on its own, in `buffered` mode at once", _boolean
    )
    max_batch_write_file_size: int = _setting(
        64 * KIB, "objects up to this size share commits; larger ones are chunked", _integer,
        unit="bytes", low=0, high=MIB,
    )  # fmt: skip
    write_buffer_window_sec: float = _setting(
        10.0,
        "longest time a write waits for its flush in `buffered` mode",
        _number,
        unit="seconds",
        low=0.001,
        high=3600,
    )
    max_write_buffer_size: int = _setting(
        8 * MIB, "bytes a batch holds at most", _integer, unit="bytes", low=64 * KIB, high=GIB
    )
    max_write_buffer_count: int = _setting(
        2048, "objects a batch holds at most", _integer, unit="objects", low=1, high=1_000_000
    )
    chunk_size: int = _setting(
        4 * MIB,
        "length at which larger objects are cut into chunks",
        _integer,
        unit="bytes",
        low=64 * KIB,
        high=4 * MIB,
    )
    instant_upload_enabled: bool = _setting(True, "store identical content of one owner once", _boolean)
    ref_level: int = _setting(
        1,
        "how new content is looked up: 0 not at all, 1 always, 2 only when a filter over its beginning takes it for known",
        _integer, low=0, high=2,
    )  # fmt: skip
    reclaim_bytes_per_sec: int = _setting(
        100 * MIB, "bytes a second that reclamation in the background moves at most; 0 sets no bound", _integer,
        unit="bytes", low=0, high=16 * GIB,
    )  # fmt: skip
    scrub_bytes_per_sec: int = _setting(
        10 * MIB, "bytes a second that are read again to find damage early; 0 turns that off", _integer,
        unit="bytes", low=0, high=16 * GIB,
    )  # fmt: skip
    disk_reserve: int = _setting(
        256 * MIB,
        "free space of the disk under which nothing but reads and deletions is served; "
        "with `--memory` 32 MiB unless it is set",
        _integer, unit="bytes", low=0, high=16 * TIB,
    )  # fmt: skip
    db_max_open_conns: int = _setting(
        25, "read connections of the index open at once", _integer, unit="connections", low=1, high=1000
    )
    db_max_idle_conns: int = _setting(
        10, "read connections of the index kept while idle", _integer, unit="connections", low=0, high=1000
    )
    db_conn_max_lifetime_sec: int = _setting(
        3600,
        "age at which a read connection of the index is replaced",
        _integer,
        unit="seconds",
        low=1,
        high=31_536_000,
    )

    body_budget: int = _setting(
        64 * MIB,
        "memory that request bodies under way may take together; beside it, small bodies that have not come whole take at "
        "most half as much, and a large download two pieces of 512 KiB, or smaller ones, of 64 KiB at least, when there "
        "are many",
        _integer,
        unit="bytes",
        low=8 * MIB,
        high=16 * GIB,
    )
    pooling_enabled: bool = _setting(
        True,
        "use memory of bodies and documents, and read connections of the index, again; "
        "without it each is made when it is needed and given back at once",
        _boolean,
    )
    max_head_size: int = _setting(
        32 * KIB, "longest request head, request line included", _integer, unit="bytes", low=8 * KIB, high=256 * KIB
    )
    head_timeout_sec: int = _setting(
        10, "time in which a request head must arrive", _integer, unit="seconds", low=1, high=3600
    )
    body_timeout_sec: int = _setting(
        30, "time for which a body may stay below 1 KiB per second", _integer, unit="seconds", low=1, high=3600
    )
    idle_timeout_sec: int = _setting(
        60, "time after which an idle connection is closed", _integer, unit="seconds", low=1, high=3600
    )
    drain_timeout_sec: int = _setting(
        30, "time that requests under way get after SIGTERM", _integer, unit="seconds", low=0, high=3600
    )

    log_format: str = _setting(
        "auto", "form of the log on stderr; `auto` is `human` on a terminal and `json` elsewhere", _text,
        choices=("auto", "human", "json"),
    )  # fmt: skip
    log_level: str = _setting(
        "info", "least level that is logged", _text, choices=("debug", "info", "warning", "error")
    )

    memory: bool = _setting(
        False, "keep the store in a private directory that is removed at exit", _boolean, variable=False
    )
    salvage: bool = _setting(
        False, "read what is left of a damaged store, and change nothing", _boolean, variable=False
    )
    dev: bool = _setting(False, "fixed keys, loopback only, API documentation served", _boolean, variable=False)


# Options of `orcas serve` that are not called like their setting.
_OPTIONS: Final = {"domains": "domain"}
SETTINGS: Final[dict[str, Setting]] = {f.name: f.metadata["setting"] for f in dataclasses.fields(Settings)}


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings, and for each name where its value came from, in words for `orcas config show`."""

    settings: Settings
    sources: Mapping[str, str]


def variable_name(name: str) -> str:
    """The environment variable of a setting: `port` is `ORCAS_PORT`."""
    return PREFIX + name.upper()


def is_loopback(host: str) -> bool:
    """Whether `host` can only be reached from this machine. A name other than `localhost` is not trusted to be."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def resolve(overrides: Mapping[str, object] | None = None, *, ambient: bool = True) -> Resolved:
    """Gather every setting from its first source that names it, and check them.

    `overrides` are the command line's, by field name; None stands for absent. With `ambient` False they are all there is:
    neither environment nor files are read, as for a server that a program starts for itself.

    Raises:
        ConfigurationError: a value, a combination or a name is wrong; a `UsageError` where the command line has it.
    """
    values: dict[str, object] = {}
    sources: dict[str, str] = {}

    def take(name: str, raw: object, source: str, called: str) -> None:
        if name not in sources:
            values[name] = _checked(SETTINGS[name], raw, called)
            sources[name] = source

    def take_option(name: str, raw: object) -> None:
        try:
            take(name, raw, "command line", "--" + _OPTIONS.get(name, name).replace("_", "-") if ambient else name)
        except ConfigurationError as error:
            raise (UsageError(str(error)) if ambient else error) from None

    for name, raw in (overrides or {}).items():
        if name not in SETTINGS:
            raise ConfigurationError(f"{name} is not a setting{closest(name, list(SETTINGS))}")
        if raw is not None:
            take_option(name, raw)
    if ambient:
        for name, raw, called in _variables(os.environ):
            take(name, raw, called, called)
        for path in _files():
            for name, raw in _read_file(path).items():
                take(name, raw, str(path), f"{name} in {path}")
    values.setdefault("data", _home("XDG_DATA_HOME", ".local/share") / "orcas")
    settings = _combined(Settings(**values), sources, ambient)  # type: ignore[arg-type]
    return Resolved(settings, {name: sources.get(name, "default") for name in SETTINGS})


def _checked(setting: Setting, raw: object, called: str) -> Any:
    shown = "" if setting.secret else f", not {raw!r}"
    if raw == "":
        raise ConfigurationError(f"{called} is empty: give it a value or leave it out.")
    try:
        value = setting.parse(raw)
    except TypeError as wanted:
        raise ConfigurationError(f"{called} must be {wanted}{shown}.") from None
    if setting.choices and value not in setting.choices:
        raise ConfigurationError(f"{called} must be one of {', '.join(setting.choices)}{shown}.")
    if setting.pattern is not None and not setting.pattern.fullmatch(value):
        raise ConfigurationError(f"{called} must be {setting.says}{shown}.")
    if (setting.low is not None and value < setting.low) or (setting.high is not None and value > setting.high):
        unit = f" {setting.unit}" if setting.unit else ""
        raise ConfigurationError(f"{called} must be from {setting.low} to {setting.high}{unit}{shown}.")
    return value


def _variables(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    known = {variable_name(name): name for name, setting in SETTINGS.items() if setting.variable}
    secrets = {variable_name(name) + "_FILE": name for name, setting in SETTINGS.items() if setting.secret}
    for variable in sorted(environ):
        if variable in known:
            yield known[variable], environ[variable], variable
        elif variable in secrets:
            if variable_name(secrets[variable]) in environ:
                raise ConfigurationError(f"{variable} and {variable.removesuffix('_FILE')} are both set: keep one.")
            yield secrets[variable], _read_secret(variable, environ[variable]), variable
        elif _SERVICE_LINK.fullmatch(variable):
            raise ConfigurationError(
                f"{variable} is not a setting but describes a service called orcas: "
                "rename the service, or set enableServiceLinks to false."
            )
        elif variable.startswith(PREFIX):
            raise ConfigurationError(
                f"{variable} is not a setting of this version{closest(variable, [*known, *secrets])}"
            )


def closest(name: str, names: list[str]) -> str:
    """What to do about an unknown name: the known one that is a slip of the keyboard away, if there is one."""
    bare = {known.lower().removeprefix(PREFIX.lower()): known for known in names}
    close = difflib.get_close_matches(name.lower().removeprefix(PREFIX.lower()), bare, n=1, cutoff=_SLIP)
    return f": did you mean {bare[close[0]]}?" if close else ": `orcas config show` lists them all."


def _read_secret(variable: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{variable} names a file that cannot be read: {error}.") from None


def _home(variable: str, fallback: str) -> Path:
    # The XDG base directory specification ignores relative paths.
    named = Path(os.environ.get(variable, ""))
    return named if named.is_absolute() else Path.home() / fallback


def _files() -> tuple[Path, ...]:
    return (Path.cwd() / FILE_NAME, _home("XDG_CONFIG_HOME", ".config") / "orcas" / FILE_NAME, SYSTEM_FILE)


def _read_file(path: Path) -> dict[str, object]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from None
    names = [name for name, setting in SETTINGS.items() if setting.variable]
    for name in document:
        if name not in names:
            raise ConfigurationError(f"{path} sets {name}, which is not a setting{closest(name, names)}")
    return document


def _combined(settings: Settings, sources: dict[str, str], ambient: bool) -> Settings:
    """Check the settings against each other, and fill in what `--dev` and `--memory` imply."""

    def wrong(message: str, *names: str) -> ConfigurationError:
        usage = ambient and all(sources.get(name) == "command line" for name in names)
        return UsageError(message) if usage else ConfigurationError(message)

    if settings.dev and not is_loopback(settings.host):
        message = f"--dev has published keys, so it listens on loopback only, not on {settings.host}."
        raise wrong(message, "dev", "host")
    if settings.dev and settings.root_access_key is None and settings.root_secret_key is None:
        settings = dataclasses.replace(settings, root_access_key=DEV_ACCESS_KEY, root_secret_key=DEV_SECRET_KEY)
        sources |= {"root_access_key": "--dev", "root_secret_key": "--dev"}
    if (settings.root_access_key is None) != (settings.root_secret_key is None):
        raise ConfigurationError("ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY go together: set both or neither.")
    if settings.root_secret_key == DEV_SECRET_KEY and not is_loopback(settings.host):
        raise ConfigurationError("ORCAS_ROOT_SECRET_KEY is the published key of --dev: choose a secret of your own.")
    if settings.memory and settings.salvage:
        raise ConfigurationError("--salvage reads a store that is there, and --memory begins with none.")
    if settings.memory:
        if sources.get("data") == "command line":
            raise wrong("--memory and --data exclude each other: a store in memory has no directory.", "data")
        if sources.get("durability") == "command line" and settings.durability != "unsafe-none":
            raise wrong("--memory keeps nothing, so its durability can only be unsafe-none.", "durability")
        settings = dataclasses.replace(settings, durability="unsafe-none")
        sources["durability"] = "--memory"
        if "disk_reserve" not in sources:
            # Every byte of it is memory.
            settings = dataclasses.replace(settings, disk_reserve=_MEMORY_RESERVE)
            sources["disk_reserve"] = "--memory"
    if settings.db_max_idle_conns > settings.db_max_open_conns:
        raise ConfigurationError("ORCAS_DB_MAX_IDLE_CONNS must not exceed ORCAS_DB_MAX_OPEN_CONNS.")
    return dataclasses.replace(settings, data=Path(os.path.abspath(settings.data)))  # noqa: PTH100 - keeps symlinks


def child_environment() -> dict[str, str]:
    """This process's environment without Orcas's settings, for a child that is given its settings whole."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


@contextlib.contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set `variables` in this process's environment (None removes), and put back what was there afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    _set_environment(variables)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
