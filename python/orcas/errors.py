"""The exceptions that end a command, and the exit code of each.

    OrcasError                1                       failure
    ├── ConfigurationError   78 (EX_CONFIG)           a setting is wrong; the message names it and says what is valid
    │   └── UsageError        2                       the mistake is on the command line
    └── UnavailableError     69 (EX_UNAVAILABLE)      the address, the store or a child process is not available
        └── InstallationError                         a part of Orcas, or of what it needs, cannot be loaded

Each message is one sentence that tells the reader what to do; `code` names the error in JSON. docs/messages.md lists them.
Errors of S3 requests are not exceptions of this module: Rust creates those error documents.
"""

import errno
import sys
from typing import Final

_ADVICE: Final = {
    errno.EACCES: "give this user access",
    errno.EPERM: "give this user access",
    errno.EROFS: "choose a place that can be written",
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "check the path",
    errno.EMFILE: "raise the limit of open files",
    errno.EIO: "check the disk",
}


class OrcasError(Exception):
    """A failure that Orcas explains in one sentence. The base class of the exceptions of Orcas."""

    exit_code = 1
    code = "Failed"


class ConfigurationError(OrcasError):
    """A setting, or a combination of settings, is invalid."""

    exit_code = 78
    code = "InvalidConfiguration"


class UsageError(ConfigurationError):
    """An argument on the command line is invalid."""

    exit_code = 2
    code = "InvalidUsage"


class UnavailableError(OrcasError):
    """Something that Orcas needs is not available: a port is in use, a store is locked or damaged, a child has died."""

    exit_code = 69
    code = "Unavailable"


class InstallationError(UnavailableError, ImportError):
    """A part of Orcas, or of a package that it needs, is missing or made for another machine."""

    def __init__(self, error: ImportError) -> None:
        super().__init__(
            f"Orcas is not completely installed, or for another machine ({error}): "
            f"install it again with `{sys.executable} -m pip install --force-reinstall orcas-s3`."
        )


def because(error: OSError) -> str:
    """The end of a sentence: why the system refused, and what to do about it."""
    return f"{error.strerror}; {_ADVICE.get(error.errno or 0, 'remove the cause, and try again')}"
