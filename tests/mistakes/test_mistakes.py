"""Each mistake of the table is reported with its line and its remedy, and nothing else is reported."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_baton import RegistrationError, Server, ToolStep, Workflow
from mcp_baton.aws import handler
from mcp_baton.cli.app import main
from mcp_baton.exceptions import BatonError
from mcp_baton.local.checking import load_checked
from tests.mistakes.table import (
    COUNT,
    EPILOGUE,
    HERE,
    ID,
    MISTAKES,
    PATH_STEP,
    PRELUDE,
    RETURNED,
    Mistake,
    Returned,
    flow,
    function,
)
from tests.site.blocks import ROOT, blocks
from tests.starter import SERVER, needs_the_starter

type Check = Callable[..., tuple[int, Any]]

RIGHT = PRELUDE + flow("FETCH") + EPILOGUE
SAMPLE = Path(__file__).parents[2] / "examples" / "sample" / "app.py"
EXPENSES, INCIDENT, REPORT = (SAMPLE.parents[1] / name / "app.py" for name in ("expenses", "incident", "report"))
SAMPLE_MODULES = ("app", "shop", "orders", "sales")


@pytest.fixture(autouse=True)
def fresh_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in an empty folder, and undo what loading changes in the interpreter."""
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    forget()
    yield
    sys.path[:] = path
    forget()


def forget() -> None:
    for name in ("shop_app", "shop.again", "flows"):
        sys.modules.pop(name, None)


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """`check(target, *options)` returns the exit code of `baton check --json`, and its document."""

    def check(target: str, *options: str) -> tuple[int, Any]:
        forget()
        code = main(["check", target, "--json", *options])
        return code, json.loads(capsys.readouterr().out)

    return check


@pytest.fixture
def fresh_sample(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Import the modules of the sample again, and restore those of other tests."""
    for name in SAMPLE_MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in SAMPLE_MODULES:
        sys.modules.pop(name, None)


def write(text: str) -> str:
    Path("shop_app.py").write_text(text)
    return "shop_app.py"


def write_mistake(mistake: Mistake) -> str:
    for name, text in mistake.other_files.items():
        Path(name).write_text(text.replace("{stem}", "shop_app").replace("{file}", "shop_app.py"))
    return write(mistake.text)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_has_its_line_and_remedy(mistake: Mistake, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in mistake.environment.items():
        monkeypatch.setenv(name, value)

    code, report = check(write_mistake(mistake))

    assert code == (0 if mistake.warning else 1)
    [fault] = report["warnings"] if mistake.warning else report["errors"]
    assert [part for part in mistake.says if part not in fault["problem"]] == [], fault
    assert mistake.remedy in fault["remedy"], fault
    if mistake.line is not None:
        assert (Path(fault["file"]).name, fault["line"]) == ("shop_app.py", mistake.line), fault
    forget()
    if mistake.at_run:
        load_checked("shop_app.py")
    elif not mistake.warning:
        with pytest.raises(BatonError) as error_info:
            load_checked("shop_app.py")
        text = str(error_info.value)
        assert [part for part in (*mistake.says, mistake.remedy) if part not in text] == [], text
        assert text.count("\n") <= 1 or not mistake.remedy
        assert mistake.line is None or f"shop_app.py:{mistake.line}: " in text


def test_all_mistakes_of_workflows_are_reported_at_once(check: Check) -> None:
    text = (
        PRELUDE
        + flow('ToolStep("a", tool="nothing")', name="second")
        + flow('ToolStep("a", tool="nothing", arguments={"x": 1})', "FETCH", arguments="[]", name="third")
        + EPILOGUE
    )

    code, report = check(write(text))

    assert code == 1
    assert [fault["problem"].partition(": ")[0] for fault in report["errors"]] == [
        "workflow 'second', step 'a'",
        "workflow 'third', step 'a'",
        "workflow 'third', step 'a'",
        "workflow 'third', step 'fetch'",
    ]
    assert report["whole"] is True


def test_a_correct_server_has_no_faults(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = check(write(RIGHT))

    assert (code, report["ok"], report["errors"], report["warnings"]) == (0, True, [], [])
    assert report["published"] == {"tools": 2, "resources": 0, "prompts": 0, "workflows": 1}
    forget()
    assert main(["check", "shop_app.py", "--strict"]) == 0
    assert capsys.readouterr().out == "shop_app.py can be served: 2 tools, 1 workflow\n"


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("list[str]", "step(refund, name='all', each=value)(order_id=item(), amount=1.0)"),
        ("bool", "step(refund, name='some', when=value)(order_id=order_id, amount=1.0)"),
        ("str", "sleep_until('morning', value)"),
        ("str", "ask_user('sure', 'Refund it as {value}?')"),
    ],
    ids=["each", "when", "sleep", "a question"],
)
def test_an_argument_may_be_used_in_any_part_of_a_step(kind: str, line: str, check: Check) -> None:
    header = f"@server.workflow\ndef refund_order(order_id: Annotated[str, 'Which'], value: Annotated[{kind}, 'What'])"
    text = PRELUDE + "from mcp_baton import sleep_until\n" + function(line, header=header) + EPILOGUE

    assert check(write(text))[1]["warnings"] == []


@pytest.mark.usefixtures("fresh_sample")
@pytest.mark.parametrize(
    "server",
    [
        pytest.param(SERVER, marks=needs_the_starter, id="starter"),
        pytest.param(SAMPLE, id="sample"),
        pytest.param(EXPENSES, id="expenses"),
        pytest.param(INCIDENT, id="incident"),
        pytest.param(REPORT, id="report"),
    ],
)
def test_example_servers_have_no_faults(server: Path, check: Check) -> None:
    code, report = check(str(server), "--strict")

    assert (code, report["errors"], report["warnings"]) == (0, [], [])
    assert report["published"]["workflows"] > 0


def test_the_server_in_the_readme_has_no_faults(check: Check) -> None:
    code = next(block.code for block in blocks(ROOT / "README.md") if block.language == "python")

    report = check(write(code), "--strict")[1]

    assert (report["errors"], report["warnings"]) == ([], [])


CONVERTED = flow(
    "FETCH",
    """ToolStep("pay", tool=refund, arguments={"order_id": prompt_arg("order_id"), "amount": prompt_arg("amount")})""",
    arguments="[ORDER_ID, Argument('amount', 'EUR', required=True)]",
)
VALIDATED = """
from pydantic import BeforeValidator, Field


@server.tool
def label(text: Annotated[str, BeforeValidator(str), Field(description="The text")]) -> None:
    \"\"\"Label.\"\"\"


""" + flow("FETCH", 'ToolStep("label", tool=label, arguments={"text": step_output("order", "total")})')
STATIC = function(
    "reminder = None if len(PRELUDE) else order",
    "if reminder is not None:",
    "    ask_user('sure', 'Sure?')",
    "try:",
    "    count = int('two')",
    "except ValueError:",
    "    count = 2",
    "else:",
    "    step(refund, name='never')(order_id=order_id, amount=1.0)",
    "[step(refund, name=f'refund_{n}')(order_id=order_id, amount=1.0) for n in range(count) if isinstance(n, int)]",
    "for step_name in ('a', 'b'):",
    "    step(refund, name=step_name, when=(order.total > 1) & exists(order.email))(order_id=order_id, amount=1.0)",
).replace("PRELUDE", "order_id.__class__.__name__")
ALL_TAKEN = """
from mcp_baton import Approval


def is_large(order_id: str, amount: float, more: int = 0) -> bool:
    return amount > 100


@server.tool(approval=Approval("treasury", when=is_large))
def pay(ctx: Context, order_id: Annotated[str, "Which"], amount: Annotated[float, "EUR"]) -> None:
    \"\"\"Pay.\"\"\"
    ctx.log(f"{order_id} {__name__}")


@server.tool(approval=Approval("treasury", when=lambda **arguments: arguments["amount"] > 100))
def verify(pin: Annotated[str, "PIN"], amount: Annotated[float, "EUR"]) -> bool:
    \"\"\"Verify.\"\"\"
    return len(pin) == 4 and pin == str(amount)


""" + function(
    "step(verify)(pin=pin, amount=order.total)",
    header="@server.workflow\ndef refund_order(order_id: Annotated[str, 'Which'], "
    "pin: Annotated[str, Argument(description='PIN', secret=True)])",
)
RESOURCES = """
@server.resource("docs://refunds")
def refunds() -> str:
    \"\"\"Read about refunds.\"\"\"
    return ""


@server.resource("file:///{+path}")
def file(path: str) -> str:
    \"\"\"Read a file.\"\"\"
    return path


""" + function(
    "fetch('page', 'docs://{order_id}')", "fetch('file', 'file:///orders/{order_id}')", "fetch('any', '{order_id}')"
)
INTENDED = flow("FETCH", f'ToolStep("pay", tool=refund, arguments={{"order_id": {ID}}}, guidance="Ask what is fair.")')


@pytest.mark.parametrize(
    "source",
    [CONVERTED, VALIDATED, INTENDED, STATIC, ALL_TAKEN, RESOURCES],
    ids=["a number as text", "a validator", "guidance", "tests of other values", "conditions of approvals", "URIs"],
)
def test_code_that_may_work_is_not_reported(source: str, check: Check) -> None:
    report = check(write(PRELUDE + source + EPILOGUE), "--strict")[1]

    assert (report["errors"], report["warnings"]) == ([], [])


def test_a_workflow_that_must_fail_is_an_error_although_the_server_starts(capsys: pytest.CaptureFixture[str]) -> None:
    mistake = next(mistake for mistake in MISTAKES if mistake.at_run)

    assert main(["check", write_mistake(mistake)]) == 1

    last_line = capsys.readouterr().out.splitlines()[-1]
    assert last_line == "shop_app.py can be served, but a workflow is certain to fail: 1 error"


def test_strict_mode_fails_for_warnings(check: Check) -> None:
    target = write(PRELUDE + f"@server.tool\ndef stock() -> int:\n{COUNT}".replace('"""Count."""', "...") + EPILOGUE)

    assert (check(target)[0], check(target, "--strict")[0]) == (0, 1)


@pytest.mark.parametrize("columns", ["80", "40"])
def test_the_terminal_shows_each_fault_in_two_lines(
    columns: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    target = write(PRELUDE + "@server.tool\ndef stock(sku: str, ctx) -> int:\n" + COUNT + EPILOGUE)
    line = PRELUDE.count("\n") + 1

    assert main(["check", target]) == 1
    assert capsys.readouterr().out == (
        f"shop_app.py:{line}: error: tool 'stock': the parameter 'ctx' has no annotation\n"
        "  write ctx: Context\n\n"
        "shop_app.py would be refused: 1 error; the file was not read to its end, so there may be more\n"
    )


def test_an_import_that_stops_early_is_reported(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = check(write(PRELUDE + "import no_such_module_anywhere\n"))

    [error] = report["errors"]
    assert (code, report["whole"], error["line"]) == (1, False, PRELUDE.count("\n") + 1)
    assert "no_such_module_anywhere" in error["problem"]
    assert "--log-level" not in error["problem"]  # `check` has no such option
    forget()
    main(["check", "shop_app.py"])
    assert "not read to its end" in capsys.readouterr().out


def test_a_missing_file_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "absent.py", "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "baton: no such file: absent.py\n"
    assert json.loads(captured.out) == {"error": {"message": "no such file: absent.py"}}


def test_a_check_leaves_nothing_behind(check: Check) -> None:
    check(write(RIGHT))

    server = Server("s")
    server.add_workflow(Workflow(name="w", description="d", steps=[ToolStep("a", tool="t")]))
    with pytest.raises(RegistrationError):
        handler(server)


def test_a_syntax_error_is_named_with_its_line(check: Check) -> None:
    code, report = check(write("number = 1\nfrom broken import nothing)\n"))

    [error] = report["errors"]
    assert (code, report["whole"]) == (1, False)
    assert (error["problem"], error["line"]) == ("SyntaxError: unmatched ')'", 2)
    assert Path(error["file"]).name == "shop_app.py"


@pytest.mark.parametrize("case", RETURNED, ids=lambda case: case.name)
def test_an_invalid_return_value_is_logged_with_the_line_of_the_tool(
    case: Returned, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PRELUDE + case.source + EPILOGUE
    line = next(number for number, line in enumerate(text.splitlines(), 1) if line.endswith(HERE))

    assert main(["call", write(text), "stock"]) == 1

    [record] = caplog.records
    assert f"the tool 'stock' ({Path('shop_app.py').resolve()}:{line}) returned" in record.getMessage()
    assert case.says in record.getMessage()
    assert case.remedy in record.getMessage()
    assert record.exc_info is None
    assert capsys.readouterr().out.startswith("internal error in stock (id ")


def test_an_exception_of_a_tool_is_shown_with_the_authors_frames() -> None:
    text = PRELUDE + '@server.tool\ndef stock() -> int:\n    """Count."""\n    return {}["left"]\n' + EPILOGUE
    baton = Path(sys.executable).parent / "baton"

    process = subprocess.run([baton, "call", write(text), "stock"], capture_output=True, text=True, check=False)

    frames = [line for line in process.stderr.splitlines() if line.startswith("  File ")]
    assert process.returncode == 1
    assert [("shop_app.py" in frame, "stock" in frame) for frame in frames] == [(True, True)]
    assert "KeyError: 'left'" in process.stderr
    assert "--log-level" not in process.stderr


TEXT_FOR_A_NUMBER = flow("FETCH", PATH_STEP % 'step_output("order", "email")')
ROWS = '@server.tool\ndef rows() -> list[Order]:\n    """Rows."""\n    return [Order(1.0, "a")]\n\n\n' + flow(
    'ToolStep("rows", tool=rows)',
    'ToolStep("fetch", tool=fetch_order, arguments={"order_id": step_output("rows", "3.email")})',
)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (TEXT_FOR_A_NUMBER, "it got \\\"kim@example.com\\\" from <field 'email' from fetch_order>"),
        (ROWS, "its argument 'order_id': '3.email' is not in the output of step 'rows': it is a list of 1 item."),
    ],
    ids=["a text for a number", "a list's index that is not there"],
)
def test_an_invalid_step_argument_is_reported_with_its_source(
    source: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", write(PRELUDE + source + EPILOGUE), "refund_order", "order_id=A"]) == 3

    assert text in " ".join(capsys.readouterr().out.split())


def test_all_missing_arguments_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    reason = 'Argument("reason", "Why", required=True)'

    main(["run", write(PRELUDE + flow("FETCH", arguments=f"[ORDER_ID, {reason}]") + EPILOGUE), "refund_order"])

    assert "the arguments 'order_id' and 'reason' are required" in capsys.readouterr().err
