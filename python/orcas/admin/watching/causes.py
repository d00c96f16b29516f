"""The usual causes of errors, and what to do: the table of codes in docs/operations/log-requests.md. Pure."""

from __future__ import annotations

from typing import Final

_STORE: Final = (
    "a misspelled bucket. If it looks like a host name or a key: virtual-hosted requests for a name that is not in "
    "ORCAS_DOMAINS"
)
_TRANSIT: Final = "the body was changed or cut off in transit"
_HTTP: Final = "not HTTP/1.1; TLS to a port without TLS, or the other way round"
# By error code: the usual cause, and what to do.
CAUSES: Final[dict[str, tuple[str, str]]] = {
    "SignatureDoesNotMatch": (
        "a wrong secret key, or something between client and server changes requests",
        "compare the secret; make proxies pass Host and target on unchanged",
    ),
    "InvalidAccessKeyId": ("the client has the keys of another store", "`orcas env` prints the right ones"),
    "RequestTimeTooSkewed": (
        "the clocks differ by more than 15 minutes", "synchronise the clocks of both machines",
    ),
    "AccessDenied": (
        "no signature, an expired URL, a required header that is not signed, or no policy that allows it",
        "sign again, or give the user a policy that allows it",
    ),
    "AuthorizationHeaderMalformed": (
        "another region under ORCAS_STRICT_REGION, or a bug in the client", "set the region of the client",
    ),
    "NoSuchBucket": (_STORE, "set ORCAS_DOMAINS, or path style in the client"),
    "InvalidBucketName": (_STORE, "set ORCAS_DOMAINS, or path style in the client"),
    "NoSuchKey": ("there is no object of this name, or its newest version is a delete marker", "compare the key"),
    "NotImplemented": ("a part of S3 that Orcas does not have", "docs/s3-compatibility.md says which parts there are"),
    "BadDigest": (_TRANSIT, "if it repeats, check proxies and the network"),
    "XAmzContentSHA256Mismatch": (_TRANSIT, "if it repeats, check proxies and the network"),
    "IncompleteBody": (_TRANSIT, "if it repeats, check proxies and the network"),
    "RequestTimeout": (
        "a client stopped sending: ORCAS_HEAD_TIMEOUT_SEC, ORCAS_BODY_TIMEOUT_SEC",
        "many from one address are an attack or a broken network",
    ),
    "BadRequest": (_HTTP, "check the client's endpoint: `https://` or `http://`"),
    "InvalidURI": (_HTTP, "check the client's endpoint: `https://` or `http://`"),
    "QuotaExceeded": ("the quota of the bucket or of its owner is used up", "delete something, or raise the quota"),
    "SlowDown": (
        "more requests than the index or the memory can serve, a limit of the user or key, or an address that is locked out",
        "wait; if it goes on, see which of them it is in the cause",
    ),
    "ServiceUnavailable": (
        "the store is full or read-only, its index is being rebuilt, or the server is stopping", "see the health page",
    ),
    "InternalError": ("a bug or damage", "see the log, and run fsck"),
}  # fmt: skip
