"""An ASGI application as a handler through Mangum, with a lifespan that stays open.

Mangum runs the lifespan at every invocation, but the official SDK's application supports that only once.
"""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from mangum import Mangum

_LIFESPANS = AsyncExitStack()
"""Kept until the process ends: a garbage-collected lifespan would end."""


def held_open(app: Any) -> Any:
    """Enter the application's lifespan and never leave it. Let Mangum handle requests without a lifespan."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_LIFESPANS.enter_async_context(app.router.lifespan_context(app)))
    return Mangum(app, lifespan="off")
