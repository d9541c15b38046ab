"""An ASGI application as a handler through Mangum, with its lifespan held open.

Mangum runs the lifespan at every invocation, which the official SDK's application survives only once.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from mangum import Mangum

_HELD = AsyncExitStack()
"""Kept for the life of the process: a lifespan that is garbage collected ends."""


def held_open(app: Any) -> Any:
    """Enter the application's lifespan for good, and hand its requests to Mangum without one."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_HELD.enter_async_context(app.router.lifespan_context(app)))
    return Mangum(app, lifespan="off")
