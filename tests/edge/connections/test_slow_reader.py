"""An object of 10 GB for a client that reads it slowly: the server keeps a few pieces of it, however long it takes."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import pytest
from tests.fixtures.servers.memory import resident
from tests.fixtures.wire import Signer

import orcas

MIB = 1 << 20
PART = 64 * MIB
PARTS = 160
# After each so many bytes, the reader pauses, and the server has time to read ahead of it.
BYTES_BETWEEN = 100 * MIB
PAUSE_SECONDS = 0.05
GROWTH_MAX = 64 * MIB


def large_object(signer: Signer, path: str) -> int:
    """Make an object that repeats one part, which is stored once. Its size."""
    part = bytes(range(256)) * (PART // 256)
    assert signer.roundtrip(signer.request("PUT", "/slow/part", body=part, payload="UNSIGNED-PAYLOAD")).status == 200
    upload = signer.roundtrip(signer.request("POST", path, [("uploads", "")])).document().findtext("UploadId", "")
    listed = ""
    for number in range(1, PARTS + 1):
        query = [("partNumber", str(number)), ("uploadId", upload)]
        copied = signer.roundtrip(signer.request("PUT", path, query, [("x-amz-copy-source", "/slow/part")]))
        listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{copied.document().findtext('ETag')}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    assert signer.roundtrip(signer.request("POST", path, [("uploadId", upload)], body=document)).status == 200
    return PART * PARTS


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel does not show it")
def test_ten_gigabytes_to_a_slow_reader_take_little_memory() -> None:
    with orcas.Server(memory=True) as server:
        signer = Signer.of(server)
        assert signer.roundtrip(signer.request("PUT", "/slow")).status == 200
        size = large_object(signer, "/slow/large")
        before = peak = resident(server.pid)
        with socket.create_connection((signer.host, signer.port), 60) as client:
            client.sendall(signer.request("GET", "/slow/large", headers=[("connection", "close")]))
            buffer, received, paused = bytearray(MIB), 0, 0
            while read := client.recv_into(buffer):
                received += read
                if received - paused >= BYTES_BETWEEN:
                    paused = received
                    time.sleep(PAUSE_SECONDS)
                    peak = max(peak, resident(server.pid))
        assert 0 < received - size < 4096, "a head, and all of the object"
        sys.stdout.write(f"{(peak - before) / MIB:.1f} MiB above idle\n")
        assert peak - before <= GROWTH_MAX
