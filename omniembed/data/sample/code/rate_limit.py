"""Limiting how often something may happen."""

from __future__ import annotations

import time


class TokenBucket:
    """Allow ``rate`` events a second on average, and bursts of up to ``capacity``."""

    def __init__(self, rate: float, capacity: int) -> None:
        self.rate = rate
        self.capacity = capacity
        self._tokens = float(capacity)
        self._filled_at = time.monotonic()

    def try_acquire(self) -> bool:
        """Take one token if there is one, without waiting."""
        now = time.monotonic()
        gained = (now - self._filled_at) * self.rate
        self._tokens = min(self.capacity, self._tokens + gained)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def retry_with_backoff(action, attempts: int = 5, first_delay: float = 0.1):
    """Call ``action`` again after a failure, doubling the pause each time."""
    delay = first_delay
    for attempt in range(attempts):
        try:
            return action()
        except ConnectionError:
            if attempt == attempts - 1:
                raise
            time.sleep(delay)
            delay *= 2
