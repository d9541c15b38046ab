"""A function that cannot be imported."""

raise RuntimeError("no table is configured")
