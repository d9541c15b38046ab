"""The composition root of the streaming runtime; reads the variables that Lambda gives every runtime.

Does what AWS's bootstrap does before it hands over to its client, and no more: `.pth` files are honoured in the
directories that the exec wrapper put on the path.
"""

import gc
import os
import site

from awslambdaric import bootstrap

from mcp_baton.transport.runtime.client import StreamingRuntimeClient


def main() -> None:
    """Serve invocations of `_HANDLER` from `AWS_LAMBDA_RUNTIME_API` until the process is stopped."""
    # What is imported stays: to look for garbage among it is a twentieth of a cold start. The client goes on with it.
    gc.disable()
    for directory in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        site.addsitedir(directory)
    bootstrap.run(os.environ["_HANDLER"], StreamingRuntimeClient(os.environ["AWS_LAMBDA_RUNTIME_API"]))


if __name__ == "__main__":
    main()
