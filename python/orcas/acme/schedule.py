"""When a certificate is renewed, and how long an attempt waits after others have failed. Pure.

Times are in seconds. `luck` is a random number from 0 to 1, which spreads what many servers do.
"""

from __future__ import annotations

from typing import Final

_MINUTE: Final = 60.0
_HOUR: Final = 60 * _MINUTE
# Between two attempts, whatever their results. A CA has limits, such as five failures in an hour.
PAUSE_MIN: Final = _MINUTE
_REST_MAX: Final = 6 * _HOUR
# By luck, pauses are up to a quarter longer.
PAUSE_MAX: Final = 1.25 * _REST_MAX
_PAUSE_FACTOR: Final = 4.0
_ASK_MIN: Final = 10 * _MINUTE
ASK_MAX: Final = 24 * _HOUR


def renewal(begins: float, ends: float, suggested: float | None, luck: float) -> float:
    """When to renew a certificate: when the CA suggests it, else when a third of its life is left, or a little earlier."""
    life = ends - begins
    if suggested is None:
        return ends - life / 3 - luck * life / 30
    # A CA that suggests a later time would leave no time for failures.
    return min(suggested, ends - life / 6)


def rest(life: float) -> float:
    """How long to wait in any case after a certificate has come. `life`: how long it is valid."""
    return max(PAUSE_MIN, min(_REST_MAX, life / 12))


def pause(failures: int, life: float, luck: float) -> float:
    """How long to wait after so many failures in a row. `life`: that of the certificate in use, or infinite."""
    return min(rest(life), PAUSE_MIN * _PAUSE_FACTOR ** min(failures - 1, 10)) * (1 + luck / 4)


def next_question(now: float, wished: float) -> float:
    """When to ask the CA again what it suggests. `wished`: when it wants to be asked."""
    return min(max(wished, now + _ASK_MIN), now + ASK_MAX)
