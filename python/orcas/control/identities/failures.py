"""The errors of IAM: code, status and message as of AWS. Must not know how a request or an answer is written."""

from __future__ import annotations

from typing import Final

STATUSES: Final = {
    "AccessDenied": 403,
    "DeleteConflict": 409,
    "EntityAlreadyExists": 409,
    "ExpiredTokenException": 400,
    "IDPCommunicationError": 400,
    "InvalidAction": 400,
    "InvalidClientTokenId": 403,
    "InvalidIdentityToken": 400,
    "InvalidInput": 400,
    "LimitExceeded": 409,
    "MalformedPolicyDocument": 400,
    "NoSuchEntity": 404,
    "PackedPolicyTooLarge": 400,
    "PolicyNotAttachable": 400,
    "ServiceFailure": 500,
    "UnmodifiableEntity": 400,
    "ValidationError": 400,
}


class IamError(Exception):
    """An action is refused. Nothing was changed."""

    def __init__(self, code: str, message: str, private: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        # For the log alone.
        self.private = private

    @property
    def status(self) -> int:
        """The status of HTTP."""
        return STATUSES[self.code]


def missing(kind: str, name: str) -> IamError:
    """The error for what does not exist."""
    return IamError("NoSuchEntity", f"The {kind} with name {name} cannot be found.")


def limit(what: str, most: int) -> IamError:
    """The error for one too many."""
    return IamError("LimitExceeded", f"Cannot exceed quota for {what}: {most}")
