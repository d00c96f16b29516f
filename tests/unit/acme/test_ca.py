"""What the log says of a CA that gives no certificate."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from acme import challenges, errors, messages
from urllib3.exceptions import MaxRetryError, NewConnectionError

from orcas.acme.ca import Ca, OrderError

REACH = "port 443 of the name must lead to this server, and no proxy before it may end TLS"
UNREACHABLE = (
    "it cannot be reached ([Errno 111] Connection refused); see to ORCAS_ACME_DIRECTORY, and to firewalls in between"
)
LIMITED = (
    "it says rateLimited: too many certificates, retry after 2027-01-01; "
    "wait, because the CA limits how often it is asked"
)
REFUSED = (
    f"it refuses a.test, and says connection: timeout; {REACH}; "
    "it refuses b.test, and says dns: no address; correct its DNS records; "
    f"it refuses c.test, and says malformed: {'x' * 500}…"
)


def said(monkeypatch: pytest.MonkeyPatch, error: Exception) -> str:
    """What becomes of whatever the library raises at its first request."""

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(requests.Session, "request", fails)
    ca = Ca("https://ca.test/directory", None, None, accept_terms=True, user_agent="tests")
    with pytest.raises(OrderError) as raised:
        ca.suggestion("")
    return str(raised.value)


def refusal(name: str, code: str, detail: str) -> messages.AuthorizationResource:
    error = messages.Error.with_code(code, detail=detail)
    challenge = messages.ChallengeBody(
        chall=challenges.UnrecognizedChallenge({"type": "x"}), uri="u", status=messages.STATUS_INVALID, error=error
    )
    identifier = messages.Identifier(typ=messages.IDENTIFIER_FQDN, value=name)
    body = messages.Authorization(identifier=identifier, status=messages.STATUS_INVALID, challenges=(challenge,))
    return messages.AuthorizationResource(body=body, uri="u")


def unreachable() -> requests.ConnectionError:
    pool: Any = None
    cause = NewConnectionError(pool, "Failed to establish a new connection: [Errno 111] Connection refused")
    return requests.ConnectionError(MaxRetryError(pool, "https://ca.test/directory", cause))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (unreachable(), UNREACHABLE),
        (
            requests.exceptions.SSLError("unable to get local issuer certificate"),
            "its own certificate is refused (unable to get local issuer certificate); name its root with ORCAS_ACME_CA_FILE",
        ),
        (
            messages.Error.with_code("rateLimited", detail="too many certificates, retry after 2027-01-01."),
            LIMITED,
        ),
        (messages.Error(typ="about:blank", detail=None), "it says about:blank: nothing more"),
        (
            errors.IssuanceError(messages.Error.with_code("caa", detail="CAA forbids it")),
            "it says caa: CAA forbids it; let its CAA records allow this CA",
        ),
        (
            errors.ValidationError([
                refusal("a.test", "connection", "timeout"), refusal("b.test", "dns", "no address."),
                refusal("c.test", "malformed", "x" * 1000),
            ]),
            REFUSED,
        ),
        (errors.TimeoutError(), "it has not decided in time"),
        (KeyError("newOrder"), "it has answered with what is not understood (KeyError: 'newOrder')"),
    ],
)  # fmt: skip
def test_why_there_is_no_certificate(monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str) -> None:
    assert said(monkeypatch, error) == reason
