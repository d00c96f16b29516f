"""Which files a table has: what its metadata names, and the manifests of all its snapshots, which pyiceberg reads."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NoReturn

from pyiceberg.io import FileIO, InputFile
from pyiceberg.manifest import read_manifest_list


def named(location: str, metadata: dict[str, Any], read: Callable[[str], bytes]) -> set[str]:
    """The URLs of the files of a table.

    Also of those that a manifest says are deleted: another snapshot may have them. `read` gives the bytes of a file, and
    what it raises is passed on, as is what pyiceberg raises about a file that it cannot read.

    Args:
        location: the URL of the metadata file.
        metadata: what it says.
        read: gives the bytes at a URL.
    """
    found = {location, *(entry["metadata-file"] for entry in metadata.get("metadata-log", []))}
    for kind in ("statistics", "partition-statistics"):
        found |= {each["statistics-path"] for each in metadata.get(kind, [])}
    files = _Files(read)
    for snapshot in metadata.get("snapshots", []):
        found.add(snapshot["manifest-list"])
        for manifest in read_manifest_list(files.new_input(snapshot["manifest-list"])):
            if manifest.manifest_path not in found:
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(files, discard_deleted=False)
                found |= {entry.data_file.file_path for entry in entries}
    return found


class _Files(FileIO):  # type: ignore[misc, unused-ignore] # pyiceberg has types only where it is installed
    """Files as pyiceberg asks for them, to be read alone."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        super().__init__({})
        self._read = read

    def new_input(self, location: str) -> _File:
        """A file that is to be read."""
        return _File(location, self._read)

    def new_output(self, location: str) -> NoReturn:
        """None is written."""
        raise io.UnsupportedOperation("the files of a table are only read here")

    def delete(self, location: object) -> NoReturn:
        """None is deleted."""
        raise io.UnsupportedOperation("the files of a table are only read here")


class _File(InputFile):  # type: ignore[misc, unused-ignore] # as above
    def __init__(self, location: str, read: Callable[[str], bytes]) -> None:
        super().__init__(location)
        self._read = read

    def __len__(self) -> int:
        return len(self._read(self.location))

    def exists(self) -> bool:
        """Reading says so."""
        return True

    def open(self, seekable: bool = True) -> io.BytesIO:
        """Its bytes."""
        return io.BytesIO(self._read(self.location))
