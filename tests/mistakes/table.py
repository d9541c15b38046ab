"""Mistakes of new users, and what the error must contain: the problem, the line, and the remedy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PRELUDE = '''\
"""A shop."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from mcp_baton import (
    Argument,
    Context,
    Depends,
    Fetch,
    Retry,
    Server,
    ToolStep,
    Workflow,
    constant,
    prompt_arg,
    step_output,
)
from mcp_baton.aws import handler

server = Server("shop")


@dataclass
class Order:
    total: float
    email: str


@server.tool
def fetch_order(order_id: Annotated[str, "Which order"]) -> Order:
    """Fetch one order."""
    return Order(30.0, "kim@example.com")


@server.tool
def refund(order_id: Annotated[str, "Which order"], amount: Annotated[float, "EUR"]) -> None:
    """Refund an order."""


ORDER_ID = Argument("order_id", "Which order", required=True)
FETCH = ToolStep("fetch", tool=fetch_order, arguments={"order_id": prompt_arg("order_id")}, binding="order")


'''
"""The correct server before each mistake. The lines of the mistake follow it."""

EPILOGUE = "\n\nlambda_handler = handler(server)\n"
"""The handler after each mistake. It would raise the first error."""

HERE = "# here"
"""Marks the line that the error must name."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake.

    Attributes:
        source: The lines after `PRELUDE`.
        says: Texts that the message must contain.
        remedy: A text that its second line must contain; empty for an error of Python.
        warning: Whether the server works, and only `baton check` reports it.
        at_run: Whether the server starts and a workflow fails, so that only `baton check` reports it.
        other_files: Further files, by name.
        environment: Environment variables.
        is_complete: Whether `PRELUDE` is left out.
    """

    name: str
    source: str
    says: tuple[str, ...]
    remedy: str
    warning: bool = False
    at_run: bool = False
    other_files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    is_complete: bool = False

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.source if self.is_complete else PRELUDE + self.source + EPILOGUE

    @property
    def line(self) -> int | None:
        """The number of the marked line; `None` without a mark."""
        lines = self.text.splitlines()
        return next((number for number, line in enumerate(lines, 1) if line.endswith(HERE)), None)


ID = 'prompt_arg("order_id")'
COUNT = '    """Count."""\n    return 1\n'
IDS = "def ids(text: str) -> list[str]:\n    return []\n"
CONNECTION = "class Connection:\n    pass\n\n\n"
PATH_STEP = 'ToolStep("pay", tool=refund, arguments={"order_id": prompt_arg("order_id"), "amount": %s})'


def flow(*steps: str, arguments: str = "[ORDER_ID]", name: str = "refund_order", options: str = "") -> str:
    """Return lines that add a workflow of these steps, one line each. The mark is on the first marked step's line,
    or else on the line of the workflow.
    """
    mark = "" if any(step.endswith(HERE) for step in steps) else f"  {HERE}"
    lines = "".join(
        f"            {step.removesuffix(HERE).rstrip()},{f'  {HERE}' * step.endswith(HERE)}\n" for step in steps
    )
    return (
        f"server.add_workflow(\n    Workflow({mark}\n        name={name!r},\n        description='refund an order',\n"
        f"        arguments={arguments},\n        steps=[\n{lines}        ],\n{options})\n)\n"
    )


FIRST = "order = step(fetch_order)(order_id=order_id)"


def function(
    *lines: str, header: str = '@server.workflow\ndef refund_order(order_id: Annotated[str, "Which order"])'
) -> str:
    """Return lines that define a workflow with a function. `order` is the result of its first step."""
    body = "".join(f"    {line}\n" for line in ('"""Refund an order."""', FIRST, *lines))
    return f"from mcp_baton import ask_model, ask_user, exists, fetch, item, step\n\n\n{header} -> None:\n{body}"


STOCKROOM = f"""\
from collections.abc import Callable


{CONNECTION}@dataclass
class Shelf:
    db: Connection


def connect() -> Connection:
    return Connection()


"""
PARAMETERS = (
    ("a parameter of a type that cannot be described", "db: Connection, sku: str", ("'db'", "Connection"), "Depends"),
    ("a type within another", "links: list[Connection] | None = None", ("'links'", "Connection"), "Depends"),
    ("a field of a dataclass that cannot be described", "shelf: Shelf", ("'shelf'", "Connection"), "Depends"),
    ("a type of which pydantic makes no schema", "key: Callable[[int], str]", ("'key'", "Callable"), "Depends"),
    ("an annotation that names nothing", 'sku: "Sku"', ("'Sku'",), "import"),
    ("a Context without its annotation", "sku: str, ctx", ("'ctx'", "no annotation"), "ctx: Context"),
    ("*args", "*skus: str", ("*skus",), "skus: list[str]"),
    ("**kwargs", "**filters: str", ("**filters",), "filters: dict[str, str]"),
    ("Depends without its factory", "db: Annotated[int, Depends]", ("'db'", "Depends"), "Depends("),
    ("a factory as a default without Depends", "db: Connection = connect", ("'db'", "connect"), "Depends(connect)"),
    ("a parameter without a description", "sku: str", ("'sku'", "description"), "Annotated[str,"),
)
"""Mistakes in the tool `stock`: the name, the parameters, texts that the message must contain beside the tool, and
the remedy. The server works with the last one, so it is a warning.
"""

RIGHT_PATH = "step_output('order', 'total')"
SOURCES = (
    ("a misspelt binding", 'step_output("ordr", "total")', ("'ordr'",), "did you mean 'order'?"),
    ("a step's name in the place of its binding", 'step_output("fetch", "total")', ("'fetch'",), RIGHT_PATH),
    ("a misspelt field of an output", 'step_output("order", "totl")', ("'totl'", "total, email"), "mean 'total'?"),
    ("a field that the output does not have", 'step_output("order", "currency")', ("'currency'",), "has total, email"),
    ("a path within the binding", 'step_output("order.total")', ("'order.total'",), RIGHT_PATH),
    ("a function in the place of a binding", 'step_output(fetch_order, "total")', ("fetch_order",), RIGHT_PATH),
    (
        "a dict in the place of a source",
        '{"from": "order"}',
        ("'amount'", "no data source"),
        "constant({'from': 'order'})",
    ),
    ("a path as a text in the place of a source", '"order.total"', ("'order.total'", "no data source"), RIGHT_PATH),
)
"""Mistakes in the argument `amount` of the second step, `pay`."""

OF_ORDER = "did you mean 'order_id'?"
ARGUMENTS = (
    ("a misspelt prompt argument", '{"order_id": prompt_arg("oder_id")}', ("'oder_id'",), OF_ORDER),
    ("an argument that no parameter takes", '{"ordr_id": prompt_arg("order_id")}', ("'ordr_id'",), OF_ORDER),
    ("an argument's name as a text", '{"order_id": "order_id"}', ("no data source",), "prompt_arg('order_id')"),
    (
        "a function that makes a source",
        '{"order_id": prompt_arg}',
        ("'order_id'", "prompt_arg"),
        "prompt_arg('order_id')",
    ),
    ("another function in its place", '{"order_id": fetch_order}', ("fetch_order", "no data source"), "step_output("),
    ("a constant that is not JSON", '{"order_id": constant({7})}', ("'order_id'", "not JSON"), "constant([7])"),
    ("a class as a constant", '{"order_id": constant(Order)}', ("'order_id'", "not JSON"), "texts, numbers"),
    ("a list of arguments", '["order_id"]', ("arguments",), "arguments={'order_id': prompt_arg('order_id')}"),
    ("a step of its own output", '{"order_id": step_output("fetch", "id")}', ("'fetch'", "itself"), "earlier step"),
)
"""Mistakes in the arguments of the first step, `fetch`."""

NO_STEPS = (
    ("a text in the place of a step", '"refund"', ("'refund'", "no step"), "ToolStep('refund', tool='refund'"),
    ("a function in the place of a step", "refund", ("refund", "no step"), "ToolStep('refund', tool=refund"),
)
"""Mistakes in place of the second step of the workflow `refund_order`."""

IN_TABLES = (
    *(
        Mistake(
            name,
            f"{STOCKROOM}@server.tool  {HERE}\ndef stock({parameters}) -> int:\n{COUNT}",
            ("tool 'stock'", *says),
            remedy,
            warning=(name, parameters, says, remedy) == PARAMETERS[-1],
        )
        for name, parameters, says, remedy in PARAMETERS
    ),
    *(
        Mistake(name, flow("FETCH", f"{PATH_STEP % source}  {HERE}"), ("step 'pay'", *says), remedy)
        for name, source, says, remedy in SOURCES
    ),
    *(
        Mistake(
            name,
            flow(f'ToolStep("fetch", tool=fetch_order, arguments={text})  {HERE}'),
            ("step 'fetch'", *says),
            remedy,
        )
        for name, text, says, remedy in ARGUMENTS
    ),
    *(
        Mistake(name, flow("FETCH", step), ("workflow 'refund_order'", *says), remedy)
        for name, step, says, remedy in NO_STEPS
    ),
)

REFUND = "step(refund)(order_id=order_id, amount=%s)"
AT_A_RUN = (
    # The name, the workflow, texts that the message must contain, the remedy, and `warning` or `at_run`.
    (
        "a text for a number in a function",
        function(f"{REFUND % repr('ten')}  {HERE}"),
        ("'ten'", "'amount'"),
        "its type",
        "at_run",
    ),
    (
        "a whole output for a number",
        flow("FETCH", f"{PATH_STEP % 'step_output("order")'}  {HERE}"),
        ("the output of 'fetch_order' is an object", "takes a number"),
        "another field",
        "at_run",
    ),
    (
        "a whole output for a number in a function",
        function(f"{REFUND % 'order'}  {HERE}"),
        ("the output of 'fetch_order' is an object", "takes a number"),
        "another field",
        "at_run",
    ),
    (
        "a text of an output for a number in a function",
        function(f"{REFUND % 'order.email'}  {HERE}"),
        ("'email'", "is a string"),
        "another field",
        "warning",
    ),
    (
        "a number for a text",
        flow(
            f'ToolStep("fetch", tool=fetch_order, arguments={{"order_id": {ID}}})  {HERE}',
            arguments='[Argument("order_id", "Which", required=True, type=int)]',
        ),
        ("the argument 'order_id' is a whole number", "takes a string"),
        "change one",
        "at_run",
    ),
    (
        "an answer for a text",
        function(
            'sure = ask_user("sure", "Sure?", returns=bool)', f"step(refund)(order_id=sure, amount=order.total)  {HERE}"
        ),
        ("the answer 'sure' is true or false",),
        "change one",
        "at_run",
    ),
    (
        "a misspelt argument in guidance in a function",
        function(f"step(refund, guidance='Mind {{oder_id}}')(order_id=order_id, amount=order.total)  {HERE}"),
        ("{oder_id}",),
        "mean 'order_id'?",
        "warning",
    ),
    (
        "a misspelt argument in a URI in a function",
        function(f"fetch('policy', 'docs://{{oder_id}}')  {HERE}"),
        ("{oder_id}",),
        "mean 'order_id'?",
        "",
    ),
    (
        "a misspelt argument in a question in a function",
        function(f"ask_user('sure', 'Refund {{oder_id}}?')  {HERE}"),
        ("{oder_id}",),
        "mean 'order_id'?",
        "",
    ),
    (
        "a required argument that nothing supplies",
        flow("FETCH", f'ToolStep("pay", tool=refund, arguments={{"order_id": {ID}}})  {HERE}'),
        ("'amount' of 'refund'", "pauses"),
        "ask_model('amount', '…') or ask_user('amount', '…')",
        "warning",
    ),
    (
        "a required argument that nothing supplies in a function",
        function(f"step(refund)(order_id=order_id)  {HERE}"),
        ("'amount' of 'refund'", "pauses"),
        "ask_model('amount', '…') or ask_user('amount', '…')",
        "warning",
    ),
    (
        "a misspelt field in brackets",
        function(f"{REFUND % 'order["totl"]'}  {HERE}"),
        ("'totl'",),
        "mean 'total'?",
        "",
    ),
    (
        "a misspelt field as an attribute",
        function(f"{REFUND % 'order.totl'}  {HERE}"),
        ("'totl'",),
        "mean 'total'?",
        "",
    ),
    ("an index of an object", function(f"{REFUND % 'order[0]'}  {HERE}"), ("'0'",), "it has total, email", ""),
)
RUNS = (
    *(
        Mistake(
            name, source, ("workflow 'refund_order'", *says), remedy, warning=kind == "warning", at_run=kind == "at_run"
        )
        for name, source, says, remedy, kind in AT_A_RUN
    ),
)

AMOUNTS = 'amount: Annotated[float, "EUR"], order_id: Annotated[str, "Which"]'


def approved(options: str, parameters: str = AMOUNTS, asynchronous: str = "") -> str:
    """Return the lines of a tool that needs an approval."""
    return (
        f"from mcp_baton import Approval\n\n{asynchronous}\n\n@server.tool(approval=Approval({options}))  {HERE}\n"
        f'def pay({parameters}) -> None:\n    """Pay."""\n'
    )


APPROVALS = (
    *(
        Mistake(name, source, ("tool 'pay': when of its approval", *says), remedy)
        for name, source, says, remedy in (
            (
                "a condition of an approval that does not take all arguments",
                approved("'treasury', when=lambda amount: amount > 100"),
                ("does not take 'order_id'",),
                "lambda amount, **_: …",
            ),
            (
                "a condition of an approval without arguments",
                approved("'treasury', when=lambda: True"),
                ("does not take 'amount', 'order_id'",),
                "lambda amount, **_: …",
            ),
            (
                "a condition of an approval with another argument",
                approved("'treasury', when=lambda amont, **_: amont > 100"),
                ("needs 'amont'",),
                "did you mean 'amount'?",
            ),
            (
                "a condition of an approval with positions",
                approved("'treasury', when=lambda amount, /, **_: amount > 100"),
                ("takes 'amount' by position, and gets it by name",),
                "leave out the /",
            ),
            (
                "an asynchronous condition of an approval",
                approved(
                    "'treasury', when=large", asynchronous="async def large(**_: object) -> bool:\n    return True"
                ),
                ("is asynchronous",),
                "write def",
            ),
        )
    ),
    Mistake(
        "a condition of a step's approval that does not take all arguments",
        "from mcp_baton import Approval\n"
        + function(
            "step(refund, approval=Approval('a', when=lambda amount: amount > 1))(order_id='A', amount=1.0)  # here"
        ),
        ("step 'refund': when of its approval does not take 'order_id'",),
        "lambda amount, **_: …",
    ),
    Mistake(
        "an approval without a group",
        "from mcp_baton import Approval\n\nTREASURY = Approval(message='Pay?')  # here\n",
        ("Approval(audience=''",),
        "a group",
    ),
    Mistake(
        "a misspelt field of an approval",
        "from mcp_baton import Approval\n\nTREASURY = Approval('treasury', mesage='Pay?')  # here\n",
        ("Unexpected keyword argument 'mesage'", "TREASURY ="),
        "",
    ),
    Mistake("a misspelt field of Retry", "RETRY = Retry(attempt=3)  # here\n", ("Retry(", "'attempt'"), ""),
    Mistake(
        "a callback without its type",
        "from mcp_baton import Callback\n\nCALLBACK = Callback()  # here\n",
        ("Missing required argument 'returns'", "CALLBACK ="),
        "",
    ),
    Mistake(
        "a group of approvers that is misspelt",
        approved("'treasury'").replace(HERE, ""),
        ("BATON_APPROVERS lists nobody for the group 'treasury'",),
        "did you mean 'treasury'?",
        warning=True,
        environment={"BATON_APPROVERS": '{"treasry": ["ada"]}'},
    ),
    Mistake(
        "a group without approvers",
        approved("'treasury'").replace(HERE, ""),
        ("lists nobody for the group 'treasury'", "callers with this scope"),
        '"treasury": ["…"]',
        warning=True,
        environment={"BATON_APPROVERS": '{"refunds": ["ada"], "treasury": []}'},
    ),
)
SUGGESTIONS = (
    # The name, the lines, texts of the message, and the remedy.
    (
        "a misspelt argument in a fixed text",
        function("step(refund)(order_id='A-{orderid}', amount=1.0)  # here"),
        ("step 'refund'", "{orderid}", "'order_id'"),
        "did you mean 'order_id'?",
    ),
    (
        "a result in a fixed text",
        function("step(refund)(order_id='A {total} B', amount=1.0)  # here"),
        ("{total} in the text for 'order_id'",),
        "give results to parameters",
    ),
    (
        "a field of a result in a fixed text",
        function("step(refund)(order_id='A {order.total} B', amount=1.0)  # here"),
        ("{order.total} in the text for 'order_id'",),
        "give results to parameters",
    ),
    (
        "a format in a fixed text",
        function("step(refund)(order_id='{\"a\": 1} {order_id:>10} {color:red}', amount=1.0)  # here"),
        ("{order_id:>10} in the text for 'order_id'",),
        "write {order_id}",
    ),
    (
        "a field of an argument in guidance",
        function("step(refund, guidance='Refund {order_id[0]}.')(order_id='A', amount=1.0)  # here"),
        ("no argument fills {order_id[0]} in its guidance",),
        "write {order_id}",
    ),
    (
        "an unknown argument in a constant",
        flow(f'ToolStep("fetch", {{"order_id": constant("{{oder_id}} {{order_id}}")}}, tool=fetch_order)  {HERE}'),
        ("{oder_id}",),
        "did you mean 'order_id'?",
    ),
    (
        "a parameter without a type",
        "@server.tool  # here\ndef stock(sku) -> int:\n" + COUNT,
        ("no type and no description of 'sku'",),
        "sku: Annotated[str,",
    ),
    (
        "a tool without a return type",
        '@server.tool  # here\ndef stock(sku: Annotated[str, "Which"]):\n' + COUNT,
        ("tool 'stock' has no return type",),
        "write -> and a type",
    ),
)

TYPES = (
    Mistake(
        "a return type that cannot be described",
        f'{CONNECTION}@server.tool  # here\ndef connect() -> Connection:\n    """It."""\n    return Connection()\n',
        ("tool 'connect'", "Connection"),
        "return",
    ),
    Mistake(
        "a prompt's parameter that cannot be described",
        f'{CONNECTION}@server.prompt  # here\ndef greet(db: Connection) -> str:\n    """Greet."""\n    return ""\n',
        ("prompt 'greet'", "'db'", "Connection"),
        "Depends",
    ),
    Mistake(
        "a workflow's argument of a type that cannot be described",
        CONNECTION + flow("FETCH", arguments='[ORDER_ID, Argument("db", "It", type=Connection)]'),
        ("workflow 'refund_order'", "'db'", "Connection"),
        "type=",
    ),
)

FUNCTIONS = (
    Mistake(
        "an asynchronous generator as a tool",
        '@server.tool  # here\nasync def lines(order_id: str) -> AsyncIterator[str]:\n    yield "one"\n',
        ("tool 'lines'", "asynchronous generator"),
        "list",
    ),
    Mistake(
        "a class as a tool",
        '@server.tool  # here\nclass Stock:\n    """Count."""\n\n    def __init__(self, sku: str) -> None:\n'
        "        self.sku = sku\n",
        ("Stock", "class"),
        "function",
    ),
    Mistake(
        "a tool without a docstring",
        '@server.tool  # here\ndef stock(sku: Annotated[str, "Which"]) -> int:\n    return 1\n',
        ("tool 'stock'", "description"),
        "docstring",
        warning=True,
    ),
    Mistake(
        "a recursive type of a parameter",
        '@dataclass\nclass Shelf:\n    name: str\n    parts: "list[Shelf]"\n\n\n@server.tool  # here\n'
        'def stock(shelf: Annotated[Shelf, "Which"]) -> int:\n' + COUNT,
        ("tool 'stock'", "'shelf'", "recursive", "LlamaIndex", "mcp-use", "AutoGen"),
        "flat objects",
        warning=True,
    ),
    Mistake(
        "numbers as choices of a parameter",
        "from typing import Literal\n\n\n@server.tool  # here\n"
        'def stock(floors: Annotated[list[Literal[1, 2]], "Which"]) -> int:\n' + COUNT,
        ("tool 'stock'", "'floors'", "choices", "Gemini"),
        "Literal['1', '2']",
        warning=True,
    ),
    Mistake(
        "a union of objects as an argument of a workflow",
        "from mcp_baton import step\n\n\n@dataclass\nclass Box:\n    name: str\n\n\n"
        "@dataclass\nclass Shelf:\n    floor: int\n\n\n"
        '@server.tool\ndef stock(place: Annotated[Any, "Which"]) -> int:\n'
        + COUNT
        + '\n\n@server.workflow  # here\ndef count(place: Annotated[Box | Shelf, "Which"]) -> None:\n'
        '    """Count."""\n    step(stock)(place=place)\n',
        ("workflow 'count'", "'place'", "union", "smolagents", "LlamaIndex"),
        "one tool for each",
        warning=True,
    ),
    Mistake(
        "a name that hosts refuse",
        '@server.tool(name="stock.count")  # here\ndef stock() -> int:\n' + COUNT,
        ("'stock.count'", "1 to 64"),
        "stock_count",
    ),
    Mistake(
        "a name that hosts cut off",
        '@server.tool(name="count_what_is_left_in_the_stock_of_all_our_warehouses")  # here\n'
        "def stock() -> int:\n" + COUNT,
        ("'count_what_is_left_in_the_stock_of_all_our_warehouses'", "53 characters"),
        "shorter",
        warning=True,
    ),
    Mistake(
        "a name twice",
        '@server.tool(name="refund")  # here\ndef refund_again() -> int:\n    """Refund."""\n    return 1\n',
        ("tool 'refund'", "already taken"),
        "another",
    ),
    Mistake(
        "a generator's value where a factory is meant",
        "def database() -> Iterator[int]:\n    yield 1\n\n\n@server.tool\n"
        "def stock(db: Annotated[int, Depends(database())]) -> int:  # here\n" + COUNT,
        ("Depends", "generator"),
        "Depends(database)",
    ),
)

COMPLETION = flow("FETCH").replace(HERE, "") + "\n@server.completion(%r, %r)  # here\n" + IDS
DECORATORS = (
    Mistake(
        "a tool's name as the decorator's first argument",
        '@server.tool("stock")  # here\ndef count() -> int:\n' + COUNT,
        ("'stock'", "function"),
        "name='stock'",
    ),
    Mistake(
        "a prompt's name as the decorator's first argument",
        '@server.prompt("greet")  # here\ndef greeting() -> str:\n    """Greet."""\n    return ""\n',
        ("'greet'", "function"),
        "name='greet'",
    ),
    Mistake(
        "a resource without its URI",
        '@server.resource  # here\ndef faq() -> str:\n    """Often asked."""\n    return ""\n',
        ("resource", "URI"),
        "@server.resource('",
    ),
    Mistake(
        "a URI with another name than its function's",
        '@server.resource("docs://{topic}")  # here\ndef docs(topics: str) -> str:\n    """Docs."""\n    return ""\n',
        ("docs://{topic}", "topics"),
        "did you mean",
    ),
    Mistake(
        "an unknown option of a tool",
        '@server.tool(titel="Stock")  # here\ndef stock() -> int:\n' + COUNT,
        ("tool 'stock'", "'titel'"),
        "did you mean 'title'?",
    ),
    Mistake(
        "an unknown value of an option",
        '@server.tool(task="optionl")  # here\ndef stock() -> int:\n' + COUNT,
        ("tool 'stock'", "'optionl'"),
        "did you mean 'optional'?",
    ),
    Mistake(
        "a completion of an argument that is not there",
        COMPLETION % ("refund_order", "order"),
        ("'refund_order'", "'order'"),
        "did you mean 'order_id'?",
    ),
    Mistake(
        "a completion of something that is not there",
        COMPLETION % ("refund_ordr", "order_id"),
        ("'refund_ordr'",),
        "did you mean 'refund_order'?",
    ),
    Mistake(
        "a completion without saying of what",
        "@server.completion  # here\n" + IDS,
        ("Server.completion() missing", "'argument'"),
        "",
    ),
)

STEPS = (
    Mistake(
        "a misspelt tool",
        flow('ToolStep("fetch", tool="fetch_ordr", arguments={"order_id": prompt_arg("order_id")})  # here'),
        ("step 'fetch'", "'fetch_ordr'"),
        "did you mean 'fetch_order'?",
    ),
    Mistake(
        "a text in the place of an argument",
        flow("FETCH", arguments='["order_id"]'),
        ("workflow 'refund_order'", "'order_id'", "no argument"),
        "Argument('order_id')",
    ),
    Mistake(
        "one step that is in no list",
        'server.add_workflow(Workflow(name="w", description="d", steps=FETCH))  # here\n',
        ("workflow 'w'", "steps"),
        "steps=[",
    ),
    Mistake(
        "a tool that is called rather than named",
        flow('ToolStep("fetch", tool=fetch_order("A-17"), arguments={"order_id": prompt_arg("order_id")})  # here'),
        ("step 'fetch'", "tool"),
        "without calling it",
    ),
    Mistake(
        "a function that is no tool",
        "def send_mail(to: str) -> None: ...\n\n\n"
        + flow("FETCH", 'ToolStep("mail", tool=send_mail, arguments={"to": step_output("order", "email")})  # here'),
        ("step 'mail'", "'send_mail'"),
        "@server.tool",
    ),
    Mistake(
        "an unknown keyword of a step",
        flow('ToolStep("fetch", tol=fetch_order)  # here'),
        ("ToolStep.__init__()", "'tol'. Did you mean 'tool'?"),
        "",
    ),
    Mistake("a step without a name", flow("ToolStep(tool=fetch_order)  # here"), ("Step.__init__()", "'name'"), ""),
    Mistake(
        "an output before its step",
        flow(f"""{PATH_STEP % 'step_output("order", "total")'}  {HERE}""", "FETCH"),
        ("step 'pay'", "'order'", "earlier"),
        "'fetch' before",
    ),
    Mistake(
        "two steps of each other's outputs",
        flow(
            'ToolStep("a", tool=fetch_order, arguments={"order_id": step_output("b", "email")})  # here',
            'ToolStep("b", tool=fetch_order, arguments={"order_id": step_output("a", "email")})',
        ),
        ("step 'a'", "'b'", "each other"),
        "one of them",
    ),
    Mistake(
        "a step's name twice",
        flow("FETCH", 'ToolStep("fetch", tool=refund, binding="paid")  # here'),
        ("step 'fetch'", "two steps"),
        "unique",
    ),
    Mistake(
        "a resource's placeholder without a source",
        flow("FETCH", 'Fetch("policy", resources=["policy://{oder_id}"])  # here'),
        ("step 'policy'", "{oder_id}"),
        "did you mean 'order_id'?",
    ),
    Mistake(
        "a time as a constant",
        "import datetime\n\n"
        + flow(
            'ToolStep("fetch", tool=fetch_order, arguments={"order_id": constant(datetime.date(2026, 1, 2))})  # here'
        ),
        ("step 'fetch'", "'order_id'", "not JSON"),
        "constant('2026-01-02')",
    ),
    Mistake(
        "a text for a number",
        flow("FETCH", f"""{PATH_STEP % 'constant("ten")'}  {HERE}"""),
        ("step 'pay'", "'refund'", "'ten'", "'amount'", "number"),
        "its type",
        at_run=True,
    ),
    Mistake(
        "a text of an output for a number",
        flow("FETCH", f"""{PATH_STEP % 'step_output("order", "email")'}  {HERE}"""),
        ("step 'pay'", "'email'", "a string", "'amount'", "a number"),
        "another field",
        warning=True,
    ),
    Mistake(
        "a misspelt argument in guidance",
        flow(f'ToolStep("fetch", tool=fetch_order, arguments={{"order_id": {ID}}}, guidance="{{oder_id}}")  {HERE}'),
        ("step 'fetch'", "{oder_id}", "guidance"),
        "did you mean 'order_id'?",
        warning=True,
    ),
    Mistake(
        "a path into an output of which nothing is known",
        '@server.tool\ndef look() -> Any:\n    """Look."""\n\n\n'
        + flow(
            'ToolStep("look", tool=look)',
            'ToolStep("f", tool=fetch_order, arguments={"order_id": step_output("look", "id")})  # here',
            arguments="()",
        ),
        ("step 'f'", "'look'", "not known"),
        "return type",
        warning=True,
    ),
)

WORKFLOWS = (
    Mistake(
        "a workflow with the name of a tool",
        flow("FETCH", name="refund"),
        ("workflow 'refund'", "a tool has this name"),
        "tool=False",
    ),
    Mistake(
        "a name before a workflow's keywords",
        'server.add_workflow(Workflow("refund_order", "refund an order", steps=[FETCH]))  # here\n',
        ("Workflow.__init__() takes 1 positional argument",),
        "",
    ),
    Mistake(
        "an unknown keyword of a workflow",
        flow("FETCH", options="        durabel=False,\n"),
        ("Workflow.__init__()", "'durabel'. Did you mean 'durable'?"),
        "",
    ),
    Mistake(
        "a function in the place of a workflow",
        "server.add_workflow(refund)  # here\n",
        ("add_workflow", "refund"),
        "Workflow(name=",
    ),
    Mistake(
        "a secret argument of a background workflow",
        flow(
            "FETCH",
            arguments='[ORDER_ID, Argument("pin", "The PIN", secret=True)]',
            options="        background=True,\n",
        ),
        ("'pin'", "secret"),
        "background=True",
    ),
    Mistake(
        "a prompt argument that nothing uses",
        flow("FETCH", arguments='[ORDER_ID, Argument("reason", "Why")]'),
        ("workflow 'refund_order'", "'reason'", "nothing uses"),
        "prompt_arg('reason')",
        warning=True,
    ),
    Mistake(
        "a prompt argument without a description",
        flow("FETCH", arguments='[Argument("order_id", required=True)]'),
        ("workflow 'refund_order'", "'order_id'", "description"),
        "Argument('order_id', '",
        warning=True,
    ),
    Mistake(
        "a workflow that is added after the handler is made",
        "lambda_handler = handler(server)\n"
        'refunds = Workflow(name="refunds", description="refund", arguments=[ORDER_ID], steps=[FETCH])\n'
        "server.add_workflow(refunds)  # here\n",
        ("workflow 'refunds'", "closed the server"),
        "add it before that call",
    ),
)

FILES = (
    Mistake(
        "a file that is imported twice",
        "from mcp_baton import Server\n\nserver = Server('shop')\n\n\n"
        '@server.tool\ndef fetch() -> int:\n    """Fetch."""\n    return 1\n\n\n'
        "import flows\n",
        ("workflow 'w'", "'fetch'", "imported twice"),
        "another file",
        other_files={
            "flows.py": "import importlib.util, pathlib, sys\n\nfrom mcp_baton import ToolStep, Workflow\n\n"
            "app = sys.modules['{stem}']\n"
            "spec = importlib.util.spec_from_file_location('shop.again', pathlib.Path(__file__).with_name('{file}'))\n"
            "again = importlib.util.module_from_spec(spec)\nsys.modules['shop.again'] = again\n"
            "sys.modules['flows'] = sys.modules[__name__]\n"
            "spec.loader.exec_module(again)\n"
            "steps = [ToolStep('fetch', tool=again.fetch)]\n"
            "app.server.add_workflow(Workflow(name='w', description='d', steps=steps))\n"
        },
        is_complete=True,
    ),
    Mistake(
        "no lambda_handler",
        'from mcp_baton import Server\n\nserver = Server("shop")\n',
        ("lambda_handler",),
        "lambda_handler = handler(server)",
        warning=True,
        is_complete=True,
    ),
    Mistake(
        "two servers in a file",
        'from mcp_baton import Server\n\nshop = Server("shop")\nbilling = Server("billing")\n',
        ("shop, billing",),
        ":shop",
        is_complete=True,
    ),
    Mistake(
        "no server in a file",
        "from mcp_baton import Server\n\n\ndef server() -> Server:\n    return Server('shop')\n",
        ("no Server",),
        "make one at the top level",
        is_complete=True,
    ),
    Mistake(
        "a server without a name",
        "from mcp_baton import Server\n\nserver = Server()  # here\n",
        ("Server.__init__()", "'name'"),
        "",
        is_complete=True,
    ),
    Mistake(
        "a setting's value that is none",
        "",
        ("BATON_STREAMING", "'offf'"),
        "did you mean 'off'?",
        environment={"BATON_STREAMING": "offf"},
    ),
    Mistake(
        "a misspelt setting",
        "",
        ("BATON_ALOW_ANONYMOUS", "not a setting"),
        "did you mean 'BATON_ALLOW_ANONYMOUS'?",
        warning=True,
        environment={"BATON_ALOW_ANONYMOUS": "on"},
    ),
)

LATE = '@server.workflow%s\n%sdef refund_order(order_id: Annotated[str, "Which order"]%s)'
PAY = "step(refund%s)(order_id=order_id, amount=order.total)  # here"
SURE = "ask_user('sure', 'Sure?', returns=%s)  # here"
OF_FUNCTIONS = (
    # The name, the workflow, a text that the message must contain, and the remedy.
    (
        "a question with the name of an argument",
        function("ask_user('order_id', 'Which?')  # here"),
        "'order_id'",
        "name",
    ),
    (
        "a question without a name",
        function("ask_user('Sure?')  # here"),
        "ask_user() missing 1 required positional argument: 'question'",
        "",
    ),
    ("a question before its name", function("ask_user('Is it so?', 'so')  # here"), "'Is it so?'", "name before"),
    ("an answer of an unknown type", CONNECTION + function(SURE % "Connection"), "'sure'", "such as str, bool"),
    ("a type of answers as a text", function(SURE % "'bool'"), "returns='bool'", "write returns=bool"),
    ("a list of answers", function(SURE % "['yes', 'no']"), "['yes', 'no'] is not", "Literal['yes', 'no']"),
    ("a misspelt option of a step", function(PAY % ", retries=3"), "'retries'", ""),
    ("a condition as a text", function(PAY % ", when='total > 1'"), "'total > 1'", 'order["total"] > 100'),
    (
        "a lambda as a tool",
        function("step(lambda sku: sku)(sku=order_id)  # here"),
        "lambda",
        "write a function with def",
    ),
    ("a step that is not called", function("step(refund)  # here"), "step(refund) has no call", "step(refund)(…)"),
    (
        "two steps without names",
        function("step(fetch_order)(order_id='A')  # here"),
        "'fetch_order'",
        "name='fetch_order_2'",
    ),
    (
        "a misspelt option of a workflow",
        function(header=LATE % ("(durabel=False)  # here", "", "")),
        "'durabel'. Did you mean 'durable'?",
        "",
    ),
    (
        "a workflow's name without name=",
        function(header=LATE % ("('refunds')  # here", "", "")),
        "'refunds'",
        "name='refunds'",
    ),
    ("an asynchronous workflow", function(header=LATE % ("  # here", "async ", "")), "'refund_order'", "write def"),
    (
        "a workflow that is a tool",
        function(header=LATE % ("  # here", "@server.tool\n", "")),
        "a tool already",
        "two functions",
    ),
    (
        "a source as a default",
        function(header=LATE % ("  # here", "", f" = {ID}")),
        "'order_id' is not JSON",
        "text, a number",
    ),
    (
        "a workflow without steps",
        function(header=LATE % ("  # here", "", "")).replace(FIRST, "pass"),
        "no steps",
        "at least one",
    ),
)
PAYS = "step(refund, when=%s)(order_id=order_id, amount=order.total)  # here"
HAS_NO_VALUE = "which has no value before the workflow runs"
OTHER_WORKFLOW = function(header=LATE % ("(tool=False)", "", "")).replace("refund_order", "look_up") + "\n\n"
HELPER = "def has_mail(order: Order) -> bool:\n    return order.email is not None  # here\n\n\n"
OF_PYTHON = (
    # Python that asks no reference, in functions: the name, the workflow, a text of the message, and the remedy.
    (
        "a test with is not",
        function("if order.email is not None:  # here", "    " + REFUND % "order.total"),
        "tests with 'is not' the field 'email'",
        "step(tool, when=order.email != None)",
    ),
    (
        "a test of an argument with is",
        function(
            "amount = 1 if note is None else 2  # here",
            REFUND % "amount",
            header=LATE % ("", "", ", note: Annotated[str | None, 'Why'] = None"),
        ),
        "tests with 'is' the argument 'note'",
        "step(tool, when=not_(exists(note)))",
    ),
    (
        "a test with is in a loop",
        function("while None is order.email:  # here", "    pass"),
        HAS_NO_VALUE,
        "order.email ==",
    ),
    (
        "a test with is of an answer",
        function("if ask_user('sure', 'Sure?', returns=bool) is True:  # here", "    pass"),
        "'sure'",
        "== True",
    ),
    (
        "a test with is in a comprehension",
        function("amounts = [part for part in (order.total, 1) if part is not None]  # here"),
        "'total'",
        "part != None",
    ),
    (
        "a test with is in a function",
        HELPER + function("if has_mail(order):", "    pass"),
        "'email'",
        "order.email != None",
    ),
    ("a test of a new name", function("if (mail := order.email) is None:  # here", "    pass"), "'email'", "when="),
    (
        "a match with None",
        function("match order.email:", "    case None:  # here", "        pass"),
        f"matches the field 'email' of the result of the step 'fetch_order', {HAS_NO_VALUE}",
        "step(tool, when=…)",
    ),
    (
        "a match with a class",
        function("match order:", "    case Order(total=30.0):  # here", "        pass"),
        "matches",
        "when=…",
    ),
    (
        "a match with a mapping",
        function("match order:", '    case {"total": 30.0}:  # here', "        pass"),
        "matches",
        "when=…",
    ),
    (
        "a match with a list",
        function("match (order.email, 1):", "    case (None, _):  # here", "        pass"),
        "matches",
        "when=…",
    ),
    (
        "a test of the type",
        function("if isinstance(order.total, float):  # here", "    pass"),
        "applies isinstance(…)",
        "in a tool",
    ),
    (
        "a test for a field",
        function("if hasattr(order, 'coupon'):  # here", "    pass"),
        "applies hasattr(…)",
        "in a tool",
    ),
    (
        "a text by repr",
        function("step(refund)(order_id=f'{order.email!r}', amount=1.0)  # here"),
        HAS_NO_VALUE,
        "argument of its own",
    ),
    (
        "a text of a list",
        function("ask_user('sure', f'Refund {[order.total]}?')  # here"),
        HAS_NO_VALUE,
        "argument of its own",
    ),
    (
        "a library function",
        function("import json", "json.dumps({'total': order.total})  # here"),
        "no value",
        "in a tool",
    ),
    (
        "references that are joined",
        function("', '.join(order.email)  # here"),
        "can only join an iterable. A reference has no value",
        "in a tool",
    ),
    (
        "a field that is set",
        function("order.total = 5  # here"),
        "has no attribute 'total'",
        "in a tool",
    ),
    (
        "a log of a reference",
        function("import logging", "logging.warning('%s', order)  # here"),
        "makes text",
        "argument of its own",
    ),
    (
        "try around a step",
        function("try:", f"    {PAY % ''}", "except Exception:", "    pass"),
        "'refund' is in a try block",
        "in the tool",
    ),
    (
        "finally around a step",
        function("try:", f"    {PAY % ''}", "finally:", "    print()"),
        "is in a try block",
        "retry=…",
    ),
    (
        "try around a function with a step",
        function("def pay() -> None:", f"    {PAY % ''}", "try:", "    pay()", "except Exception:", "    pass"),
        "is in a try block",
        "retry=…",
    ),
    (
        "try around a list of steps",
        function(
            "try:",
            "    [step(refund, name=f'r{i}')(order_id='A', amount=1.0) for i in (1, 2)]  # here",
            "except OSError:",
            "    pass",
        ),
        "is in a try block",
        "retry=…",
    ),
    (
        "a caught error",
        function("try:", "    bool(order.total)  # here", "except TypeError:", "    pass"),
        HAS_NO_VALUE,
        "when=…",
    ),
    (
        "with around a step",
        function("import contextlib", "with contextlib.suppress(Exception):", f"    {PAY % ''}"),
        "'refund' is in a with block",
        "Depends",
    ),
    ("yield in a workflow", function("yield order"), "runs once", "leave out yield"),
    (
        "& without parentheses",
        function(PAYS % "order.total > 10 & exists(order.email)"),
        "combines 10",
        "each comparison in parentheses",
    ),
    (
        "| without parentheses",
        function(PAYS % "order.email == 'a' | exists(order.email)"),
        "combines 'a'",
        "in parentheses",
    ),
    (
        "& before a comparison",
        function(PAYS % "exists(order.email) & order.total > 10"),
        "compares the condition",
        "in parentheses",
    ),
    (
        "& before ==",
        function(PAYS % "exists(order.email) & order.email == 'a'"),
        "compares the condition",
        "in parentheses",
    ),
    ("~ without parentheses", function(PAYS % "~order.total > 10"), "compares the condition", "in parentheses"),
    (
        "a condition as an argument",
        function("step(refund)(order_id=order_id, amount=order.total > 1)  # here"),
        "'amount' is given the condition fetch_order.total > 1",
        "step(tool, when=…)(…)",
    ),
    (
        "an option in the second parentheses",
        function("step(refund)(order_id=order_id, amount=1.0, when=exists(order.email))  # here"),
        "'when' is given the condition",
        "step(tool, when=…)(…)",
    ),
    (
        "retry in the second parentheses",
        function("step(refund)(order_id=order_id, amount=1.0, retry=Retry())  # here"),
        "'retry' is an option of the step",
        "step(refund, retry=…)(…)",
    ),
    (
        "each in the second parentheses",
        function("step('refund')(order_id=item(), amount=1.0, each=order.lines)  # here"),
        "'each' is an option of the step",
        "step(refund, each=…)(…)",
    ),
    (
        "an argument in the first parentheses",
        function("step(refund, amount=1.0)(order_id=order_id)  # here"),
        "'amount' is an argument of the tool 'refund'",
        "step(refund)(amount=…)",
    ),
    (
        "a field of a step that is not called",
        function("other = step(fetch_order, name='other')  # here", REFUND % "other.total"),
        "step(fetch_order) has no call",
        "step(fetch_order)(…)",
    ),
    (
        "an element of a step that is not called",
        function("other = step(fetch_order, name='other')  # here", REFUND % "other['total']"),
        "step(fetch_order) has no call",
        "step(fetch_order)(…)",
    ),
    (
        "a condition on a step that is not called",
        function("sure = step(fetch_order, name='other')  # here", PAYS.removesuffix("  # here") % "sure == 1"),
        "step(fetch_order) has no call",
        "step(fetch_order)(…)",
    ),
    (
        "a step before the result that it needs",
        function(f"{REFUND % 'other.total'}  # here", "other = step(fetch_order, name='other')(order_id=order_id)"),
        "uses 'other' before it has a value",
        "move the line",
    ),
    (
        "a tool that is defined later",
        function("step(send_mail)(to=order.email)  # here")
        + '\n\n@server.tool\ndef send_mail(to: str) -> None:\n    """Send."""\n',
        "uses 'send_mail', which is not defined yet",
        "before the workflow",
    ),
    ("a workflow in itself", function("step(refund_order)(order_id=order_id)  # here"), "cannot call itself", "each=…"),
    (
        "another workflow as a step",
        OTHER_WORKFLOW + function("step(look_up)(order_id=order_id)  # here"),
        "the function 'look_up' is a workflow",
        "call the workflow function itself, without step",
    ),
    (
        "another workflow as a step by its name",
        OTHER_WORKFLOW + function("step('look_up')(order_id=order_id)  # here"),
        "'look_up' is a workflow",
        "call the workflow function itself, without step",
    ),
)
OTHER_SERVER = """\
from mcp_baton import Server

bank = Server("bank")


@bank.tool
def pay(order_id: str) -> int:
    return 1
"""
IN_FUNCTIONS = (
    *(Mistake(name, source, (says,), remedy) for name, source, says, remedy in (*OF_FUNCTIONS, *OF_PYTHON)),
    Mistake(
        "a tool of another server",
        "from flows import pay\n\n\n" + function("step(pay)(order_id=order_id)  # here"),
        ("step 'pay'", "no tool of this server"),
        "@server.tool",
        other_files={"flows.py": OTHER_SERVER},
    ),
)

MISTAKES = (
    *(Mistake(name, source, says, remedy, warning=True) for name, source, says, remedy in SUGGESTIONS),
    *APPROVALS,
    *IN_TABLES,
    *TYPES,
    *FUNCTIONS,
    *DECORATORS,
    *STEPS,
    *WORKFLOWS,
    *FILES,
    *RUNS,
    *IN_FUNCTIONS,
)


@dataclass(frozen=True, slots=True)
class Returned:
    """A tool, `stock`, whose return value is invalid.

    Attributes:
        name: The mistake.
        source: The tool, after `PRELUDE`.
        says: What the log line must contain beside the tool and its line.
        remedy: The remedy that it must contain.
    """

    name: str
    source: str
    says: str
    remedy: str


def tool_returning(body: str, declared: str) -> str:
    """Return the lines of the tool `stock`."""
    return f'@server.tool  {HERE}\ndef stock(){declared}:\n    """Count."""\n    {body}\n'


LATER = "async def count() -> int:\n    return 1\n\n\n"
RETURNED = (
    Returned("a wrong type", tool_returning('return "many"', " -> int"), "type str, but it declares int", "return one"),
    Returned("nothing", tool_returning("pass", " -> int"), "None, but it declares int", "-> int | None"),
    Returned("a coroutine", LATER + tool_returning("return count()", " -> int"), "a coroutine", "write async def"),
    Returned("a coroutine of no type", LATER + tool_returning("return count()", ""), "a coroutine", "write async def"),
    Returned(
        "what is no JSON", tool_returning('return {"a": object()}', ""), "type dict: the value is not JSON", "lists"
    ),
)
