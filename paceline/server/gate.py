"""How many outputs may run and wait at once; who comes beyond that is told when to come again.

Once it is closed nobody is let in any more, and the server may stop when it is empty.
"""

from __future__ import annotations

import math

from paceline.server.failures import ApiError

_WEIGHT = 0.1
"""Of the newest request in the mean of their times."""


class Gate:
    """Counts the outputs inside."""

    def __init__(self, at_once: int, max_queue: int) -> None:
        """`at_once` of them run, `max_queue` more may wait."""
        self._at_once, self._room = at_once, at_once + max_queue
        self.inside = 0
        self.closed = False
        self._mean_s = 1.0

    def enter(self, count: int) -> None:
        """Let `count` outputs in.

        Raises:
            ApiError: 400 if they never fit, 429 if they do not now, 503 once it is closed.
        """
        self.check_open()
        if count > self._room:
            raise ApiError(
                400, f"The request wants {count} outputs and the server holds {self._room}.", "n"
            )
        if self.inside + count > self._room:
            waiting = self.inside + count - self._room
            seconds = max(1, math.ceil(self._mean_s * waiting / self._at_once))
            raise ApiError(
                429,
                f"The server is full; try again in {seconds} s.",
                code="overloaded",
                headers={"Retry-After": str(seconds)},
            )
        self.inside += count

    def check_open(self) -> None:
        """Raise ApiError 503 once it is closed."""
        if self.closed:
            raise ApiError(
                503,
                "The server is stopping; send the request again.",
                code="stopping",
                headers={"Retry-After": "1", "Connection": "close"},
            )

    def leave(self, count: int, seconds: float) -> None:
        """Let them out again, after `seconds` inside."""
        self.inside -= count
        self._mean_s += _WEIGHT * (seconds - self._mean_s)
