"""The price of measured work on AWS, and of the same work on other AWS services, with all assumptions.

These are list prices of us-east-1 in dollars, without free tiers, from public copies of AWS's price pages of November
2026. docs/cost.md repeats the prices and assumptions; a test compares them.
"""

from dataclasses import dataclass

from costs.metering import Usage
from costs.workloads import Workload

MILLION = 1_000_000

API_REQUEST = 3.50
"""A million requests: https://aws.amazon.com/api-gateway/pricing/ (REST, the first 333 million of a month)."""
LAMBDA_REQUEST = 0.20
"""A million invocations: https://aws.amazon.com/lambda/pricing/"""
GB_SECOND = 13.3334
"""A million GB-seconds on arm64: the same page."""
WRITE_UNIT, READ_UNIT = 0.625, 0.125
"""A million units: https://aws.amazon.com/dynamodb/pricing/on-demand/"""
TRANSITION = 25.00
"""A million state transitions of Step Functions Standard: https://aws.amazon.com/step-functions/pricing/"""
EXPRESS_REQUEST, EXPRESS_GB_SECOND = 1.00, 16.67
"""A million executions, and GB-seconds, of Step Functions Express: the same page."""
DURABLE_OPERATION, DURABLE_GB, DURABLE_GB_MONTH = 8.00, 0.25, 0.15
"""Lambda durable functions, a million operations; a GB written; a GB kept for a month: https://aws.amazon.com/lambda/pricing/"""

MEMORY_GB = 0.5
PROCESSOR_SHARE = 1_769 / 512
"""A function has a whole processor at 1,769 MB (https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html)."""
DYNAMODB_S = 0.005
"""The duration of a request, seconds. Requests are counted as if they were sent one after the other."""
ORCHESTRATOR_WAIT_S = 0.020
"""How long the MCP server of another service waits for its orchestrator in each request, seconds. Its CPU time is that
of Baton."""
TOOL_S = 0.020
"""The duration of the function that Step Functions starts for each tool, seconds."""
EXECUTION_GB, EXECUTION_S = 0.0625, 0.2
"""An Express execution: its minimum memory, GB, and its duration, seconds."""
REPLAY_S = 0.050
"""The duration of each invocation of a durable function without the work of its steps, seconds. It is invoked at its
start and after each callback."""
INPUT_KB = 1
RETENTION_DAYS, MONTH_DAYS = 14, 30


@dataclass(frozen=True, slots=True)
class Dollars:
    """The price of a million workflows.

    Attributes:
        http: The price of the requests to API Gateway and Lambda.
        compute: The price of Lambda's compute time.
        state: The price of storing the state: in DynamoDB, or in another service.
    """

    http: float
    compute: float
    state: float

    @property
    def total(self) -> float:
        """The sum."""
        return self.http + self.compute + self.state


def baton(usage: Usage) -> Dollars:
    """Return the price with Baton."""
    seconds = usage.cpu_s * PROCESSOR_SHARE + usage.requests * DYNAMODB_S
    state = usage.writes * WRITE_UNIT + usage.reads * READ_UNIT
    return Dollars(_http_price(usage.http), _compute_price(seconds), state)


def standard(workload: Workload, usage: Usage) -> Dollars:
    """Return the price of an MCP server in front of Step Functions Standard.

    There is one transition for each step, one for the start and one for the end. A client's step is one
    `waitForTaskToken` state. Each tool that the server runs is a separate function. Results are read from the history.
    The limit of 256 KB for a result is ignored.
    """
    state = (workload.steps + 2) * TRANSITION
    return _with_mcp_server(usage, state, _tools_price(workload))


def express(workload: Workload, usage: Usage) -> Dollars:
    """Return the price of an MCP server in front of Step Functions Express, which cannot wait for a client.

    Each run of the server is one execution. Between two executions, the state is stored as Baton stores it.
    """
    baton_price = baton(usage)
    executions = workload.runs * (EXPRESS_REQUEST + EXECUTION_GB * EXECUTION_S * EXPRESS_GB_SECOND)
    return _with_mcp_server(usage, baton_price.state + executions, _tools_price(workload))


def durable(workload: Workload, usage: Usage) -> Dollars:
    """Return the price of an MCP server in front of Lambda durable functions.

    There is one operation for the start, one for each step, and three for each callback. Each result is written once,
    that of a callback twice. All are kept for 14 days.
    """
    by_server = workload.before + workload.after
    operations = 1 + by_server + 3 * workload.by_client
    gb = written_kb(workload) * MILLION / 1_000_000
    storage = gb * DURABLE_GB_MONTH * RETENTION_DAYS / MONTH_DAYS
    invocations = (1 + workload.by_client) * (LAMBDA_REQUEST + _compute_price(REPLAY_S))
    return _with_mcp_server(usage, operations * DURABLE_OPERATION + gb * DURABLE_GB + storage, invocations)


def written_kb(workload: Workload) -> int:
    """Return how much a durable execution writes, KB."""
    return INPUT_KB + workload.kb * (workload.before + workload.after + 2 * workload.by_client)


def _with_mcp_server(usage: Usage, state: float, more_compute: float) -> Dollars:
    seconds = usage.cpu_s * PROCESSOR_SHARE + usage.requests * DYNAMODB_S + usage.http * ORCHESTRATOR_WAIT_S
    return Dollars(_http_price(usage.http), _compute_price(seconds) + more_compute, state)


def _tools_price(workload: Workload) -> float:
    return (workload.before + workload.after) * (LAMBDA_REQUEST + _compute_price(TOOL_S))


def _http_price(requests: int) -> float:
    return requests * (API_REQUEST + LAMBDA_REQUEST)


def _compute_price(seconds: float) -> float:
    return seconds * MEMORY_GB * GB_SECOND
