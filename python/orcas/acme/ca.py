"""A CA that speaks ACME, by the library `acme` of certbot: an order from the account to the certificate.

The library has no TLS-ALPN-01 any more, so that part is here. Everything blocks. Must not know files, or when a
certificate is due.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from acme import challenges, client, crypto_util, errors, messages
from cryptography.hazmat.primitives.asymmetric import ec
from josepy.jwa import ES256
from josepy.jwk import JWK, JWKEC

from orcas.acme.selfsigned import challenge

# Certificates of challenges, as the listener takes them: chain, key and names.
Present = Callable[[list[tuple[str, str, list[str]]]], None]

# For one request to the CA, for its connections to this server, and for it to make a certificate.
_REQUEST_SECONDS: Final = 30
_DECISION: Final = dt.timedelta(minutes=2)
_LENGTH_MAX: Final = 500

# What to do about what a CA says, by its code.
_ADVICE: Final = {
    "caa": "let its CAA records allow this CA",
    "dns": "correct its DNS records",
    "externalAccountRequired": "use another ACME client, because Orcas has no external accounts",
    "rateLimited": "wait, because the CA limits how often it is asked",
    "rejectedIdentifier": "name a host for which the CA gives certificates",
}
_REACH: Final = "port 443 of the name must lead to this server, and no proxy before it may end TLS"
# What a CA says that has connected to something else, or to nothing.
_NOT_REACHED: Final = {"connection", "tls", "unauthorized", "incorrectResponse"}


class OrderError(Exception):
    """There is no certificate: why, and what to do about it, as a part of a sentence."""


@challenges.ChallengeResponse.register
class _Answer(challenges.KeyAuthorizationChallengeResponse):
    typ = "tls-alpn-01"


@challenges.Challenge.register
class _TlsAlpn(challenges.KeyAuthorizationChallenge):
    typ = _Answer.typ
    response_cls = _Answer

    def validation(self, account_key: JWK, **kwargs: Any) -> str:
        """The text from which the certificate of the challenge is made."""
        return self.key_authorization(account_key)


class Ca:
    """The CA at `directory`."""

    def __init__(
        self, directory: str, root: Path | None, email: str | None, *, accept_terms: bool, user_agent: str
    ) -> None:
        """Connects to nothing.

        Args:
            directory: the URL of its directory.
            root: PEM file with the root of its own server; of a public CA, None.
            email: where it may reach the operator.
            accept_terms: whether the operator accepts its terms of service, if it has some.
            user_agent: who is asking.
        """
        self.directory = directory
        self._email, self._accept_terms = email, accept_terms
        self._options: dict[str, Any] = {
            "verify_ssl": True if root is None else str(root),
            "user_agent": user_agent,
            "timeout": _REQUEST_SECONDS,
        }

    @property
    def host(self) -> str:
        """The host of the CA, for messages."""
        return urlsplit(self.directory).netloc

    def suggestion(self, chain: str) -> tuple[float | None, float]:
        """When the CA would renew a certificate of its own, if it says so (RFC 9773), and when to ask it again.

        Raises:
            OrderError: it does not answer.
        """
        try:
            with _Session(self.directory, None, self._options) as session:
                time, again = session.renewal_time(chain.encode())
        except Exception as error:
            # Whatever the library raises.
            raise OrderError(self._reason(error)) from error
        return None if time is None else time.timestamp(), again.timestamp()

    def order(self, account: ec.EllipticCurvePrivateKey, names: Sequence[str], key: bytes, present: Present) -> str:
        """A certificate for `names` with those between it and a root, as PEM.

        Args:
            account: the key of the account, which the CA may not know yet.
            names: of hosts.
            key: the key of the certificate, as PEM.
            present: shows certificates of challenges to the CA from now on, and no others.

        Raises:
            OrderError: there is none.
        """
        try:
            with _Session(self.directory, account, self._options) as session:
                self._enter(session)
                order = session.new_order(crypto_util.make_csr(key, list(names)))
                try:
                    for answer in _answers(session, order, present):
                        session.answer_challenge(*answer)
                    order = session.poll_authorizations(order, _deadline())
                finally:
                    present([])
                return session.finalize_order(order, _deadline()).fullchain_pem
        except OrderError:
            raise
        except Exception as error:
            # Whatever the library raises.
            raise OrderError(self._reason(error)) from error

    def _enter(self, session: _Session) -> None:
        """Use the account of the key, which is made if the CA does not know it."""
        meta = session.directory["meta"]
        if meta.terms_of_service is not None and not self._accept_terms:
            raise OrderError(
                f"it has terms of service: read {meta.terms_of_service}, and accept them with "
                "ORCAS_ACME_ACCEPT_TERMS=true"
            )
        if meta.external_account_required:
            raise OrderError(f"it wants an external account; {_ADVICE['externalAccountRequired']}")
        wanted = messages.NewRegistration.from_data(email=self._email, terms_of_service_agreed=True)
        try:
            session.new_account(wanted)
        except errors.ConflictError as known:
            account = messages.RegistrationResource(body=messages.Registration(), uri=known.location)
            session.net.account = account
            if self._email is not None:
                session.update_registration(account, messages.Registration.from_data(email=self._email))

    def _reason(self, error: Exception) -> str:
        """Why there is no certificate, and what to do about it."""
        if isinstance(error, requests.exceptions.SSLError):
            return f"its own certificate is refused ({_cause(error)}); name its root with ORCAS_ACME_CA_FILE"
        if isinstance(error, requests.exceptions.RequestException):
            return f"it cannot be reached ({_cause(error)}); see to ORCAS_ACME_DIRECTORY, and to firewalls in between"
        if isinstance(error, errors.TimeoutError):
            return "it has not decided in time"
        if isinstance(error, errors.ValidationError):
            return "; ".join(_refusal(each) for each in error.failed_authzrs)
        if isinstance(error, errors.IssuanceError):
            error = error.error
        if isinstance(error, messages.Error):
            advice = _ADVICE.get(error.code or "")
            return f"it says {_said(error)}" + (f"; {advice}" if advice else "")
        return f"it has answered with what is not understood ({type(error).__name__}: {_clipped(str(error))})"


class _Session(client.ClientV2):
    """Requests that are signed with the key of an account, or not at all."""

    def __init__(self, directory: str, key: ec.EllipticCurvePrivateKey | None, options: dict[str, Any]) -> None:
        signing: dict[str, Any] = {} if key is None else {"key": JWKEC(key=key), "alg": ES256}
        net = client.ClientNetwork(**signing, **options)
        super().__init__(client.ClientV2.get_directory(directory, net), net)

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.net.session.close()


def _deadline() -> dt.datetime:
    """The deadline of a decision that begins now."""
    return dt.datetime.now() + _DECISION  # noqa: DTZ005 - the library compares it with the same


def _answers(
    session: _Session, order: messages.OrderResource, present: Present
) -> list[tuple[messages.ChallengeBody, challenges.ChallengeResponse]]:
    """The challenges of an order that the CA has not seen answered yet, with what to answer: the listener is ready."""
    answers, certificates = [], []
    key = session.net.key
    assert key is not None
    for authorization in order.authorizations:
        name = authorization.body.identifier.value
        if authorization.body.status != messages.STATUS_PENDING:
            continue
        offered = [each for each in authorization.body.challenges if isinstance(each.chall, _TlsAlpn)]
        if not offered:
            raise OrderError(f"it does not offer the challenge tls-alpn-01 for {name}; use another CA or ACME client")
        certificates.append((*challenge(name, offered[0].chall.key_authorization(key)), [name]))
        answers.append((offered[0], offered[0].chall.response(key)))
    present(certificates)
    return answers


def _refusal(authorization: messages.AuthorizationResource) -> str:
    """Why a name was refused."""
    name = authorization.body.identifier.value
    for each in authorization.body.challenges:
        if each.error is not None:
            code = each.error.code or ""
            advice = _REACH if code in _NOT_REACHED else _ADVICE.get(code)
            return f"it refuses {name}, and says {_said(each.error)}" + (f"; {advice}" if advice else "")
    return f"it refuses {name}"


def _said(error: messages.Error) -> str:
    return f"{error.code or error.typ}: {_clipped((error.detail or 'nothing more').rstrip('.'))}"


def _cause(error: requests.exceptions.RequestException) -> str:
    """The end of a message that names the URL as well, and every layer of the libraries."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return _clipped(str(reason or error).rpartition(": ")[2])


def _clipped(text: str) -> str:
    return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}…"
