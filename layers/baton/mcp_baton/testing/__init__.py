"""A client of a server in this process, for tests of tools and workflows (docs/testing.md).

```python
from mcp_baton.testing import connect

with connect(server) as client:
    run = client.get_prompt("refund_order", {"order_id": "A-17"})
```

`mcp_baton.testing.public` lists the public names. They are imported when one of them is first used, because pytest
loads this package, with the plugin in it, wherever Baton is installed.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_baton.testing.public import *  # noqa: F403 - `mcp_baton.testing.public.__all__` is the list
    from mcp_baton.testing.public import __all__ as __all__


def __getattr__(name: str) -> object:
    from importlib import import_module

    public = import_module("mcp_baton.testing.public")
    if name != "__all__" and name not in public.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(public, name)
    return value


def __dir__() -> list[str]:
    from mcp_baton.testing.public import __all__ as names

    return sorted({*globals(), *names})
