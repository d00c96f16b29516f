"""What the command line names as source and target of an import, and the key of the source, which is never in argv."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from orcas.errors import ConfigurationError, OrcasError, UsageError
from orcas.minio.environment import kms_key
from orcas.settings.clients import client_variables
from orcas.settings.config import variables_of
from orcas.tools.imports.directory import DirectorySource
from orcas.tools.imports.minio_disks import DiskSource
from orcas.tools.imports.server import ServerSource
from orcas.tools.session import HttpTransport, Session

PREFIX: Final = "SOURCE_"
_REGION: Final = "us-east-1"
_AMAZON: Final = re.compile(r"s3[.-](?:dualstack\.)?([a-z0-9-]+)\.amazonaws\.com")


def source_of(place: str, profile: str | None, *, signed: bool) -> tuple[ServerSource | DirectorySource, str]:
    """The source that `place` names, and the bucket in it, which is empty for a directory, or for all buckets.

    Raises:
        UsageError: it names none.
        ConfigurationError: there is no key for it.
    """
    if "://" not in place:
        return DirectorySource(_directory(place)), ""
    url, bucket = server_of(place)
    transport = HttpTransport(url)
    if not signed:
        return ServerSource(Session(transport, None, _REGION), url), bucket
    keys, token, region = keys_of(url, profile)
    headers = [(b"x-amz-security-token", token.encode())] if token else []
    return ServerSource(Session(transport, keys, region, headers=headers), url), bucket


def disks_of(places: list[str]) -> DiskSource:
    """The drives of a stopped MinIO, and the key of its KMS from its variable.

    Raises:
        UsageError: they are none, or too few, or not of one pool.
        ConfigurationError: the key is wrong.
    """
    return DiskSource([_directory(place) for place in places], kms_key(variables_of("MINIO_KMS_SECRET_KEY")))


def _directory(place: str) -> Path:
    directory = Path(os.path.abspath(Path(place).expanduser()))  # noqa: PTH100 - keeps symlinks
    if not directory.is_dir():
        raise UsageError(f"{place} is no directory: name one, or a URL such as https://s3.example.org/BUCKET.")
    return directory


def server_of(place: str) -> tuple[str, str]:
    """The URL of a server, and the bucket in it, which is empty if none is named.

    Raises:
        UsageError: it is neither.
    """
    parts = urlsplit(place)
    bucket = unquote(parts.path.strip("/"))
    if parts.scheme not in {"http", "https"} or not parts.hostname or "/" in bucket or parts.query or parts.username:
        raise UsageError(
            f"{place} must be http://HOST:PORT or https://HOST:PORT, with /BUCKET or without: give such a value."
        )
    return f"{parts.scheme}://{parts.netloc}", bucket


def target_of(
    place: str | None, bucket: str, source: ServerSource | DirectorySource | DiskSource
) -> list[tuple[str, str, bytes]]:
    """Name in the source, name in the store and prefix of each bucket.

    Raises:
        UsageError: they are not clear.
    """
    name, _, prefix = (place or "").removeprefix("s3://").partition("/")
    if isinstance(source, DirectorySource):
        if not name:
            raise UsageError("The files of a directory need a bucket: name it after the directory.")
        return [(source.name, name, os.fsencode(prefix))]
    if bucket:
        return [(bucket, name or bucket, os.fsencode(prefix))]
    if place is not None:
        raise UsageError(
            f"All buckets of {source.name} keep their names: leave out {place}, or add a bucket to the URL."
        )
    return [(found, found, b"") for found in source.buckets()]


def keys_of(url: str, profile: str | None) -> tuple[tuple[str, str], str | None, str]:
    """The key of the source at a URL, its session token, and its region.

    Raises:
        ConfigurationError: there is no key for it.
    """
    keys, token, region = _keys(url, profile)
    found = _AMAZON.fullmatch(urlsplit(url).hostname or "")
    return keys, token, region or (found[1] if found else _REGION)


def _keys(url: str, profile: str | None) -> tuple[tuple[str, str], str | None, str | None]:
    given = client_variables(PREFIX)
    if profile is not None:
        return _of_profile(profile, given.region)
    if given.access_key is None or given.secret_key is None:
        raise ConfigurationError(
            f"There is no key for {url}: set SOURCE_AWS_ACCESS_KEY_ID and SOURCE_AWS_SECRET_ACCESS_KEY, or give "
            "--source-profile or --source-unsigned."
        )
    return (given.access_key, given.secret_key), given.session_token, given.region


def _of_profile(name: str, region: str | None) -> tuple[tuple[str, str], str | None, str | None]:
    """What botocore makes of a profile: of static keys, of a login, or of a role."""
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session as Profiles
    except ImportError:
        raise OrcasError("A profile needs boto3: run pip install 'orcas-s3[backup]'.") from None
    try:
        session = Profiles(profile=name)
        credentials = session.get_credentials()
        if credentials is None:
            raise ConfigurationError(f"The profile {name} has no keys: give another --source-profile.")
        found = credentials.get_frozen_credentials()
        region = region or session.get_config_variable("region")
    except BotoCoreError as error:
        reason = str(error).rstrip(".")
        raise ConfigurationError(
            f"The profile {name} cannot be used ({reason}): give another --source-profile."
        ) from None
    return (found.access_key, found.secret_key), found.token, region
