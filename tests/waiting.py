"""Waits for a condition. Only a fault reaches the limit, because a busy host may stand still for
minutes."""

import time
from collections.abc import Callable

LIMIT_S = 600


def wait_until(what: str, condition: Callable, limit_s: float = LIMIT_S, pause_s: float = 0.005):
    """Returns the condition's first value that is true. Raises TimeoutError if there is none in
    time."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {limit_s} s in vain until {what}")
        time.sleep(pause_s)
    return found
