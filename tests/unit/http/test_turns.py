"""The limits of one turn of the event loop for large bodies."""

from __future__ import annotations

import asyncio

import pytest

from orcas.s3.dispatch import _Turns

TURN = 1000


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
