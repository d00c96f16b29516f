"""The exceptions that end a command, and the exit code of each.

    OrcasError                1                       failure
    ├── ConfigurationError   78 (EX_CONFIG)           a setting is wrong; the message names it and says what is valid
    │   └── UsageError        2                       the mistake is on the command line
    └── UnavailableError     69 (EX_UNAVAILABLE)      the address, the store or a child process is not available

Each message is one sentence that tells the reader what to do; `code` names the error in JSON. Errors of S3 requests are
not exceptions of this module: Rust creates those error documents.
"""


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
