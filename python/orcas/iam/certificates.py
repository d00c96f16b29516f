"""Certificates that clients have shown: the user that one names, and when it ends. The listener has verified them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orcas.control.identities.calls import ClientCertificate
from orcas.control.identities.failures import IamError
from orcas.http.extensions import CERTIFICATE

if TYPE_CHECKING:
    from starlette.types import Scope


def shown(scope: Scope) -> ClientCertificate:
    """What the client of a request has shown.

    Raises:
        IamError: it has shown nothing, or nothing that names one user.
    """
    # Imported here, because only servers that verify clients need the package.
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    content = scope.get(CERTIFICATE)
    if content is None:
        raise IamError("AccessDenied", "The client has shown no certificate.")
    try:
        certificate = x509.load_der_x509_certificate(content)
        (name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return ClientCertificate(str(name.value), int(certificate.not_valid_after_utc.timestamp() * 1000))
    except ValueError as error:
        raise IamError("AccessDenied", "The certificate of the client names no user.", str(error)) from None
