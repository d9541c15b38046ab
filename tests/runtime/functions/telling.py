"""Serves the handler that `SERVED` names, and reports the state of the process if an event asks for it."""

import gc
import importlib
import os
import sys
from typing import Any

_module, _, _name = os.environ["SERVED"].partition(".")
_serve = getattr(importlib.import_module(_module), _name)
_was_enabled = gc.isenabled()
_loaded: list[str] = []


def handler(event: dict[str, Any], context: object) -> object:
    """Return the handler's response, the modules loaded after the last one, or the state of the garbage collector."""
    match event.get("tell"):
        case "modules":
            return _loaded
        case "collector":
            return {"enabled at import": _was_enabled, "enabled": gc.isenabled(), "frozen": gc.get_freeze_count()}
        case _:
            answer = _serve(event, context)
            _loaded[:] = sorted(sys.modules)  # before work that is deferred until after the response
            return answer
