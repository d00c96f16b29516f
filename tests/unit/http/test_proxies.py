"""Whom a request comes from, as trusted proxies tell it."""

from __future__ import annotations

import pytest

from orcas.errors import ConfigurationError
from orcas.http.proxies import Proxies
from orcas.settings.config import resolve

TRUSTED = Proxies(("10.0.0.0/8", "127.0.0.1/32", "2001:db8::/32"))

FOR, PROTO, FORWARDED = b"x-forwarded-for", b"x-forwarded-proto", b"forwarded"


@pytest.mark.parametrize(
    ("headers", "client", "scheme"),
    [
        ([], "10.0.0.1", None),
        ([(FOR, b"192.0.2.1")], "192.0.2.1", None),
        ([(FOR, b"192.0.2.1:4711")], "192.0.2.1", None),
        # What the client invents stands before what proxies add.
        ([(FOR, b"198.51.100.9, 192.0.2.1")], "192.0.2.1", None),
        ([(FOR, b"198.51.100.9"), (FOR, b"192.0.2.1")], "192.0.2.1", None),
        ([(FOR, b"198.51.100.9, 192.0.2.1, 10.1.2.3,10.9.9.9")], "192.0.2.1", None),
        ([(FOR, b"10.3.3.3, 10.1.2.3")], "10.3.3.3", None),
        ([(FOR, b"192.0.2.1, unknown, 10.1.2.3")], "10.1.2.3", None),
        ([(FOR, b"unknown")], "10.0.0.1", None),
        ([(FOR, b"")], "10.0.0.1", None),
        ([(FOR, b"192.0.2.1,")], "10.0.0.1", None),
        ([(FOR, b"999.0.0.1")], "10.0.0.1", None),
        ([(FOR, b"2001:DB9::1")], "2001:db9::1", None),
        ([(FOR, b"[2001:db9::1]:80, 2001:db8::7")], "2001:db9::1", None),
        ([(FOR, b"::ffff:192.0.2.1")], "192.0.2.1", None),
        ([(FOR, b"192.0.2.1, ::ffff:10.0.0.7")], "192.0.2.1", None),
        ([(PROTO, b"https")], "10.0.0.1", "https"),
        ([(PROTO, b"HTTPS")], "10.0.0.1", "https"),
        ([(PROTO, b"http")], "10.0.0.1", "http"),
        ([(PROTO, b"https, http")], "10.0.0.1", "http"),
        ([(PROTO, b"https"), (PROTO, b"http")], "10.0.0.1", "http"),
        ([(PROTO, b"wss")], "10.0.0.1", None),
        ([(PROTO, b"")], "10.0.0.1", None),
        ([(FORWARDED, b"for=192.0.2.1;proto=https")], "192.0.2.1", "https"),
        ([(FORWARDED, b'For="[2001:db9::1]:4711"; Proto=HTTPS;by=10.0.0.1')], "2001:db9::1", "https"),
        ([(FORWARDED, b"for=198.51.100.9;proto=https, for=192.0.2.1;proto=http")], "192.0.2.1", "http"),
        ([(FORWARDED, b"for=192.0.2.1;proto=https, for=10.2.2.2")], "192.0.2.1", None),
        ([(FORWARDED, b"for=_hidden")], "10.0.0.1", None),
        ([(FORWARDED, b"by=10.0.0.1")], "10.0.0.1", None),
        # A proxy that sets the one passes on what a client says in the other.
        ([(FORWARDED, b"for=198.51.100.9;proto=https"), (FOR, b"192.0.2.1")], "192.0.2.1", None),
    ],
)  # fmt: skip
def test_the_client_and_its_scheme(headers: list[tuple[bytes, bytes]], client: str, scheme: str | None) -> None:
    assert TRUSTED.origin("10.0.0.1", headers) == (client, scheme)


def test_who_is_trusted() -> None:
    for host in ("10.255.0.1", "::ffff:10.0.0.1", "2001:db8::9"):
        assert TRUSTED.trusts(host)
    for host in ("11.0.0.1", "2001:db9::1", "x", ""):
        assert not TRUSTED.trusts(host)


def test_the_setting() -> None:
    given = {"memory": True, "trusted_proxies": "10.0.0.0/8, 127.0.0.1  ::1"}
    assert resolve(given, ambient=False).settings.trusted_proxies == ("10.0.0.0/8", "127.0.0.1/32", "::1/128")
    for wrong in ("10.0.0.1/8", "example.com", "10.0.0.0/33", "*"):
        with pytest.raises(ConfigurationError, match="must be a list of addresses and networks"):
            resolve(given | {"trusted_proxies": wrong}, ambient=False)
