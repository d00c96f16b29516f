"""kill -9 of a server while identities change: what is in effect afterwards is what the audit log says, and it is whole."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

import orcas
from orcas.control.audit import verify
from orcas.control.files.audit import read_audit

pytestmark = pytest.mark.crash

ROUNDS = 4
CLIENTS = 3


def in_effect(data: Path) -> set[str]:
    """The users that there are, as far as the audit log says."""
    lines = [read.content for read in read_audit(data)]
    undone: set[int] = set()
    for line in lines:
        assert line is not None
        if line["action"] == "NotInEffect":
            undone |= set(range(line["parameters"]["From"], line["parameters"]["To"] + 1))
    return {
        line["parameters"]["UserName"]
        for line in lines
        if line is not None and line["action"] == "CreateUser" and line["sequence"] not in undone
    }


def make_users(iam: Any, name: str, answered: set[str], first: threading.Event) -> None:
    """Until the server is gone."""
    for number in range(10_000):
        try:
            iam.create_user(UserName=f"{name}-{number}")
        except (BotoCoreError, ClientError):
            return
        answered.add(f"{name}-{number}")
        first.set()


def test_changes_under_kill(tmp_path: Path) -> None:
    seed = os.environ.get("CRASH_SEED") or secrets.token_hex(4)
    chosen, answered = random.Random(seed), set[str]()
    for number in range(ROUNDS):
        with contextlib.ExitStack() as stack:
            server = orcas.Server(tmp_path)
            first, threads = threading.Event(), []
            for client in range(CLIENTS):
                iam = stack.enter_context(contextlib.closing(server.client("iam")))
                given = (iam, f"u{number}-{client}", answered, first)
                threads.append(threading.Thread(target=make_users, args=given))
            for thread in threads:
                thread.start()
            assert first.wait(30), seed
            # Somewhere within the next changes.
            threading.Event().wait(chosen.uniform(0, 0.1))
            os.kill(server.pid, signal.SIGKILL)
            for thread in threads:
                thread.join(60)
            server.kill()
        with orcas.Server(tmp_path) as again, contextlib.closing(again.client("iam")) as iam:
            pages = iam.get_paginator("list_users").paginate()
            users = {user["UserName"] for page in pages for user in page["Users"]}
        assert answered <= users, seed
        assert users == in_effect(tmp_path), seed
        verify(tmp_path)
