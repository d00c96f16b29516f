"""The limits of one turn of the event loop for large bodies and for new connections."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop
from uvicorn.server import ServerState

from orcas.http.protocol import LimitedProtocol
from orcas.s3.dispatch import _Turns
from orcas.serve import _Server, bound, listeners

TURN = 1000
CONNECTIONS = 48


@pytest.mark.parametrize("piece", [1, 300, 1000, 5000])
async def test_bodies_that_never_wait_leave_every_turn_to_others(piece: int) -> None:
    turns = _Turns(asyncio.get_running_loop(), TURN)
    sent = [0] * 20

    async def send(number: int) -> None:
        while True:
            await turns.take(piece)
            sent[number] += piece

    senders = [asyncio.create_task(send(number)) for number in range(len(sent))]
    for turn in range(1, 200):
        # One turn of the loop.
        await asyncio.sleep(0)
        assert sum(sent) <= turn * (TURN + piece)
    assert sum(sent) >= 150 * TURN
    assert min(sent) >= 100 * min(piece, TURN / len(sent)), "none is left out"
    for sender in senders:
        sender.cancel()
    await asyncio.gather(*senders, return_exceptions=True)
    await asyncio.wait_for(turns.take(piece), 5)


async def test_one_that_gave_up_takes_nothing_from_a_turn() -> None:
    turns = _Turns(asyncio.get_running_loop(), TURN)
    await turns.take(TURN)
    gone = [asyncio.create_task(turns.take(TURN)) for _ in range(100)]
    await asyncio.sleep(0)
    for waiting in gone[1:]:
        waiting.cancel()
    served = asyncio.create_task(turns.take(1))
    for _ in range(6):
        await asyncio.sleep(0)
    assert served.done()


def test_a_connection_whose_clock_fails_ends_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Connection(LimitedProtocol):
        def __init__(self, *, fails: bool) -> None:
            self.fails, self.ticks, self.aborts = fails, 0, 0
            self.transport = self  # type: ignore[assignment]

        def tick(self) -> None:
            self.ticks += 1
            assert not self.fails, "expected by this test"

        def abort(self) -> None:
            self.aborts += 1

    server = _Server.__new__(_Server)
    server.server_state = ServerState()
    connections = [Connection(fails=number == 1) for number in range(3)]
    server.server_state.connections.update(connections)
    server._tick_connections()
    assert [connection.ticks for connection in connections] == [1, 1, 1]
    assert [connection.aborts for connection in connections] == [0, 1, 0]
    assert len(caplog.records) == 1


def test_a_burst_of_connections_is_accepted_in_a_few_turns() -> None:
    loop = uvloop.new_event_loop()
    accepted: list[int] = []
    turn = 0

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.append(turn)

    async def run() -> None:
        nonlocal turn
        with bound("127.0.0.1", 0) as listener:
            sockets = listeners(listener)
            servers = [await loop.create_server(Protocol, sock=one) for one in sockets]
            clients = [socket.create_connection(listener.getsockname()) for _ in range(CONNECTIONS)]
            while len(accepted) < CONNECTIONS and turn < 1_000:
                await asyncio.sleep(0)
                turn += 1
            for server in servers:
                server.close()
            for client in clients:
                client.close()

    loop.run_until_complete(run())
    loop.close()
    assert len(accepted) == CONNECTIONS
    assert accepted[-1] - accepted[0] < CONNECTIONS / 4
