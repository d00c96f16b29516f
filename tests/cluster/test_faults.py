"""What a cluster does when something that it needs is gone or slow: nothing wrong is answered, and it goes on by itself."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError, HTTPClientError
from tests.cluster.conftest import LEASE_SECONDS, Cluster, Database, once
from tests.cluster.test_nodes import role
from tests.fixtures.waiting import wait_until

BUCKET = "photos"


def test_an_owner_that_was_frozen_gives_no_stale_answer(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    first.client().create_bucket(Bucket=BUCKET)
    first.client().put_object(Bucket=BUCKET, Key="k", Body=b"old")
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)
    client = second.client()
    once(lambda: client.put_object(Bucket=BUCKET, Key="k", Body=b"new"), 10 * LEASE_SECONDS)
    answers: list[bytes] = []

    def ask(asking: Any) -> None:
        try:
            answers.append(asking.get_object(Bucket=BUCKET, Key="k")["Body"].read())
        except ClientError as error:
            answers.append(str(error.response["Error"]["Code"]).encode())

    asking = [threading.Thread(target=ask, args=(first.client(),)) for _ in range(8)]
    for thread in asking:
        thread.start()
    time.sleep(0.2)
    # The requests wait in its sockets.
    first.process.send_signal(signal.SIGCONT)
    for thread in asking:
        thread.join()
    assert set(answers) <= {b"new", b"ServiceUnavailable"}
    assert once(lambda: first.client().get_object(Bucket=BUCKET, Key="k")["Body"].read(), 20) == b"new"


@pytest.mark.full
@pytest.mark.parametrize("cluster", ["rows"], indirect=True)
def test_without_the_database_nothing_is_acknowledged_and_it_goes_on_afterwards(
    cluster: Cluster, database: Database
) -> None:
    first, second = cluster.add(), cluster.add()
    first.client().create_bucket(Bucket=BUCKET)
    first.client().put_object(Bucket=BUCKET, Key="before", Body=b"before")
    database.stop()
    try:
        with pytest.raises(ClientError):
            second.client(seconds=60).put_object(Bucket=BUCKET, Key="during", Body=b"during")
        assert wait_until(lambda: refused_to_read(first), 4 * LEASE_SECONDS)
    finally:
        database.start()
    client = second.client()
    assert once(lambda: client.get_object(Bucket=BUCKET, Key="before")["Body"].read(), 60) == b"before"
    once(lambda: client.put_object(Bucket=BUCKET, Key="after", Body=b"after"), 30)
    assert wait_until(lambda: "owner" in {role(first), role(second)}, 30)


def refused_to_read(node: Any) -> bool:
    try:
        node.client().get_object(Bucket=BUCKET, Key="before")
    except ClientError as error:
        return str(error.response["Error"]["Code"]) == "ServiceUnavailable"
    except HTTPClientError:
        # A connection that was new when the node went into another role has no request yet, and is closed.
        return False
    return False
