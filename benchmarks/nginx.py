"""nginx with one worker on loopback, which sends files from the page cache with sendfile."""

from __future__ import annotations

import contextlib
import shutil
import socket
import time
from pathlib import Path

import load
from processes import Process

MISSING = "not measured without nginx"

_CONFIGURATION = """
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{ }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_timeout 600; keepalive_requests 1000000000;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{ listen {listen}; root files; {more} }}
}}
"""


def is_installed() -> bool:
    return shutil.which("nginx") is not None


class Nginx(Process):
    """nginx over `place/files`; with TLS if there is a file with a certificate and its key."""

    def __init__(self, place: Path, *, http2: bool = False, certificate: Path | None = None) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        listen, more, scheme = address + " http2" * http2, "", "http"
        if certificate is not None:
            listen, scheme = f"{listen} ssl", "https"
            more = f"ssl_certificate {certificate}; ssl_certificate_key {certificate};"
        file = place.resolve() / f"{address}.conf"
        file.write_text(_CONFIGURATION.format(listen=listen, more=more))
        command = f"echo nginx {scheme}://{address}; exec nginx -p {file.parent} -c {file}"
        super().__init__(["sh", "-c", command], "nginx")
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                load.connect(self.address).sock.close()
                return
            if time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"nginx does not listen on {address}")
            time.sleep(0.05)
