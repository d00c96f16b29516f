"""The exceptions that end a command, and the exit code of each.

    OrcasError                1                       failed
    ├── ConfigurationError   78 (EX_CONFIG)           a setting is wrong; the message names it and says what is right
    │   └── UsageError        2                       and it stands on the command line
    └── UnavailableError     69 (EX_UNAVAILABLE)      the address, the store or a child process cannot be had now

Each message is one sentence that its reader can act on. Errors of S3 requests are not exceptions of this module: Rust
makes those documents.
"""


class OrcasError(Exception):
    """Any failure that Orcas explains in one sentence."""

    exit_code = 1


class ConfigurationError(OrcasError):
    """A setting, or a combination of settings, with which Orcas will not start."""

    exit_code = 78


class UsageError(ConfigurationError):
    """A wrong argument of the command line."""

    exit_code = 2


class UnavailableError(OrcasError):
    """What Orcas needs exists but cannot be had: a busy port, a locked or damaged store, a child that died."""

    exit_code = 69
