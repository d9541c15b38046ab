"""The composition root: the server with everything it publishes, as a Lambda handler.

Each module registers its tools and workflows with the server when it is imported.
"""

import orders  # noqa: F401 - registers the refund
import sales  # noqa: F401 - registers the report
from mcp_baton.aws import handler
from shop import server

lambda_handler = handler(server)
