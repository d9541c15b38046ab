"""Seeds that broke an invariant once, of Baton as it was or with a mistake in it. They are always simulated.

What a seed is changes with what simulations draw, so this is a memory of luck rather than of mistakes: each mistake that
was mended has a test of its own, and `mutants.py` has those that must never come back.
"""

ONCE_FAILED: tuple[int, ...] = (14, 44, 166, 208, 279, 374, 433, 574, 683, 846, 1583, 1925, 2328, 2453, 2475, 2737)
