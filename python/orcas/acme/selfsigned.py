"""Certificates that sign themselves: those of challenges, and one that no client trusts, until a CA has given another."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from orcas.http.certificate import Certificate

# id-pe-acmeIdentifier (RFC 8737).
_CHALLENGE: Final = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31")
# The tag and the length of an OCTET STRING of 32 bytes, in DER.
_OCTETS: Final = b"\x04\x20"
_DAYS: Final = 30


def challenge(name: str, authorization: str) -> tuple[str, str]:
    """The certificate that answers the challenge for `name`, and its key, as PEM."""
    digest = hashlib.sha256(authorization.encode()).digest()
    certificate, key = _signed([name], x509.UnrecognizedExtension(_CHALLENGE, _OCTETS + digest))
    return certificate.public_bytes(Encoding.PEM).decode(), pem_of(key).decode()


def stand_in(names: Sequence[str]) -> Certificate:
    """A certificate that encrypts, and that no client trusts."""
    certificate, key = _signed(names)
    return Certificate(
        (certificate.public_bytes(Encoding.PEM).decode(), pem_of(key).decode()),
        list(names),
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
        hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest(),
    )


def new_key() -> ec.EllipticCurvePrivateKey:
    """A private key, which all clients and CAs can use."""
    return ec.generate_private_key(ec.SECP256R1())


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM, not encrypted."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _signed(names: Sequence[str], *critical: x509.ExtensionType) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key, now = new_key(), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Orcas")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
    )
    for extension in critical:
        builder = builder.add_extension(extension, critical=True)
    return builder.sign(key, hashes.SHA256()), key
