"""The entry point of the streaming runtime. It reads the variables that Lambda sets for every runtime.

Like AWS's bootstrap, it processes the `.pth` files of the directories that the exec wrapper added to the path.
"""

import gc
import os
import site

from awslambdaric import bootstrap

from mcp_baton.transport.runtime.client import StreamingRuntimeClient


def main() -> None:
    """Handle invocations with `_HANDLER` until the process is stopped."""
    # Imports produce hardly any garbage, and collecting it takes 5 % of a cold start. The client enables it again.
    gc.disable()
    for directory in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        site.addsitedir(directory)
    bootstrap.run(os.environ["_HANDLER"], StreamingRuntimeClient(os.environ["AWS_LAMBDA_RUNTIME_API"]))


if __name__ == "__main__":
    main()
