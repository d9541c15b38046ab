"""Seeds that broke an invariant once, of Baton as it was or with a guard taken out. They are always simulated.

What happens in a seed changes with what simulations draw. So each mistake that was mended has a test of its own, too,
and `mutants.py` has guards that must never be missing.
"""

ONCE_FAILED: tuple[int, ...] = (
    14,
    44,
    166,
    208,
    279,
    286,
    374,
    433,
    574,
    683,
    846,
    890,
    1408,
    1733,
    1874,
    2438,
    2641,
    2874,
    3486,
    8857,
    13311,
    15137,
    31030,
)
