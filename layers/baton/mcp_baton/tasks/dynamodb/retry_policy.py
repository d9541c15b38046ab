"""For how long a request is sent again, and after which pauses (docs/storage.md, Throttling; Lost answers). Pure."""

from msgspec import Struct

ATTEMPT_S = 1.0
"""What one attempt may take, seconds: the time limits of the client (`mcp_baton.clients`)."""

REPLY_S = 0.3
"""What is kept of a function's time for its reply, seconds."""

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0

FIRST_RACE_S = 0.005
LONGEST_RACE_S = 0.1


class RetryPolicy(Struct, frozen=True):
    """For how long a request is sent again, seconds from its first attempt.

    Attributes:
        throttled_s: While DynamoDB says that it is asked for more than it can bear.
        unanswered_s: While it cannot be reached, does not answer or fails. At most 30: a token lives for 60.
        kept_s: Of the function's time, what is kept for the requests that come after it.
    """

    throttled_s: float
    unanswered_s: float
    kept_s: float = 0.0

    def pause_s(
        self, attempt: int, since_s: float, left_s: float | None, rng: float, *, throttled: bool
    ) -> float | None:
        """The pause before the next attempt, seconds; `None` where there is to be none.

        Args:
            attempt: How many attempts there have been.
            since_s: Seconds since the first one began.
            left_s: Seconds until the function is stopped; `None` where nothing stops it.
            rng: A number from 0 up to 1: each pause is drawn from all up to the longest, so that those who were
                refused together do not come back together.
            throttled: Whether DynamoDB refused for now; otherwise it was silent.
        """
        pause_s = rng * min(FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 16), LONGEST_PAUSE_S)
        budget_s = self.throttled_s if throttled else self.unanswered_s
        if since_s + pause_s >= budget_s:
            return None
        if left_s is not None and left_s - pause_s < ATTEMPT_S + REPLY_S + self.kept_s:
            return None
        return pause_s


READ = RetryPolicy(throttled_s=10.0, unanswered_s=4.0)
CREATE = RetryPolicy(throttled_s=0.5, unanswered_s=2.0)
"""Of what comes before anything runs. To wait longer adds no capacity, and costs those who have begun to run theirs."""

RENEW = RetryPolicy(throttled_s=0.0, unanswered_s=0.0)
"""The thread that renews has a client to answer, and renews again soon."""

WRITE = RetryPolicy(throttled_s=10.0, unanswered_s=10.0)
END = RetryPolicy(throttled_s=20.0, unanswered_s=10.0)
"""Of the end of a run: what it has done stands nowhere else."""

CHECKPOINT = RetryPolicy(throttled_s=20.0, unanswered_s=10.0, kept_s=3 * ATTEMPT_S)
"""Of a checkpoint: the end of the run writes what it could not, and needs time for that."""


def race_pause_s(races: int, rng: float) -> float:
    """The pause after a write that lost its race so many times, seconds: full jitter, at most a tenth of a second."""
    return rng * min(FIRST_RACE_S * 2.0 ** min(races - 1, 16), LONGEST_RACE_S)


def random_fraction() -> float:
    """A number from 0 up to 1."""
    from random import random

    return random()
