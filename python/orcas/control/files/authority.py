"""TLS for development: a CA in the data directory, and a certificate that it signs anew at each start.

Clients are told to trust the CA, which stays the same for as long as its two files are intact. Must not know connections.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import logging
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from orcas.control.files import read_secret_file, write_secret_file

AUTHORITY_NAME: Final = "tls-ca.pem"
AUTHORITY_KEY_NAME: Final = "tls-ca.key"
# The certificate of the server and its key.
CERTIFICATE_NAME: Final = "tls.pem"
_AUTHORITY_DAYS: Final = 3650
# Some clients refuse certificates that are valid for longer than 398 days.
_CERTIFICATE_DAYS: Final = 397
_SIGNING: Final = ec.ECDSA(hashes.SHA256())
# Clocks of clients may be slow.
_EARLIER: Final = dt.timedelta(hours=1)

log = logging.getLogger("orcas.control")

_Signer = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def certify(directory: Path, hosts: Iterable[str]) -> tuple[Path, Path]:
    """Make a certificate for these names and addresses. Its file, which has the key as well, and that of the CA. Blocks.

    Raises:
        UnavailableError: a file cannot be read or written.
    """
    now = dt.datetime.now(dt.UTC)
    authority = _read_authority(directory, now) or _new_authority(directory, now)
    issuer, issuer_key = authority
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Orcas")])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    certificate = (
        _builder(subject, issuer.subject, key, now, _CERTIFICATE_DAYS)
        .add_extension(x509.SubjectAlternativeName([_name(host) for host in dict.fromkeys(hosts)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    path = directory / CERTIFICATE_NAME
    write_secret_file(path, certificate.public_bytes(Encoding.PEM) + _pem(key))
    return path, directory / AUTHORITY_NAME


def _read_authority(directory: Path, now: dt.datetime) -> _Signer | None:
    """The CA of the directory; None if there is none, or none that could sign."""
    pem, key_pem = (read_secret_file(directory / name) for name in (AUTHORITY_NAME, AUTHORITY_KEY_NAME))
    if pem is None and key_pem is None:
        return None
    try:
        certificate = x509.load_pem_x509_certificate(pem or b"")
        key = load_pem_private_key(key_pem or b"", None)
        certificate.verify_directly_issued_by(certificate)
        intact = isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == certificate.public_key()
        if isinstance(key, ec.EllipticCurvePrivateKey):
            # The file of a key has its public half as well, which may be the only half that is intact.
            key.public_key().verify(key.sign(b"", _SIGNING), b"", _SIGNING)
    except (ValueError, TypeError, InvalidSignature):
        intact = False
    if not intact:
        log.warning(
            "%s or %s is missing or damaged: a new CA is made, which clients have to trust",
            AUTHORITY_NAME, AUTHORITY_KEY_NAME,
        )  # fmt: skip
        return None
    if certificate.not_valid_after_utc - now < dt.timedelta(days=_CERTIFICATE_DAYS):
        log.warning("%s expires soon: a new CA is made, which clients have to trust", AUTHORITY_NAME)
        return None
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return certificate, key


def _new_authority(directory: Path, now: dt.datetime) -> _Signer:
    key = ec.generate_private_key(ec.SECP256R1())
    # Several may be trusted by one client, which finds them by their names.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Orcas development CA {secrets.token_hex(4)}")])
    usage = x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(name, name, key, now, _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_secret_file(directory / AUTHORITY_KEY_NAME, _pem(key))
    write_secret_file(directory / AUTHORITY_NAME, certificate.public_bytes(Encoding.PEM))
    return certificate, key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: dt.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
