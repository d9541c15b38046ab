"""Mistakes of new users, and what the error must contain: the problem, the line, and the remedy."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

PRELUDE = '''\
"""A shop."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

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
    step,
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
    ("a description as an annotation", 'sku: "which one"', ("'which one'",), "write a type"),
    ("a value as an annotation", "sku: 5", ("'sku'", "the type 5", "schema for 5)"), "Depends"),
    ("a Context without its annotation", "sku: str, ctx", ("'ctx'", "no annotation"), "ctx: Context"),
    ("a method without its object", "self, sku: str", ("without its object",), "object.method"),
    ("an Argument as a default", 'sku: str = Argument("sku")', ("'sku'", "as its default"), "sku: Annotated["),
    ("a secret Argument", "sku: Annotated[str, Argument(secret=True)]", ("'sku'", "Argument"), "SecretStr"),
    ("*args", "*skus: str", ("*skus",), "skus: list[str]"),
    ("a decorator's *args", "*args, **kwargs", ("*args",), "functools.wraps"),
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
        ("'amount'", "not a data source"),
        "constant({'from': 'order'})",
    ),
    ("a path as a text in the place of a source", '"order.total"', ("'order.total'", "not a data source"), RIGHT_PATH),
)
"""Mistakes in the argument `amount` of the second step, `pay`."""

OF_ORDER = "did you mean 'order_id'?"
ARGUMENTS = (
    ("a misspelt prompt argument", '{"order_id": prompt_arg("oder_id")}', ("'oder_id'",), OF_ORDER),
    ("an argument that no parameter takes", '{"ordr_id": prompt_arg("order_id")}', ("'ordr_id'",), OF_ORDER),
    ("an argument's name as a text", '{"order_id": "order_id"}', ("not a data source",), "prompt_arg('order_id')"),
    (
        "a function that makes a source",
        '{"order_id": prompt_arg}',
        ("'order_id'", "prompt_arg"),
        "prompt_arg('order_id')",
    ),
    (
        "another function in its place",
        '{"order_id": fetch_order}',
        ("fetch_order", "not a data source"),
        "step_output(",
    ),
    ("a constant that is not JSON", '{"order_id": constant({7})}', ("'order_id'", "not JSON"), "constant([7])"),
    ("a class as a constant", '{"order_id": constant(Order)}', ("'order_id'", "not JSON"), "texts, numbers"),
    ("a list of arguments", '["order_id"]', ("arguments",), "arguments={'order_id': prompt_arg('order_id')}"),
    ("a step of its own output", '{"order_id": step_output("fetch", "id")}', ("'fetch'", "itself"), "earlier step"),
)
"""Mistakes in the arguments of the first step, `fetch`."""

NO_STEPS = (
    ("a text in the place of a step", '"refund"', ("'refund'", "not a step"), "ToolStep('refund', tool='refund'"),
    ("a function in the place of a step", "refund", ("refund", "not a step"), "ToolStep('refund', tool=refund"),
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
    Mistake(
        "a retry without an attempt",
        flow(f'ToolStep("fetch", tool=fetch_order, arguments={{"order_id": {ID}}}, retry=Retry(attempts=0))  {HERE}'),
        ("step 'fetch'", "Retry(attempts=0)"),
        "give a whole number from 1 to 100",
    ),
    Mistake(
        "a callback whose time is a number",
        "from mcp_baton import Callback, Wait\n\n" + flow("FETCH", f'Wait("paid", Callback(bool, within=3))  {HERE}'),
        ("step 'paid'", "within=3 is not a time"),
        "within=timedelta(days=3)",
    ),
)

REFUND = "step(refund)(order_id=order_id, amount=%s)"
RUNS = (
    Mistake(
        "a number for a text",
        flow(
            f'ToolStep("fetch", tool=fetch_order, arguments={{"order_id": {ID}}})  {HERE}',
            arguments='[Argument("order_id", "Which", required=True, type=int)]',
        ),
        ("workflow 'refund_order'", "the argument 'order_id' is a whole number", "takes a string"),
        "change one",
        at_run=True,
    ),
    Mistake(
        "a fixed text with an argument that may be left out",
        flow(
            f'ToolStep("fetch", tool=fetch_order, arguments={{"order_id": constant("A-{{note}}")}})  {HERE}',
            arguments='[Argument("note", "A note")]',
        ),
        ("step 'fetch'", "{note} stays in the text for 'order_id'", "left out"),
        "give the argument 'note' a default",
        warning=True,
    ),
)

AMOUNTS = 'amount: Annotated[float, "EUR"], order_id: Annotated[str, "Which"]'


def approved(options: str, parameters: str = AMOUNTS, asynchronous: str = "") -> str:
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
    Mistake("a misspelt field of Retry", "RETRY = Retry(attempt=3)  # here\n", ("Retry(", "'attempt'"), ""),
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
        "a class as a tool",
        '@server.tool  # here\nclass Stock:\n    """Count."""\n\n    def __init__(self, sku: str) -> None:\n'
        "        self.sku = sku\n",
        ("Stock", "class"),
        "function",
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
        "an asynchronous notification of approvals",
        "@server.on_approval  # here\nasync def tell(request: object) -> None:\n    pass\n",
        ("on_approval", "asynchronous"),
        "write def",
    ),
    *(
        Mistake(
            f"a wrong value of {option.partition('=')[0]}",
            f'@server.{decorator}{option})  # here\ndef manual() -> str:\n    """The manual."""\n    return ""\n',
            ("manual", f"{said or option} is not possible"),
            remedy,
        )
        for decorator, option, said, remedy in (
            ("tool(", "title=5", "", "give a text"),
            ("tool(", "idempotent='no'", "", "give True or False"),
            ("prompt(", "description=5", "", "give a text"),
            ("resource('manual://a', ", "mime_type=5", "", "give a text"),
            ("tool(", "icons=['a']", "", "{'src': "),
            ("tool(", "icons=[{'src': 'a', 'sizes': {1}}]", "", "{'src': "),
            ("tool(", "meta={'a': 1j}", "", "give a dict that is JSON"),
            ("tool(", "annotations={'readOnlyHint': 'yes'}", "readOnlyHint='yes'", "give True or False"),
            ("tool(", "input_schema={'type': 'string'}", "", "a JSON Schema such as"),
            ("tool(", "input_schema={'type': 'object', 'default': {1}}", "", "a JSON Schema such as"),
        )
    ),
    *(
        Mistake(
            f"a wrong {option} of a {kind}",
            f'@server.{kind}({option}=5)  # here\ndef manual() -> str:\n    """The manual."""\n    return ""\n',
            (kind, option),
            remedy,
        )
        for kind, option, remedy in (
            ("tool", "name", "give a text"),
            ("prompt", "name", "give a text"),
            ("tool", "requires", "write requires=['…']"),
            ("tool", "sets", "write sets=['…']"),
            ("tool", "only_in", "write only_in=['…']"),
        )
    ),
    *(
        Mistake(
            f"a workflow with {option}",
            function(header=f'@server.workflow({option})  # here\ndef refund_order(order_id: Annotated[str, "Which"])'),
            ("workflow 'refund_order'", f"{option} is not possible"),
            remedy,
        )
        for option, remedy in (("title=5", "give a text"), ("durable='no'", "give True or False"))
    ),
    Mistake(
        "a URI that is a result",
        function("fetch('page', order.email)  # here"),
        ("step 'page'", "'email'", "is not a URI"),
        "write a text such as",
    ),
    Mistake(
        "a URI with one value where the resource's has two",
        '@server.resource("docs://{kind}/{name}")\ndef docs(kind: str, name: str) -> str:\n    """Read."""\n'
        "    return kind + name\n\n\n" + function("fetch('page', 'docs://{order_id}')  # here"),
        ("workflow 'refund_order'", "no resource has the URI docs://{order_id}"),
        "docs://{kind}/{name}",
        warning=True,
    ),
    Mistake(
        "a completion without the text so far",
        COMPLETION.replace("(text: str)", "()") % ("refund_order", "order_id"),
        ("'refund_order'", "the text so far"),
        "write def complete(value: str)",
    ),
    Mistake(
        "a resource without a scheme",
        '@server.resource("manual")  # here\ndef manual() -> str:\n    """The manual."""\n    return ""\n',
        ("resource 'manual'", "no scheme"),
        "write 'docs://manual'",
    ),
    Mistake(
        "a description in the place of the name of an Argument",
        function(
            header='@server.workflow  # here\ndef refund_order(order_id: Annotated[str, Argument("Which order")])'
        ),
        ("workflow 'refund_order'", "'order_id'", "'Which order'"),
        "Argument(description=",
    ),
)

STEPS = (
    Mistake(
        "a text in the place of an argument",
        flow("FETCH", arguments='["order_id"]'),
        ("workflow 'refund_order'", "'order_id'", "not an argument"),
        "Argument('order_id')",
    ),
    Mistake(
        "a function that is not a tool",
        "def send_mail(to: str) -> None: ...\n\n\n"
        + flow("FETCH", 'ToolStep("mail", tool=send_mail, arguments={"to": step_output("order", "email")})  # here'),
        ("step 'mail'", "'send_mail'"),
        "@server.tool, above its other decorators",
    ),
    Mistake(
        "an output before its step",
        flow(f"""{PATH_STEP % 'step_output("order", "total")'}  {HERE}""", "FETCH"),
        ("step 'pay'", "'order'", "earlier"),
        "'fetch' before",
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
        "not a number as a constant",
        flow('ToolStep("fetch", tool=fetch_order, arguments={"order_id": constant(float("nan"))})  # here'),
        ("step 'fetch'", "'order_id'", "not JSON"),
        "texts, numbers",
    ),
    *(
        Mistake(
            f"a wrong value of the option {option}",
            flow(f'ToolStep("fetch", tool=fetch_order, arguments={{"order_id": {ID}}}, {option}={value})  # here'),
            ("step 'fetch'", f"{option}=", "is not possible"),
            remedy,
        )
        for option, value, remedy in (
            ("guidance", ID, "write a text"),
            ("retryable", '"yes"', "write True"),
            ("checkpoint", f"{ID} == 'A'", "when="),
        )
    ),
    Mistake(
        "a text of an output for a number",
        flow("FETCH", f"""{PATH_STEP % 'step_output("order", "email")'}  {HERE}"""),
        ("step 'pay'", "'email'", "a string", "'amount'", "a number"),
        "another field",
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
    Mistake(
        "a condition on a field of an output of which nothing is known",
        '@server.tool\ndef look() -> Any:\n    """Look."""\n\n\n'
        + flow(
            'ToolStep("look", tool=look)',
            'ToolStep("f", tool=look, when=step_output("look", "id") > 1)  # here',
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
        "an unknown keyword of a workflow",
        flow("FETCH", options="        durabel=False,\n"),
        ("Workflow.__init__()", "'durabel'. Did you mean 'durable'?"),
        "",
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
SURE = "ask_user('sure', 'Sure?', returns=%s)  # here"
OF_FUNCTIONS = (
    # The name, the workflow, a text that the message must contain, and the remedy.
    ("an answer of an unknown type", CONNECTION + function(SURE % "Connection"), "'sure'", "such as str, bool"),
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
OTHER_WORKFLOW = function(header=LATE % ("(tool=False)", "", "")).replace("refund_order", "look_up") + "\n\n"
HELPER = "def has_mail(order: Order) -> bool:\n    return order.email is not None  # here\n\n\n"
OF_PYTHON = (
    # Python that asks no reference, in functions: the name, the workflow, a text of the message, and the remedy.
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
        "a test with is in a function",
        HELPER + function("if has_mail(order):", "    pass"),
        "'email'",
        "order.email != None",
    ),
    (
        "a tool that is defined later",
        function("step(send_mail)(to=order.email)  # here")
        + '\n\n@server.tool\ndef send_mail(to: str) -> None:\n    """Send."""\n',
        "uses 'send_mail', which is not defined yet",
        "before the workflow",
    ),
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
        ("step 'pay'", "not a tool of this server"),
        "@server.tool",
        other_files={"flows.py": OTHER_SERVER},
    ),
)

# The blocks below have a mistake after each comment `# NAME (KIND): TEXT … TEXT -> REMEDY`: texts that the message must
# contain, and its remedy. The kind is `warning` or `at run`.
WORKFLOW_BODIES = r"""
# a misspelt argument in a fixed text (warning): step 'refund' … {orderid} … 'order_id' -> did you mean 'order_id'?
step(refund)(order_id='A-{orderid}', amount=1.0)  # here
# a result in a fixed text (warning): {total} in the text for 'order_id' -> give results to parameters
step(refund)(order_id='A {total} B', amount=1.0)  # here
# a field of a result in a fixed text (warning): {order.total} in the text for 'order_id' -> give results to parameters
step(refund)(order_id='A {order.total} B', amount=1.0)  # here
# a format in a fixed text (warning): {order_id:>10} in the text for 'order_id' -> write {order_id}
step(refund)(order_id='{"a": 1} {order_id:>10} {color:red}', amount=1.0)  # here
# a field of an argument in guidance (warning): no argument fills {order_id[0]} in its guidance -> write {order_id}
step(refund, guidance='Refund {order_id[0]}.')(order_id='A', amount=1.0)  # here
# a text for a number in a function (at run): workflow 'refund_order' … 'ten' … 'amount' -> its type
step(refund)(order_id=order_id, amount='ten')  # here
# a whole output for a number in a function (at run): workflow 'refund_order' … the output of 'fetch_order' is an object
# … takes a number -> another field
step(refund)(order_id=order_id, amount=order)  # here
# a text of an output for a number in a function (warning): workflow 'refund_order' … 'email' … is a string -> another
# field
step(refund)(order_id=order_id, amount=order.email)  # here
# an answer for a text (at run): workflow 'refund_order' … the answer 'sure' is true or false -> returns=
sure = ask_user("sure", "Sure?", returns=bool)
step(refund)(order_id=sure, amount=order.total)  # here
# a misspelt argument in guidance in a function (warning): workflow 'refund_order' … {oder_id} -> mean 'order_id'?
step(refund, guidance='Mind {oder_id}')(order_id=order_id, amount=order.total)  # here
# a resource that the server does not have (warning): workflow 'refund_order' … docs://{order_id} -> @server.resource
fetch('policy', 'docs://{order_id}')  # here
# a misspelt argument in a URI in a function: workflow 'refund_order' … {oder_id} -> mean 'order_id'?
fetch('policy', 'docs://{oder_id}')  # here
# a misspelt argument in a question in a function: workflow 'refund_order' … {oder_id} -> mean 'order_id'?
ask_user('sure', 'Refund {oder_id}?')  # here
# a required argument that nothing supplies in a function (warning): workflow 'refund_order' … 'amount' of 'refund' …
# pauses -> ask_model('amount', '…') or ask_user('amount', '…')
step(refund)(order_id=order_id)  # here
# a misspelt field in brackets: workflow 'refund_order' … 'totl' -> mean 'total'?
step(refund)(order_id=order_id, amount=order["totl"])  # here
# a misspelt field as an attribute: workflow 'refund_order' … 'totl' -> mean 'total'?
step(refund)(order_id=order_id, amount=order.totl)  # here
# an index of an object: workflow 'refund_order' … '0' -> it has total, email
step(refund)(order_id=order_id, amount=order[0])  # here
# a question with the name of an argument: 'order_id' -> name
ask_user('order_id', 'Which?')  # here
# a question without a name: ask_user() missing 1 required positional argument: 'question' ->
ask_user('Sure?')  # here
# a question before its name: 'Is it so?' -> name before
ask_user('Is it so?', 'so')  # here
# a type of answers as a text: returns='bool' -> write returns=bool
ask_user('sure', 'Sure?', returns='bool')  # here
# a list of answers: ['yes', 'no'] is not -> Literal['yes', 'no']
ask_user('sure', 'Sure?', returns=['yes', 'no'])  # here
# a misspelt option of a step: 'retries' ->
step(refund, retries=3)(order_id=order_id, amount=order.total)  # here
# a condition as a text: 'total > 1' -> order["total"] > 100
step(refund, when='total > 1')(order_id=order_id, amount=order.total)  # here
# a lambda as a tool: lambda -> write a function with def
step(lambda sku: sku)(sku=order_id)  # here
# a step that is not called: step(refund) has no call -> step(refund)(…)
step(refund)  # here
# two steps without names: 'fetch_order' -> name='fetch_order_2'
step(fetch_order)(order_id='A')  # here
# a test with is not: tests with 'is not' the field 'email' -> step(tool, when=order.email != None)
if order.email is not None:  # here
    step(refund)(order_id=order_id, amount=order.total)
# a test with is in a loop: which has no value before the workflow runs -> order.email ==
while None is order.email:  # here
    pass
# a test with is of an answer: 'sure' -> == True
if ask_user('sure', 'Sure?', returns=bool) is True:  # here
    pass
# a test with is in a comprehension: 'total' -> part != None
amounts = [part for part in (order.total, 1) if part is not None]  # here
# a test of a new name: 'email' -> when=
if (mail := order.email) is None:  # here
    pass
# a match with None: matches the field 'email' of the result of the step 'fetch_order', which has no value before the
# workflow runs -> step(tool, when=…)
match order.email:
    case None:  # here
        pass
# a match with a class: matches -> when=…
match order:
    case Order(total=30.0):  # here
        pass
# a match with a mapping: matches -> when=…
match order:
    case {"total": 30.0}:  # here
        pass
# a match with a list: matches -> when=…
match (order.email, 1):
    case (None, _):  # here
        pass
# a test of the type: applies isinstance(…) -> in a tool
if isinstance(order.total, float):  # here
    pass
# a test for a field: applies hasattr(…) -> in a tool
if hasattr(order, 'coupon'):  # here
    pass
# a text by repr: which has no value before the workflow runs -> argument of its own
step(refund)(order_id=f'{order.email!r}', amount=1.0)  # here
# a text of a list: which has no value before the workflow runs -> argument of its own
ask_user('sure', f'Refund {[order.total]}?')  # here
# a library function: no value -> in a tool
import json
json.dumps({'total': order.total})  # here
# references that are joined: can only join an iterable. A reference has no value -> in a tool
', '.join(order.email)  # here
# a field that is set: has no attribute 'total' -> in a tool
order.total = 5  # here
# a log of a reference: makes text -> argument of its own
import logging
logging.warning('%s', order)  # here
# try around a step: 'refund' is in a try block -> in the tool
try:
    step(refund)(order_id=order_id, amount=order.total)  # here
except Exception:
    pass
# finally around a step: is in a try block -> retry=…
try:
    step(refund)(order_id=order_id, amount=order.total)  # here
finally:
    print()
# try around a function with a step: is in a try block -> retry=…
def pay() -> None:
    step(refund)(order_id=order_id, amount=order.total)  # here
try:
    pay()
except Exception:
    pass
# try around a list of steps: is in a try block -> retry=…
try:
    [step(refund, name=f'r{i}')(order_id='A', amount=1.0) for i in (1, 2)]  # here
except OSError:
    pass
# a caught error: which has no value before the workflow runs -> when=…
try:
    bool(order.total)  # here
except TypeError:
    pass
# with around a step: 'refund' is in a with block -> Depends
import contextlib
with contextlib.suppress(Exception):
    step(refund)(order_id=order_id, amount=order.total)  # here
# yield in a workflow: runs once -> leave out yield
yield order
# & without parentheses: combines 10 -> each comparison in parentheses
step(refund, when=order.total > 10 & exists(order.email))(order_id=order_id, amount=order.total)  # here
# | without parentheses: combines 'a' -> in parentheses
step(refund, when=order.email == 'a' | exists(order.email))(order_id=order_id, amount=order.total)  # here
# & before a comparison: compares the condition -> in parentheses
step(refund, when=exists(order.email) & order.total > 10)(order_id=order_id, amount=order.total)  # here
# & before ==: compares the condition -> in parentheses
step(refund, when=exists(order.email) & order.email == 'a')(order_id=order_id, amount=order.total)  # here
# ~ without parentheses: compares the condition -> in parentheses
step(refund, when=~order.total > 10)(order_id=order_id, amount=order.total)  # here
# a condition as an argument: 'amount' is given the condition fetch_order.total > 1 -> step(tool, when=…)(…)
step(refund)(order_id=order_id, amount=order.total > 1)  # here
# an option in the second parentheses: 'when' is given the condition -> step(tool, when=…)(…)
step(refund)(order_id=order_id, amount=1.0, when=exists(order.email))  # here
# retry in the second parentheses: 'retry' is an option of the step -> step(refund, retry=…)(…)
step(refund)(order_id=order_id, amount=1.0, retry=Retry())  # here
# each in the second parentheses: 'each' is an option of the step -> step(refund, each=…)(…)
step('refund')(order_id=item(), amount=1.0, each=order.lines)  # here
# an element of another type (at run): 'refund' refuses 3 for 'order_id' -> its type
step(refund, each=['A', 3, 3])(order_id=item(), amount=1.0)  # here
# an answer's element of another type (at run): of the answer 'ids' is a whole number … 'order_id' -> returns=
ids = ask_user('ids', 'Which orders?', returns=list[int])
step(refund, each=ids)(order_id=item(), amount=1.0)  # here
# an argument in after: after=<the argument 'order_id'> is not a step -> an earlier step
step(refund, after=[order_id])(order_id=order_id, amount=1.0)  # here
# a function in after: after=fetch_order is not a step -> its name
step(refund, after=fetch_order)(order_id=order_id, amount=1.0)  # here
# an element in after: after=<the value item()> is not a step -> an earlier step
ask_user('sure', 'Sure?', after=[item()])  # here
# an argument in the first parentheses: 'amount' is an argument of the tool 'refund' -> step(refund)(amount=…)
step(refund, amount=1.0)(order_id=order_id)  # here
# an argument in the first parentheses after a name: 'amount' is an argument of the tool -> step('refund')(amount=…)
step('refund', amount=1.0)(order_id=order_id)  # here
# a misspelt option: step(refund) has no option 'retries' -> did you mean 'retry'?
step(refund, retries=3)(order_id=order_id, amount=1.0)  # here
# a question without a name: bool is given as the question -> give the name, then the question
ask_user('Sure?', bool)  # here
# a field of a step that is not called: step(fetch_order) has no call -> step(fetch_order)(…)
other = step(fetch_order, name='other')  # here
step(refund)(order_id=order_id, amount=other.total)
# an element of a step that is not called: step(fetch_order) has no call -> step(fetch_order)(…)
other = step(fetch_order, name='other')  # here
step(refund)(order_id=order_id, amount=other['total'])
# a condition on a step that is not called: step(fetch_order) has no call -> step(fetch_order)(…)
sure = step(fetch_order, name='other')  # here
step(refund, when=sure == 1)(order_id=order_id, amount=order.total)
# a step before the result that it needs: uses 'other' before it has a value -> move the line
step(refund)(order_id=order_id, amount=other.total)  # here
other = step(fetch_order, name='other')(order_id=order_id)
# a workflow in itself: cannot call itself -> each=…
step(refund_order)(order_id=order_id)  # here
"""
"""The lines of a workflow function after its first step, whose result is `order`."""

STEP_LISTS = r"""
# an unknown argument in a constant (warning): {oder_id} -> did you mean 'order_id'?
ToolStep("fetch", {"order_id": constant("{oder_id} {order_id}")}, tool=fetch_order)  # here
# a misspelt tool: step 'fetch' … 'fetch_ordr' -> did you mean 'fetch_order'?
ToolStep("fetch", tool="fetch_ordr", arguments={"order_id": prompt_arg("order_id")})  # here
# a tool that is called rather than named: step 'fetch' … tool -> without calling it
ToolStep("fetch", tool=fetch_order("A-17"), arguments={"order_id": prompt_arg("order_id")})  # here
# an unknown keyword of a step: ToolStep.__init__() … 'tol'. Did you mean 'tool'? ->
ToolStep("fetch", tol=fetch_order)  # here
# a step without a name: Step.__init__() … 'name' ->
ToolStep(tool=fetch_order)  # here
# two steps of each other's outputs: step 'a' … 'b' … each other -> one of them
ToolStep("a", tool=fetch_order, arguments={"order_id": step_output("b", "email")})  # here
ToolStep("b", tool=fetch_order, arguments={"order_id": step_output("a", "email")})
# a step's name twice: step 'fetch' … two steps -> unique
FETCH
ToolStep("fetch", tool=refund, binding="paid")  # here
# a resource's placeholder without a source: step 'policy' … {oder_id} -> did you mean 'order_id'?
FETCH
Fetch("policy", resources=["policy://{oder_id}"])  # here
# a text for a number (at run): step 'pay' … 'refund' … 'ten' … 'amount' … number -> its type
FETCH
ToolStep("pay", tool=refund, arguments={"order_id": prompt_arg("order_id"), "amount": constant("ten")})  # here
# a misspelt argument in guidance (warning): step 'fetch' … {oder_id} … guidance -> did you mean 'order_id'?
ToolStep("fetch", tool=fetch_order, arguments={"order_id": prompt_arg("order_id")}, guidance="{oder_id}")  # here
# a whole output for a number (at run): workflow 'refund_order' … the output of 'fetch_order' is an object … takes a
# number -> another field
FETCH
ToolStep("pay", tool=refund, arguments={"order_id": prompt_arg("order_id"), "amount": step_output("order")})  # here
# a required argument that nothing supplies (warning): workflow 'refund_order' … 'amount' of 'refund' … pauses ->
# ask_model('amount', '…') or ask_user('amount', '…')
FETCH
ToolStep("pay", tool=refund, arguments={"order_id": prompt_arg("order_id")})  # here
"""
"""The steps of a workflow, one a line."""

EXPECTATION = re.compile(r"(.+?)(?: \((warning|at run)\))?: (.+?) ->(.*)")


def mistakes_in(block: str, build: Callable[..., str]) -> Iterator[Mistake]:
    """Yield the mistakes of a block. `build` makes the source of a mistake from its lines."""
    comments: list[str] = []
    lines: list[str] = []
    for line in [*block.strip().splitlines(), "# "]:
        if not line.startswith("# "):
            lines.append(line)
            continue
        if lines:
            expectation = EXPECTATION.fullmatch(" ".join(comments))
            assert expectation, comments
            name, kind, says, remedy = expectation.groups()
            source, texts = build(*lines), tuple(says.split(" … "))
            yield Mistake(name, source, texts, remedy.strip(), warning=kind == "warning", at_run=kind == "at run")
            comments, lines = [], []
        comments.append(line.removeprefix("# "))


SERVER_LINES = r'''
# an approval without a group: Approval(audience='' -> a group
from mcp_baton import Approval

TREASURY = Approval(message='Pay?')  # here
# a misspelt field of an approval: Unexpected keyword argument 'mesage' … TREASURY = ->
from mcp_baton import Approval

TREASURY = Approval('treasury', mesage='Pay?')  # here
# a callback without its type: Missing required argument 'returns' … CALLBACK = ->
from mcp_baton import Callback

CALLBACK = Callback()  # here
# a parameter without a type (warning): no type and no description of 'sku' -> sku: Annotated[str,
@server.tool  # here
def stock(sku) -> int:
    """Count."""
    return 1
# a limit without a description (warning): no description of 'count' -> count: Annotated[int, …, '…']
@server.tool  # here
def stock(count: Annotated[int, Field(ge=1)]) -> int:
    """Count."""
    return 1
# a limit of items (warning): no description of 'all' -> all: Annotated[list[Annotated[int, …]], '…']
@server.tool  # here
def stock(all: list[Annotated[int, Field(ge=1)]]) -> int:
    """Count."""
    return 1
# a workflow's argument without a description (warning): 'order_id' has no description -> order_id: Annotated[…, '…']
@server.workflow  # here
def fetch_one(order_id: str) -> None:
    """Fetch an order."""
    step(fetch_order)(order_id=order_id)
# a tool without a return type (warning): tool 'stock' has no return type -> write -> and a type
@server.tool  # here
def stock(sku: Annotated[str, "Which"]):
    """Count."""
    return 1
# an asynchronous generator as a tool: tool 'lines' … asynchronous generator -> list
@server.tool  # here
async def lines(order_id: str) -> AsyncIterator[str]:
    yield "one"
# a parameter with the name of the task's id (warning): 'close' has its own parameter 'task_id' -> another name
@server.tool
def close(task_id: Annotated[str, "Which"]) -> int:
    """Close a task."""
    return 1


ENDS = [ToolStep("end", tool=close, arguments={"task_id": prompt_arg("order_id")})]  # here
server.add_workflow(Workflow(name="tidy", description="Tidy up.", arguments=[ORDER_ID], steps=ENDS))
# a tool without a docstring (warning): tool 'stock' … description -> docstring
@server.tool  # here
def stock(sku: Annotated[str, "Which"]) -> int:
    return 1
# a name that hosts refuse: 'stock.count' … 1 to 64 -> stock_count
@server.tool(name="stock.count")  # here
def stock() -> int:
    """Count."""
    return 1
# a name that hosts cut off (warning): 'count_what_is_left_in_the_stock_of_all_our_warehouses' … 53 characters ->
# shorter
@server.tool(name="count_what_is_left_in_the_stock_of_all_our_warehouses")  # here
def stock() -> int:
    """Count."""
    return 1
# a name twice: tool 'refund' … already taken -> another
@server.tool(name="refund")  # here
def refund_again() -> int:
    """Refund."""
    return 1
# two decorators on one function: tool 'stock' … published twice -> publish it once
@server.tool(title="Stock")  # here
@server.tool
def stock() -> int:
    """Count."""
    return 1
# a tool's name as the decorator's first argument: 'stock' … function -> name='stock'
@server.tool("stock")  # here
def count() -> int:
    """Count."""
    return 1
# a prompt's name as the decorator's first argument: 'greet' … function -> name='greet'
@server.prompt("greet")  # here
def greeting() -> str:
    """Greet."""
    return ""
# a resource without its URI: resource … URI -> @server.resource('
@server.resource  # here
def faq() -> str:
    """Often asked."""
    return ""
# a URI with another name than its function's: docs://{topic} … topics -> did you mean
@server.resource("docs://{topic}")  # here
def docs(topics: str) -> str:
    """Docs."""
    return ""
# an unknown option of a tool: tool 'stock' … 'titel' -> did you mean 'title'?
@server.tool(titel="Stock")  # here
def stock() -> int:
    """Count."""
    return 1
# an unknown value of an option: tool 'stock' … 'optionl' -> did you mean 'optional'?
@server.tool(task="optionl")  # here
def stock() -> int:
    """Count."""
    return 1
# a completion without saying of what: Server.completion() missing … 'argument' ->
@server.completion  # here
def ids(text: str) -> list[str]:
    return []
# one step that is in no list: workflow 'w' … steps -> steps=[
server.add_workflow(Workflow(name="w", description="d", steps=FETCH))  # here
# a name before a workflow's keywords: Workflow.__init__() takes 1 positional argument ->
server.add_workflow(Workflow("refund_order", "refund an order", steps=[FETCH]))  # here
# a function in the place of a workflow: add_workflow … refund -> Workflow(name=
server.add_workflow(refund)  # here
# a workflow that is added after the handler is made: workflow 'refunds' … closed the server -> add it before that call
lambda_handler = handler(server)
refunds = Workflow(name="refunds", description="refund", arguments=[ORDER_ID], steps=[FETCH])
server.add_workflow(refunds)  # here
'''
"""Lines of a server."""


def server_lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


MISTAKES = (
    *mistakes_in(SERVER_LINES, server_lines),
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
    *mistakes_in(WORKFLOW_BODIES, function),
    *mistakes_in(STEP_LISTS, flow),
)


@dataclass(frozen=True, slots=True)
class Returned:
    """A tool, `stock`, whose return value is invalid."""

    name: str
    source: str
    says: str
    remedy: str


def tool_returning(body: str, declared: str) -> str:
    return f'@server.tool  {HERE}\ndef stock(){declared}:\n    """Count."""\n    {body}\n'


LATER = "async def count() -> int:\n    return 1\n\n\n"
RETURNED = (
    Returned("a wrong type", tool_returning('return "many"', " -> int"), "type str, but it declares int", "return one"),
    Returned("nothing", tool_returning("pass", " -> int"), "None, but it declares int", "-> int | None"),
    Returned("a coroutine", LATER + tool_returning("return count()", " -> int"), "a coroutine", "write async def"),
    Returned("a coroutine of no type", LATER + tool_returning("return count()", ""), "a coroutine", "write async def"),
    Returned("an exception", tool_returning('return ValueError("a")', ""), "an exception", "raise it"),
    Returned(
        "what is no JSON", tool_returning('return {"a": object()}', ""), "type dict: the value is not JSON", "lists"
    ),
)
