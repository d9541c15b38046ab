"""The composition root: the server with everything it publishes, as a Lambda handler."""

import orders
import sales
from mcp_baton.aws import handler
from shop import server

server.add_workflow(orders.refund_order)
server.add_workflow(sales.monthly_report)

lambda_handler = handler(server)
