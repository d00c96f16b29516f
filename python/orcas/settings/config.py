"""Settings: names, meanings, defaults and bounds. Only this module and `orcas.settings.clients` read `os.environ`.

A value comes from the command line, else from an `ORCAS_*` variable, else from an `orcas.toml` (in the working
directory, the user's, then the system's), else from the default here. Rust and all other modules take their values from
`Settings` and have no defaults of their own. Every mistake raises a `ConfigurationError` with a one-sentence message,
even an unknown name: nobody should discover a misspelt durability setting after a power cut. Must not know FastAPI,
uvicorn or Rust.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orcas.errors import ConfigurationError, UsageError
from orcas.settings.observability import ObservabilitySettings
from orcas.settings.values import (
    DOMAIN,
    Setting,
    boolean,
    buckets,
    certified_names,
    directory,
    domains,
    integer,
    networks,
    number,
    paths,
    text,
)
from orcas.settings.values import setting as _setting

PREFIX: Final = "ORCAS_"
FILE_NAME: Final = "orcas.toml"
SYSTEM_FILE: Final = Path("/etc/orcas") / FILE_NAME
KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
TIB: Final = 1024 * GIB
DAY_SECONDS: Final = 86_400
_MEMORY_RESERVE: Final = 32 * MIB
_MEMORY_EVENTS: Final = 32 * MIB

# The published keys of `--dev`. Anybody can read them here, so they are only accepted on loopback.
DEV_ACCESS_KEY: Final = "orcas-dev-access-key"
DEV_SECRET_KEY: Final = "orcas-dev-secret-key"  # noqa: S105 - published on purpose, loopback only

DURABILITIES: Final = ("sync", "interval", "buffered", "unsafe-none")
LETS_ENCRYPT: Final = "https://acme-v02.api.letsencrypt.org/directory"
PUBLIC_ACCESS: Final = ("blocked", "by-bucket", "open")
_ACCESS_KEY: Final = re.compile(r"[A-Za-z0-9._+=@-]{3,128}")
_SECRET_KEY: Final = re.compile(r"[\x21-\x7e]{1,128}")
# Tests have shorter ones, such as `test`, which only a server for tests and development takes.
_SECRET_KEY_MIN: Final = 8
# 32 bytes in base64. The last character has four bits that count.
_MASTER_KEY: Final = re.compile(r"[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")
_PASSPHRASE: Final = re.compile(r"[^\x00-\x1f\x7f]{8,256}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{16,256}")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION: Final = re.compile(r"[a-z0-9-]{1,64}")
_HTTPS_URL: Final = re.compile(r"https://[^\s/?#@]+(/[^\s?#]*)?")
_LOG_URL: Final = re.compile(r"(s3|postgres(ql)?)://[^\s]+")
_NODE_URL: Final = re.compile(r"https?://[^\s/?#@]+")
_EMAIL: Final = re.compile(r"[^\s@,?%]+@[^\s@,?%]+")
# Variables that Kubernetes defines for a service called `orcas`. `ORCAS_PORT` is one too, but it is a setting.
_SERVICE_LINK: Final = re.compile(r"ORCAS_(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)")
# Minimum similarity, from 0 to 1, of a suggested name. A lower value suggests unrelated names that only share letters.
_SIMILARITY_MIN: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ObservabilitySettings):
    """All settings, checked. Sizes are in bytes. The name of a time ends in its unit."""

    data: Path = _setting(None, "data directory of the store; `~` is expanded", directory)
    server_link: Path | None = _setting(
        None,
        "symbolic link to its data directory that a server keeps while it runs; a command without `--data` works on the "
        "store of that server",
        directory,
    )
    host: str = _setting("127.0.0.1", "address or host name to listen on", text)
    port: int = _setting(9000, "port to listen on; 0 picks a free one", integer, low=0, high=65535)
    region: str = _setting(
        "us-east-1", "region of the store", text, pattern=_REGION, requirement="lower-case letters, digits and hyphens"
    )
    strict_region: bool = _setting(False, "reject signatures made for a region other than `ORCAS_REGION`", boolean)
    presign_v2: bool = _setting(
        True,
        "accept URLs presigned with Signature Version 2, the default of boto3 and the AWS CLI; "
        "they name no region, so `ORCAS_STRICT_REGION` rejects them anyway",
        boolean,
    )
    presign_max_sec: int = _setting(
        604_800,
        "longest time for which a presigned request may be signed",
        integer,
        unit="seconds",
        low=1,
        high=604_800,
    )
    lockout_failures: int = _setting(
        100,
        "wrong signatures and unknown access keys from one address within a minute, after which it is locked out a while; "
        "0 locks nobody out",
        integer, low=0, high=1_000_000,
    )  # fmt: skip
    lockout_loopback: bool = _setting(
        False, "lock out addresses of this machine as well, which are otherwise spared, as trusted proxies are", boolean
    )
    public_access: str = _setting(
        "by-bucket",
        "who but the account of a bucket a public policy or list lets in: nobody (`blocked`); whom each bucket lets, "
        "new ones nobody, as on AWS (`by-bucket`); or the same, with new buckets that block nothing and have ACLs (`open`)",
        text,
        choices=PUBLIC_ACCESS,
    )
    domains: tuple[str, ...] = _setting(
        (),
        "comma-separated domains under which `BUCKET.DOMAIN` addresses a bucket (virtual-hosted style)",
        domains,
    )
    website_host: str | None = _setting(
        None,
        "host name under which websites of buckets are served to everybody, as `BUCKET.HOST`; nothing else is served there",
        text, pattern=DOMAIN, requirement="a host name in lower case",
    )  # fmt: skip
    tls_cert_file: tuple[Path, ...] = _setting(
        (),
        "PEM file with the certificate of the server and those between it and a root; without it, there is no TLS; "
        "several, with commas between them, for several host names",
        paths,
    )
    tls_key_file: tuple[Path, ...] = _setting(
        (), "PEM file with the private key of the certificate; of several, in the same order", paths
    )
    tls_client_ca_file: Path | None = _setting(
        None,
        "PEM file with the CAs of clients: one with a certificate of theirs gets temporary credentials of the user that "
        "it names",
        directory,
    )
    tls_self_signed: bool = _setting(
        False, "TLS for development: generate a certificate, and a CA in the data directory that signs it", boolean
    )
    acme: tuple[str, ...] = _setting(
        (),
        "comma-separated host names of the server, for which it gets a certificate from a CA by ACME, and renews it",
        certified_names,
    )
    acme_directory: str | None = _setting(
        None, "directory of the CA; if not set, that of Let's Encrypt", text,
        pattern=_HTTPS_URL, requirement="an https URL, such as https://ca.example.com/acme/acme/directory",
    )  # fmt: skip
    acme_ca_file: Path | None = _setting(
        None,
        "PEM file with the root of a private CA, to which the server connects; of a public one, leave it out",
        directory,
    )
    acme_email: str | None = _setting(
        None, "address at which the CA may reach the operator", text, pattern=_EMAIL, requirement="one e-mail address"
    )
    acme_accept_terms: bool = _setting(
        False, "the operator has read and accepts the terms of service of the CA; for a CA that has some", boolean
    )
    trusted_proxies: tuple[str, ...] = _setting(
        (),
        "comma-separated addresses and networks of proxies whose `X-Forwarded-For`, `X-Forwarded-Proto` and `Forwarded` "
        "count",
        networks,
    )
    console: bool = _setting(True, "serve the web console under `/_orcas/console/`", boolean)
    console_port: int | None = _setting(
        None,
        "another port to listen on, where the web console is what a browser finds first",
        integer,
        low=1,
        high=65535,
    )
    minio: bool = _setting(
        False,
        "answer what MinIO answers below `/minio/`: health and metrics; a bucket cannot have this name then",
        boolean,
    )
    localstack: bool = _setting(
        False, "answer what LocalStack answers below `/_localstack/`; the root key may be as short as that of its clients",
        boolean,
    )  # fmt: skip
    any_signature: bool = _setting(False, "beside `ORCAS_LOCALSTACK`: let any access key and any secret in", boolean)
    buckets: tuple[str, ...] = _setting(
        (),
        "comma-separated buckets that the start creates if they do not exist; with `:download`, `:upload` or `:public` "
        "behind its name, everybody may read a new bucket, write it, or both",
        buckets,
    )
    warehouse: str | None = _setting(
        None,
        "bucket that the start makes a warehouse of tables, and creates if it does not exist; the one of clients that "
        "name none",
        text,
        pattern=_BUCKET,
        requirement="the name of a bucket",
    )
    root_access_key: str | None = _setting(
        None, "access key of the root identity; generated at the first start if not set", text,
        secret=True, pattern=_ACCESS_KEY, requirement="3 to 128 letters, digits or any of . _ + = @ -",
    )  # fmt: skip
    root_secret_key: str | None = _setting(
        None, "secret key of the root identity; generated at the first start if not set", text,
        secret=True, pattern=_SECRET_KEY, requirement="8 to 128 visible ASCII characters",
    )  # fmt: skip
    master_key: str | None = _setting(
        None, "master key that opens the keyring of the store", text,
        secret=True, pattern=_MASTER_KEY, requirement="32 bytes in base64, as `openssl rand -base64 32` prints them",
    )  # fmt: skip
    master_passphrase: str | None = _setting(
        None, "passphrase that opens the keyring of the store, instead of a master key", text,
        secret=True, pattern=_PASSPHRASE, requirement="8 to 256 characters in one line",
    )  # fmt: skip

    durability: str = _setting(
        "sync", "failures that an acknowledged write survives; see the modes below", text, choices=DURABILITIES
    )
    sync_interval_ms: int = _setting(
        50, "time between syncs in `interval` mode", integer, unit="milliseconds", low=1, high=60_000
    )
    batch_write_enabled: bool = _setting(
        True,
        "let small objects share commits; if off, each object is committed on its own, in `buffered` mode immediately",
        boolean,
    )
    max_batch_write_file_size: int = _setting(
        64 * KIB, "largest object that shares commits; larger objects are chunked", integer,
        unit="bytes", low=0, high=MIB,
    )  # fmt: skip
    write_buffer_window_sec: float = _setting(
        10.0, "longest time until a write is flushed in `buffered` mode", number, unit="seconds", low=0.001, high=3600
    )
    max_write_buffer_size: int = _setting(
        8 * MIB, "maximum size of a batch", integer, unit="bytes", low=64 * KIB, high=GIB
    )
    max_write_buffer_count: int = _setting(
        2048, "maximum number of objects in a batch", integer, unit="objects", low=1, high=1_000_000
    )
    chunk_size: int = _setting(
        4 * MIB, "size of the chunks that larger objects are split into", integer,
        unit="bytes", low=64 * KIB, high=64 * MIB,
    )  # fmt: skip
    encrypt_by_default: bool = _setting(
        False, "encrypt new objects at rest whether or not requests ask for it; needs a keyring", boolean
    )
    key_cache_entries: int = _setting(
        500, "data keys that stay unwrapped in memory, and derived keys of blobs; the least recently used goes first",
        integer, unit="keys", low=1, high=100_000,
    )  # fmt: skip
    key_cache_sec: int = _setting(
        300, "time after which such a key leaves the memory; with 0, each use unwraps and derives it again", integer,
        unit="seconds", low=0, high=86_400,
    )  # fmt: skip
    instant_upload_enabled: bool = _setting(True, "store identical content of the same owner only once", boolean)
    ref_level: int = _setting(
        1, "when to look up new content for deduplication: 0 never, 1 always, "
        "2 only if a filter over its first bytes reports a possible match",
        integer, low=0, high=2,
    )  # fmt: skip
    reclaim_bytes_per_sec: int = _setting(
        100 * MIB, "maximum number of bytes that background reclamation moves per second; 0 means no limit", integer,
        unit="bytes", low=0, high=16 * GIB,
    )  # fmt: skip
    move_objects_max: int = _setting(
        100_000, "maximum number of objects that one `orcas move` moves; other writes wait until it is done", integer,
        unit="objects", low=1, high=1_000_000,
    )  # fmt: skip
    scrub_bytes_per_sec: int = _setting(
        10 * MIB,
        "number of bytes that the background scrub reads per second to find damage early; 0 turns the scrub off",
        integer, unit="bytes", low=0, high=16 * GIB,
    )  # fmt: skip
    lifecycle_interval_sec: int = _setting(
        3600,
        "time between two runs that apply the lifecycle rules of buckets, and between two that look for abandoned uploads; "
        "with 0 they run on request only",
        integer, unit="seconds", low=0, high=31_536_000,
    )  # fmt: skip
    abort_uploads_after_days: int = _setting(
        0,
        "days without a new part after which a multipart upload is aborted, in every bucket; 0 aborts none", integer,
        unit="days", low=0, high=36_500,
    )  # fmt: skip
    lifecycle_day_sec: int = _setting(
        DAY_SECONDS, "length of a day in lifecycle rules and in `ORCAS_ABORT_UPLOADS_AFTER_DAYS`; only for tests of these",
        integer, unit="seconds", low=1, high=DAY_SECONDS,
    )  # fmt: skip
    disk_reserve: int = _setting(
        256 * MIB,
        "free disk space below which nothing that adds content is accepted; if not set, 32 MiB with `--memory`",
        integer, unit="bytes", low=0, high=16 * TIB,
    )  # fmt: skip
    db_max_open_conns: int = _setting(
        25, "maximum number of open read connections to the index", integer, unit="connections", low=1, high=1000
    )
    db_max_idle_conns: int = _setting(
        10, "maximum number of idle read connections to the index", integer, unit="connections", low=0, high=1000
    )
    db_conn_max_lifetime_sec: int = _setting(
        3600,
        "age at which a read connection to the index is replaced",
        integer,
        unit="seconds",
        low=1,
        high=31_536_000,
    )

    events_enabled: bool = _setting(
        True, "keep a journal of events, which streams and notifications are made from", boolean
    )
    events_retention_sec: int = _setting(
        7 * DAY_SECONDS, "time for which the journal keeps events", integer,
        unit="seconds", low=60, high=31_536_000,
    )  # fmt: skip
    events_max_bytes: int = _setting(
        256 * MIB, "size of the journal, beyond which its oldest events are removed; if not set, 32 MiB with `--memory`",
        integer, unit="bytes", low=MIB, high=TIB,
    )  # fmt: skip
    events_listeners_max: int = _setting(
        1024, "maximum number of streams of events at a time", integer, unit="streams", low=1, high=100_000
    )
    event_targets_file: Path | None = _setting(
        None, "file with the targets to which notifications of buckets send events", directory
    )
    identities_file: Path | None = _setting(
        None, "file with users, groups and policies, which every start makes as the file says", directory
    )
    events_token: str | None = _setting(
        None, "bearer token that may read `/_orcas/events`, beside the signature of the root identity", text,
        secret=True, pattern=_TOKEN, requirement="16 to 256 letters, digits or any of - . _ ~ + / =",
    )  # fmt: skip

    body_budget: int = _setting(
        64 * MIB,
        "memory limit for all in-flight request bodies; "
        "the limits for incomplete small bodies and for downloads are separate",
        integer,
        unit="bytes",
        low=8 * MIB,
        high=16 * GIB,
    )
    pooling_enabled: bool = _setting(
        True,
        "reuse memory buffers and read connections to the index; "
        "if off, each one is created on demand and released after use",
        boolean,
    )
    max_head_size: int = _setting(
        32 * KIB, "maximum size of a request head, including the request line", integer,
        unit="bytes", low=8 * KIB, high=256 * KIB,
    )  # fmt: skip
    head_timeout_sec: int = _setting(
        10, "time limit for receiving a request head", integer, unit="seconds", low=1, high=3600
    )
    body_timeout_sec: int = _setting(
        30, "time for which a request body may arrive at less than 1 KiB per second", integer,
        unit="seconds", low=1, high=3600,
    )  # fmt: skip
    idle_timeout_sec: int = _setting(
        60, "time after which an idle connection is closed", integer, unit="seconds", low=1, high=3600
    )
    drain_timeout_sec: int = _setting(
        30, "time that in-flight requests have to finish after SIGTERM", integer, unit="seconds", low=0, high=3600
    )

    cluster_log: str | None = _setting(
        None, "log that the nodes of a cluster share, as s3://BUCKET/PREFIX or postgresql://HOST/DATABASE", text,
        pattern=_LOG_URL, requirement="s3://BUCKET/PREFIX or postgresql://HOST/DATABASE", secret=True)  # fmt: skip
    cluster_url: str | None = _setting(
        None, "address at which the other nodes of the cluster reach this one, as http://HOST:PORT or https://HOST:PORT",
        text, pattern=_NODE_URL, requirement="http://HOST:PORT or https://HOST:PORT")  # fmt: skip
    cluster_lease_sec: float = _setting(
        6.0, "time without a sign of life from the owner of the log after which another node takes it", number,
        unit="seconds", low=1, high=300)  # fmt: skip
    cluster_keep_sec: int = _setting(3600, "time for which the log of a cluster keeps what nodes may still have to read",
        integer, unit="seconds", low=1, high=365 * DAY_SECONDS)  # fmt: skip
    cluster_reads: str = _setting(
        "strict", "who answers reads at a node that does not own the log: the node itself, with everything that was "
        "acknowledged before (`strict`), or the owner (`owner`)", text, choices=("strict", "owner"))  # fmt: skip
    cluster_move_by_score: bool = _setting(False, "let a node ask for the log when its score is much better", boolean)

    log_format: str = _setting(
        "auto", "format of the log on stderr; `auto` means `human` on a terminal and `json` elsewhere", text,
        choices=("auto", "human", "json"),
    )  # fmt: skip
    log_level: str = _setting(
        "info", "lowest level that is logged", text, choices=("debug", "info", "warning", "error")
    )

    any_date: bool = _setting(False, "accept any date, for tests with clocks of their own", boolean, variable=False)
    memory: bool = _setting(
        False, "keep the store in a private directory that is removed at exit", boolean, variable=False
    )
    standby_of: str | None = _setting(
        None, "address of the server whose store a standby copies, as http://HOST:PORT or https://HOST:PORT", text,
        variable=False,
    )  # fmt: skip
    salvage: bool = _setting(False, "read what is left of a damaged store without changing it", boolean, variable=False)
    dev: bool = _setting(False, "published keys, loopback only, with API documentation", boolean, variable=False)


# Options of `orcas serve`, `orcas run` and `orcas standby` whose name differs from that of their setting.
OPTIONS: Final = {
    "domains": "domain", "root_access_key": "access-key", "root_secret_key": "secret-key", "standby_of": "from",
    "cluster_log": "log", "cluster_url": "node-url",
}  # fmt: skip
SETTINGS: Final[dict[str, Setting]] = {f.name: f.metadata["setting"] for f in dataclasses.fields(Settings)}


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings, and the source of each value, by name, as `orcas config show` prints it."""

    settings: Settings
    sources: Mapping[str, str]


def has_tls(settings: Settings) -> bool:
    """Whether the server speaks TLS."""
    return bool(settings.tls_cert_file or settings.acme) or settings.tls_self_signed


def variable_name(name: str) -> str:
    """The environment variable of a setting: `port` is `ORCAS_PORT`."""
    return PREFIX + name.upper()


def is_loopback(host: str) -> bool:
    """Whether `host` can only be reached from this machine. `localhost` is the only name that counts as loopback."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def resolve(overrides: Mapping[str, object] | None = None, *, ambient: bool = True, files: bool = True) -> Resolved:
    """Take each setting from the first source that names it, and check them all.

    `overrides` has the values of the command line, by field name; None means not given. With `ambient` False, neither
    the environment nor files are read, as for a server that a program starts for itself; with `files` False, only files
    are not.

    Raises:
        ConfigurationError: a value, a combination or a name is wrong. It is a `UsageError` if the mistake is on the
            command line.
    """
    values: dict[str, object] = {}
    sources: dict[str, str] = {}

    def take(name: str, raw: object, source: str, called: str) -> None:
        if name not in sources:
            values[name] = _checked(SETTINGS[name], raw, called)
            sources[name] = source

    def take_option(name: str, raw: object) -> None:
        try:
            take(name, raw, "command line", "--" + OPTIONS.get(name, name).replace("_", "-") if ambient else name)
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
        for path in _files() if files else ():
            for name, raw in _read_file(path).items():
                take(name, raw, str(path), f"{name} in {path}")
    if "data" not in values:
        values["data"] = _default_data(in_memory=bool(values.get("memory")))
    settings = _combined(Settings(**values), sources, ambient)  # type: ignore[arg-type]
    return Resolved(settings, {name: sources.get(name, "default") for name in SETTINGS})


def check_setting(name: str, raw: object, called: str) -> Any:
    """The value of the setting `name` that `raw` stands for, where a caller names it `called`.

    Raises:
        ConfigurationError: the setting cannot have it.
    """
    return _checked(SETTINGS[name], raw, called)


def _checked(setting: Setting, raw: object, called: str) -> Any:
    shown = "" if setting.secret else f", not {raw!r}"
    if raw == "":
        raise ConfigurationError(f"{called} is empty: give it a value or remove it.")
    try:
        value = setting.parse(raw)
    except TypeError as wanted:
        raise ConfigurationError(f"{called} must be {wanted}{shown}.") from None
    if setting.choices and value not in setting.choices:
        raise ConfigurationError(f"{called} must be one of {', '.join(setting.choices)}{shown}.")
    if setting.pattern is not None and not setting.pattern.fullmatch(value):
        raise ConfigurationError(f"{called} must be {setting.requirement}{shown}.")
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
                raise ConfigurationError(f"{variable} and {variable.removesuffix('_FILE')} are both set: set only one.")
            yield secrets[variable], _read_secret(variable, environ[variable]), variable
        elif _SERVICE_LINK.fullmatch(variable):
            raise ConfigurationError(
                f"{variable} is not a setting; Kubernetes sets it for a service called orcas: "
                "rename the service, or set enableServiceLinks to false."
            )
        elif variable.startswith(PREFIX):
            raise ConfigurationError(
                f"{variable} is not a setting of this version{closest(variable, [*known, *secrets])}"
            )


def variables_of(prefix: str) -> dict[str, str]:
    """The variables of another program whose place this one takes: those that begin with `prefix`."""
    return {name: value for name, value in os.environ.items() if name.startswith(prefix)}


def variables_named(names: Iterable[str]) -> dict[str, str]:
    """Variables of the environment that have these names and are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


def set_by_variables() -> list[str]:
    """The settings that the environment sets, by name."""
    return [name for name, _, _ in _variables(os.environ)]


def closest(name: str, names: list[str]) -> str:
    """The end of a message about an unknown name: suggest a similar known name, if there is one."""
    bare = {known.lower().removeprefix(PREFIX.lower()): known for known in names}
    close = difflib.get_close_matches(name.lower().removeprefix(PREFIX.lower()), bare, n=1, cutoff=_SIMILARITY_MIN)
    return f": did you mean {bare[close[0]]}?" if close else ": `orcas config show` lists all settings."


def _read_secret(variable: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{variable} names a file that cannot be read: {error}; name another, or give this user access."
        ) from None


def _home(variable: str, fallback: str) -> Path | None:
    """A directory of the user; None if there is neither the variable nor HOME, and the system does not know the user."""
    # The XDG base directory specification ignores relative paths.
    named = Path(os.environ.get(variable, ""))
    if named.is_absolute():
        return named
    with contextlib.suppress(RuntimeError):
        return Path.home() / fallback
    return None


def state_directory() -> Path | None:
    """The directory in which a command keeps its state in order to continue when it is run again; None: nowhere."""
    home = _home("XDG_STATE_HOME", ".local/state")
    return None if home is None else home / "orcas"


def _default_data(*, in_memory: bool) -> Path:
    home = _home("XDG_DATA_HOME", ".local/share")
    if home is None and not in_memory:
        raise ConfigurationError(
            "There is no home directory for the store: name a directory with --data or ORCAS_DATA."
        )
    return (home or Path()) / "orcas"


def _files() -> list[Path]:
    home = _home("XDG_CONFIG_HOME", ".config")
    own = [] if home is None else [home / "orcas" / FILE_NAME]
    return [Path.cwd() / FILE_NAME, *own, SYSTEM_FILE]


def _read_file(path: Path) -> dict[str, object]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        # Users of services may have /dev/null as their home directory.
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(
            f"{path} cannot be read: {error}; correct the file, or give this user access."
        ) from None
    names = [name for name, setting in SETTINGS.items() if setting.variable]
    secrets = {f"{name}_file": variable_name(name) for name, setting in SETTINGS.items() if setting.secret}
    for name in document:
        if name in secrets:
            raise ConfigurationError(
                f"{path} sets {name}, which only a variable can: set {secrets[name]}_FILE in the environment."
            )
        if name not in names:
            raise ConfigurationError(f"{path} sets {name}, which is not a setting{closest(name, names)}")
    return document


def _combined(settings: Settings, sources: dict[str, str], ambient: bool) -> Settings:
    """Check combinations of settings, and fill in what `--dev` and `--memory` imply."""

    def wrong(message: str, *names: str) -> ConfigurationError:
        usage = ambient and all(sources.get(name) == "command line" for name in names)
        return UsageError(message) if usage else ConfigurationError(message)

    if settings.dev and not is_loopback(settings.host):
        raise wrong(
            f"--dev uses published keys, so --host must be an address of loopback, not {settings.host}.", "dev", "host"
        )
    if settings.dev and settings.root_access_key is None and settings.root_secret_key is None:
        access, secret = _client_pair() if ambient else (None, None)
        from_clients = access is not None and secret is not None
        settings = dataclasses.replace(
            settings,
            root_access_key=access if from_clients else DEV_ACCESS_KEY,
            root_secret_key=secret if from_clients else DEV_SECRET_KEY,
        )
        source = "AWS_ACCESS_KEY_ID" if from_clients else "--dev"
        sources |= {"root_access_key": source, "root_secret_key": source}
    _check_root_key(settings)
    if settings.any_date and not settings.memory:
        raise wrong(
            "--any-date is for tests, which keep their store in memory: add --memory, or leave it out.", "any_date"
        )
    if settings.any_signature and not settings.localstack:
        raise ConfigurationError("ORCAS_ANY_SIGNATURE is for servers in place of LocalStack: set ORCAS_LOCALSTACK too.")
    if settings.master_key is not None and settings.master_passphrase is not None:
        raise ConfigurationError("ORCAS_MASTER_KEY and ORCAS_MASTER_PASSPHRASE are both set: set only one.")
    _check_tls(settings)
    _check_website_host(settings)
    _check_cluster(settings)
    if settings.memory and settings.salvage:
        raise ConfigurationError("--salvage cannot be used with --memory: name an existing store with --data.")
    if settings.memory:
        if sources.get("data") == "command line":
            raise wrong(
                "--memory and --data cannot be used together, because a store in memory has no directory: give one of them.",
                "data",
            )
        if sources.get("durability") == "command line" and settings.durability != "unsafe-none":
            raise wrong("--memory keeps nothing on disk, so its durability must be unsafe-none.", "durability")
        settings = dataclasses.replace(settings, durability="unsafe-none")
        sources["durability"] = "--memory"
        if "disk_reserve" not in sources:
            # Every byte of it is memory.
            settings = dataclasses.replace(settings, disk_reserve=_MEMORY_RESERVE)
            sources["disk_reserve"] = "--memory"
        if "events_max_bytes" not in sources:
            settings = dataclasses.replace(settings, events_max_bytes=_MEMORY_EVENTS)
            sources["events_max_bytes"] = "--memory"
    if settings.db_max_idle_conns > settings.db_max_open_conns:
        raise ConfigurationError(
            "ORCAS_DB_MAX_IDLE_CONNS must not exceed ORCAS_DB_MAX_OPEN_CONNS: lower it, or raise the other."
        )
    return dataclasses.replace(settings, data=Path(os.path.abspath(settings.data)))  # noqa: PTH100 - keeps symlinks


def _client_pair() -> tuple[str | None, str | None]:
    """The key pair that AWS's clients of this environment use, if they use it alone and a root key can be like it."""
    access, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    return (access, secret) if access and unlike_a_root_key() is None else (None, None)


def unlike_a_root_key() -> str | None:
    """Why the keys that AWS's clients of this environment use cannot be those of the root identity; None: they can be.

    Also None if the environment has none.
    """
    access, secret = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
    if not access and not secret:
        return None
    if os.environ.get("AWS_SESSION_TOKEN"):
        return "AWS_SESSION_TOKEN says that they are temporary"
    if not access or not secret:
        return "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set"
    if not _ACCESS_KEY.fullmatch(access):
        return f"AWS_ACCESS_KEY_ID is not {SETTINGS['root_access_key'].requirement}"
    if not _SECRET_KEY.fullmatch(secret):
        return "AWS_SECRET_ACCESS_KEY is not 1 to 128 visible ASCII characters"
    return None


def _check_root_key(settings: Settings) -> None:
    """Refuse half a pair, and a secret that is published or easy to guess where others could try it."""
    if (settings.root_access_key is None) != (settings.root_secret_key is None):
        raise ConfigurationError("ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY are one pair: set both or neither.")
    if settings.root_secret_key is None:
        return
    if settings.root_secret_key == DEV_SECRET_KEY and not is_loopback(settings.host):
        raise ConfigurationError("ORCAS_ROOT_SECRET_KEY is the published key of --dev: choose a secret of your own.")
    is_for_tests = settings.localstack or ((settings.dev or settings.memory) and is_loopback(settings.host))
    if len(settings.root_secret_key) < _SECRET_KEY_MIN and not is_for_tests:
        raise ConfigurationError(
            f"ORCAS_ROOT_SECRET_KEY must be {SETTINGS['root_secret_key'].requirement}, unless --dev or --memory is given "
            "and the host is an address of loopback."
        )


def _check_tls(settings: Settings) -> None:
    """Refuse half a pair, pairs beside one that is generated, and certificates of clients without those."""
    if len(settings.tls_cert_file) != len(settings.tls_key_file):
        raise ConfigurationError(
            "Set ORCAS_TLS_CERT_FILE and ORCAS_TLS_KEY_FILE together: each certificate needs its key."
        )
    if settings.tls_cert_file and settings.tls_self_signed:
        raise ConfigurationError("ORCAS_TLS_CERT_FILE and ORCAS_TLS_SELF_SIGNED are both set: set only one.")
    if settings.acme and (settings.tls_cert_file or settings.tls_self_signed):
        other = "ORCAS_TLS_CERT_FILE" if settings.tls_cert_file else "ORCAS_TLS_SELF_SIGNED"
        raise ConfigurationError(f"ORCAS_ACME and {other} are both set: set only one.")
    if settings.acme and settings.memory:
        raise ConfigurationError(
            "ORCAS_ACME needs a data directory, where the certificate stays: leave out --memory, or use "
            "--tls-self-signed."
        )
    if settings.acme and settings.acme_directory in (None, LETS_ENCRYPT) and not settings.acme_accept_terms:
        raise ConfigurationError(
            "Let's Encrypt has terms of service: read them at https://letsencrypt.org/repository/, and accept them "
            "with --acme-accept-terms or ORCAS_ACME_ACCEPT_TERMS=true."
        )
    if settings.tls_client_ca_file is not None and not has_tls(settings):
        raise ConfigurationError(
            "ORCAS_TLS_CLIENT_CA_FILE needs TLS: set ORCAS_TLS_CERT_FILE and ORCAS_TLS_KEY_FILE as well."
        )


def _check_cluster(settings: Settings) -> None:
    """Check what concerns nodes of a cluster."""
    if settings.cluster_log is None:
        return
    if settings.cluster_url is None:
        raise ConfigurationError(
            "A node of a cluster needs an address for the other nodes: give --node-url http://HOST:PORT."
        )
    if settings.memory or settings.salvage or settings.standby_of is not None:
        raise ConfigurationError("--log is for a store in a directory: leave out --memory, --salvage and --from.")


def _check_website_host(settings: Settings) -> None:
    """Refuse a host for websites that is, or is above, a name under which clients reach the S3 API."""
    website = settings.website_host
    for name in ("localhost", settings.host, *settings.domains):
        if website is not None and f".{name}".endswith(f".{website}"):
            raise ConfigurationError(
                f"ORCAS_WEBSITE_HOST cannot be {website}, where only websites would be served: S3 clients use {name}, "
                "so choose another name."
            )


def child_environment() -> dict[str, str]:
    """The environment of this process without Orcas' settings, for a child that receives its settings in full."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


@contextlib.contextmanager
def environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set `variables` in the environment of this process for a `with` block. None removes a variable."""
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
