"""Workflow functions (docs/workflows.md, Workflow functions)."""

import linecache
import random
import re
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from time import sleep
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, Field

from mcp_baton import (
    Argument,
    Context,
    Fetch,
    Retry,
    Server,
    ToolStep,
    Workflow,
    ask_user,
    constant,
    fetch,
    first_of,
    is_in,
    item,
    prompt_arg,
    step,
    step_output,
    task_variable,
)
from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.testing import Connect, JsonRpcError, connect
from mcp_baton.workflow.reference import Reference
from mcp_baton.workflow.sources import NoValueYet


@dataclass
class Book:
    shelf: str
    copies: int


def library() -> Server:
    server = Server("library")
    server.add_tool(find_book)
    server.add_tool(lend)
    server.resource("rules://{shelf}")(rules)
    return server


def find_book(title: str) -> Book:
    return Book(f"shelf of {title}", 2)


async def lend(ctx: Context, shelf: str, reader: str = "nobody", days: int = 14) -> dict[str, object]:
    return {"shelf": shelf, "reader": reader, "days": days}


def rules(shelf: str) -> str:
    return f"rules of {shelf}"


def test_a_workflow_function_equals_the_same_workflow_written_with_steps() -> None:
    server = library()

    @server.workflow(title="Borrow", ask=True)
    def borrow(
        title: str,
        pin: Annotated[str, Argument(description="Your PIN", secret=True)],
        days: Annotated[int, "How long"] = 7,
    ) -> None:
        """Borrow a book.

        Args:
            title: The book's title, as it is
                printed on the cover.
        """
        book = step(find_book, retry=Retry(attempts=2), retryable=True)(title)
        fetch("rules", "rules://{shelf}", shelf=book.shelf)
        step(lend, name="out", guidance="Be quick", checkpoint=True)(shelf=book.shelf, days=days)
        step("lend")(shelf="QK {title}", reader=pin)

    find = ToolStep(
        "find_book", tool=find_book, arguments={"title": prompt_arg("title")}, retry=Retry(2), retryable=True
    )
    assert server.workflows["borrow"] == Workflow(
        name="borrow",
        title="Borrow",
        description="borrow a book",
        ask=True,
        arguments=[
            Argument("title", "The book's title, as it is printed on the cover.", required=True),
            Argument("pin", "Your PIN", required=True, secret=True),
            Argument("days", "How long", type=int, default=7),
        ],
        steps=[
            find,
            Fetch("rules", resources=["rules://{shelf}"], template_bindings={"shelf": find["shelf"]}),
            ToolStep(
                "out",
                {"shelf": step_output("find_book", "shelf"), "days": prompt_arg("days")},
                tool=lend,
                guidance="Be quick",
                checkpoint=True,
            ),
            ToolStep("lend", {"shelf": constant("QK {title}"), "reader": Argument("pin")}, tool="lend"),
        ],
    )


def annotated(days: Annotated[int, Field(default=7, ge=1)]) -> None:
    step(lend)(shelf="A", days=days)


def assigned(days: int = Field(default=7, ge=1)) -> None:
    step(lend)(shelf="A", days=days)


@pytest.mark.parametrize("function", [annotated, assigned])
def test_an_argument_has_the_default_and_the_limits_of_its_field(function: Callable[..., Any]) -> None:
    server = library()
    server.workflow(function)

    with connect(server) as client:
        assert '"days": 7' in client.get_prompt(function.__name__).text
        with pytest.raises(JsonRpcError, match="greater than or equal to 1"):
            client.get_prompt(function.__name__, {"days": "0"})


def test_only_an_argument_without_an_annotation_is_a_text() -> None:
    server = library()

    @server.workflow
    def take(anything: Any, text) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - as some authors write
        """Take two values."""
        step(lend)(shelf=text, reader=anything)

    assert [argument.type for argument in server.workflows["take"].arguments] == [Any, str]


def test_a_workflow_function_runs_as_any_other_workflow() -> None:
    server = library()

    @server.workflow
    def borrow(title: str) -> None:
        book = step(find_book)(title=title)
        fetch("rules", "rules://{shelf}", shelf=book.shelf)
        step(lend)(shelf=book.shelf, reader="kim")

    with connect(server) as client:
        run = client.get_prompt("borrow", {"title": "Emma"})

    assert run.completed
    assert run.steps == {"find_book": "completed", "rules": "completed", "lend": "completed"}
    assert '"shelf": "shelf of Emma"' in run.text
    assert "rules of shelf of Emma" in run.text


class Kind(str, Enum):  # noqa: UP042 - the text of this kind of enum is not its value
    NEW = "new"
    GIVE = "give"


def test_a_value_is_what_it_was_when_the_step_was_described_and_what_a_model_would_send() -> None:
    received: list[object] = []
    server = Server("library")

    @server.tool
    def note(value: Any) -> None:
        received.append(value)

    @server.tool
    def give() -> dict[str, int]:
        return {"new": 7}

    @server.workflow
    def note_all() -> None:
        changing: dict[str, object] = {}
        for number in range(3):
            changing["number"] = number
            step("note", name=f"note_{number}")(value=changing)
        numbers = [1]
        step("note", name="first", when=is_in(1, numbers), each=numbers)(value=item())
        numbers[0] = 2
        others = step("note", name="others")(value=[(1, Kind.NEW), range(2), {3: Kind.NEW}])
        found = step("give", after=others)()
        step("note", name=Kind.NEW, after=[Kind.GIVE])(value=found[Kind.NEW])

    with connect(server) as client:
        run = client.call_workflow("note_all")

    assert run.completed
    assert list(run.steps)[-1] == "new"
    assert received == [{"number": 0}, {"number": 1}, {"number": 2}, 1, [[1, "new"], [0, 1], {"3": "new"}], 7]
    assert type(received[-2][0][1]) is str  # type: ignore[index]


def test_a_step_gets_its_name_from_its_tool_and_its_fields_are_sources() -> None:
    find = ToolStep(find_book, {"title": Argument("title")})
    order = ToolStep("order", tool="order")

    assert (find.name, find.tool) == ("find_book", "find_book")
    sources = {"x": step_output("order"), "y": step_output("order", "lines.0.total")}
    assert ToolStep("a", {"x": order, "y": order["lines"][0].total}, tool="t") == ToolStep("a", sources, tool="t")


references: list[Any] = []
"""References from another workflow function."""


def condition(title: str) -> None:
    if step(find_book)(title=title).copies:  # here
        pass


def comparison(title: str) -> None:
    if step(find_book)(title=title).copies > 0:  # here
        pass


def chained_comparison(title: str) -> None:
    book = step(find_book)(title=title)
    step(lend, when=0 < book.copies < 5)(shelf=book.shelf)  # here


def condition_of_another_workflow(title: str) -> None:
    step(lend, when=references[0].copies > 0)(shelf=title)  # here


def f_string(title: str) -> None:
    step(find_book)(title=f"The {title}")  # here


def text(title: str) -> None:
    step(find_book)(title="The " + title)  # here


def text_of_the_element(title: str) -> None:
    step(find_book, each=["a"])(title=f"{item()}")  # here


def condition_on_the_element(title: str) -> None:
    step(find_book, each=["a"])(title=item() or title)  # here


def element_in_a_list(title: str) -> None:
    step(find_book, each=["a"])(title=[item()])  # type: ignore[arg-type]  # here


def text_of_a_variable(title: str) -> None:
    step(find_book)(title=f"{task_variable('title')}")  # here


def text_of_a_source(title: str) -> None:
    step(find_book)(title=f"{prompt_arg('title')}")  # here


def condition_on_a_source(title: str) -> None:
    step(find_book)(title="a" if prompt_arg("title") else title)  # here


def text_of_a_condition(title: str) -> None:
    book = step(find_book)(title=title)
    step(find_book, name="again")(title=str(book.copies > 1))  # here


def text_with_the_parameter_of_a_helper(title: str) -> None:
    def find(name: str) -> None:
        step(find_book)(title="The {name}")  # here

    find(title)


def text_with_an_argument_that_was_replaced(title: str) -> None:
    title = step(find_book)(title=title).shelf
    step(lend, guidance="For {title}")(shelf=title)  # here


def question_with_the_argument_of_the_other_workflow(name: str) -> None:
    def find(title: str) -> None:
        step(find_book)(title=ask_user("title", "Which {title}?"))  # here

    find(name)


def time_of_the_deployment(title: str) -> None:
    step(find_book)(title=str(datetime.now(UTC)))  # here


def random_title_of_the_deployment(title: str) -> None:
    step(find_book)(title=random.choice(["Emma", title]))  # here


def token_of_the_deployment(title: str) -> None:
    step(find_book)(title=secrets.choice([title, secrets.token_hex()]))  # here


def sleep_at_the_deployment(title: str) -> None:
    step(find_book)(title=title)
    sleep(0)  # here


def reference_in_a_dataclass(title: str) -> None:
    step(find_book)(title=Book(title, 1))  # type: ignore[arg-type]  # here


def copy_of_a_dataclass(title: str) -> None:
    book = step(find_book)(title=title)
    step(lend)(shelf=replace(book, copies=3).shelf)  # here


def membership_in_a_result(title: str) -> None:
    book: Any = step(find_book)(title=title)
    step(lend, when=is_in(title, book.readers))(shelf="A")  # here


def loop(title: str) -> None:
    book: Any = step(find_book)(title=title)
    for _copy in book:  # here
        pass


def length(title: str) -> None:
    len(title)  # here


def method(title: str) -> None:
    step(lend)(shelf=step(find_book)(title=title).shelf.lower())  # here


def field_of_argument(title: str) -> None:
    step(find_book)(title=title.lower())  # here


def direct_call(title: str) -> None:
    find_book(title)  # here


def direct_call_without_a_reference(title: str) -> None:
    book = find_book("Emma")  # here
    step(lend)(shelf=book.shelf)


def direct_call_in_a_try_block(title: str) -> None:
    try:
        book = find_book("Emma")  # here
    except WorkflowError:
        book = Book("A", 1)
    step(lend)(shelf=book.shelf)


def direct_call_through_another_function(title: str) -> None:
    books = list(map(find_book, ["Emma"]))  # here
    step(lend)(shelf=books[0].shelf)


def discarded_call_of_an_async_tool(title: str) -> None:
    lend("A", title)  # type: ignore[arg-type, unused-coroutine]  # here
    step(find_book)(title=title)


def direct_call_of_an_async_tool(title: str) -> None:
    book = step(find_book)(title=title)
    step(find_book, name="again")(title=lend("a", book.shelf))  # type: ignore[arg-type]  # here


def reference_in_a_list(title: str) -> None:
    step(find_book)(title=[title])  # type: ignore[arg-type]  # here


def other_workflow(title: str) -> None:
    step(find_book)(title=references[0])  # here


def too_many_values(title: str) -> None:
    step(find_book)(title, title)  # type: ignore[call-arg]  # here


def given_twice(title: str) -> None:
    step(find_book)(title, title=title)  # type: ignore[misc]  # here


def key_with_a_dot(title: str) -> None:
    book: Any = step(find_book)(title=title)
    step(find_book, name="again")(title=book["a.b"])  # here


def dictionary_key(title: str) -> None:
    names = {title: 1}  # here
    step(find_book)(title=str(names))


def with_a_context(title: str, ctx: Context) -> None:  # here
    step(find_book)(title=title)


def with_a_result(title: str) -> Book:  # here
    return step(find_book)(title=title)


MISTAKES: list[tuple[Callable[..., Any], str]] = [
    (condition, "give it to a step: step(tool, when=…)"),
    (comparison, "give it to a step: step(tool, when=…)"),
    (chained_comparison, "combine conditions with (…) & (…)"),
    (condition_of_another_workflow, "use this workflow's own"),
    (f_string, "pass it to the tool as an argument of its own"),
    (text, "do it in a tool"),
    (text_of_the_element, "pass it to the tool as an argument of its own"),
    (condition_on_the_element, "give it to a step: step(tool, when=…)"),
    (element_in_a_list, "give the tool a parameter for it"),
    (text_of_a_variable, "pass it to the tool as an argument of its own"),
    (text_of_a_source, "pass it to the tool as an argument of its own"),
    (condition_on_a_source, "give it to a step: step(tool, when=…)"),
    (text_of_a_condition, "give it to a step: step(tool, when=…)"),
    (text_with_the_parameter_of_a_helper, "rename 'name', or pass it to the tool"),
    (text_with_an_argument_that_was_replaced, "rename 'title', or pass it to the tool"),
    (question_with_the_argument_of_the_other_workflow, "rename 'title', or pass it to the tool"),
    (time_of_the_deployment, "do it in a tool"),
    (random_title_of_the_deployment, "do it in a tool"),
    (token_of_the_deployment, "do it in a tool"),
    (sleep_at_the_deployment, "write sleep_until('…', timedelta(…))"),
    (reference_in_a_dataclass, "give the tool a parameter for it"),
    (copy_of_a_dataclass, "do it in a tool"),
    (membership_in_a_result, "give a list of values"),
    (loop, "call a tool for each element: step(tool, each=…)"),
    (length, "call a tool for each element: step(tool, each=…)"),
    (method, "call methods in a tool"),
    (field_of_argument, "call methods in a tool"),
    (direct_call, "write step(find_book)(…)"),
    (direct_call_without_a_reference, "write step(find_book)(…)"),
    (direct_call_in_a_try_block, "write step(find_book)(…)"),
    (direct_call_through_another_function, "write step(find_book)(…)"),
    (discarded_call_of_an_async_tool, "write step(lend)(…)"),
    (direct_call_of_an_async_tool, "write step(lend)(…)"),
    (reference_in_a_list, "give the tool a parameter for it"),
    (other_workflow, "give this workflow an argument or a step of its own"),
    (too_many_values, "2 values for 1 parameters; give title"),
    (given_twice, "the argument 'title' is given twice; give it once, by its name"),
    (key_with_a_dot, "have no dots"),
    (dictionary_key, "do it in a tool"),
    (with_a_context, "give them to the tools"),
    (with_a_result, "returns nothing"),
]


@pytest.mark.parametrize(("function", "remedy"), MISTAKES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_mistake_names_the_workflow_its_file_its_line_and_a_remedy(function: Callable[..., Any], remedy: str) -> None:
    server = library()

    @server.workflow
    def other(title: str) -> None:
        """Find another book."""
        references[:] = [step(find_book)(title=title)]

    with pytest.raises(WorkflowError) as error_info:
        server.workflow(function)

    message = str(error_info.value)
    lines = [line.rstrip() for line in linecache.getlines(__file__)]
    first_line = function.__code__.co_firstlineno
    marked_line = next(number for number in range(first_line, len(lines) + 1) if lines[number - 1].endswith("# here"))
    assert message.startswith(f"workflow {function.__name__!r}: {__file__}:{marked_line}")
    assert remedy in message
    assert function.__name__ not in server.workflows


def test_the_default_of_an_argument_has_no_factory() -> None:
    def find(titles: Annotated[list[str], Field(default_factory=list)]) -> None:
        step(find_book, each=titles)(title=item())

    with pytest.raises(WorkflowError, match=r"'titles' has a default_factory, .* fixed value; write the value"):
        library().workflow(find)


@pytest.mark.parametrize("names", [("from_", "to"), ("from", "target"), ("from", "goal")])
def test_a_step_takes_each_name_of_a_parameter(baton: Connect, names: tuple[str, str]) -> None:
    server = Server("trains")

    @server.tool
    def travel(
        from_: Annotated[str, Field(alias="from")],
        to: Annotated[str, Field(validation_alias=AliasChoices("target", "goal"))],
    ) -> str:
        return f"from {from_} to {to}"

    @server.workflow
    def commute(home: str) -> None:
        step("travel")(**dict(zip(names, (home, "work"), strict=True)))

    client = baton(server)
    client.call_workflow("commute", {"home": "Bern"})
    assert client.calls("travel") == [{"from": "Bern", "target": "work"}]


def test_a_secret_argument_of_another_workflow_function_needs_a_secret_argument() -> None:
    server = library()

    @server.workflow
    def authorize(pin: Annotated[str, Argument(secret=True)], reader: str) -> None:
        pin = step(find_book)(title=pin).shelf  # from here on, the name is that of another value
        step(lend)(shelf=pin, reader=reader)

    @server.workflow
    def borrow_secretly(code: Annotated[str, Argument(secret=True)]) -> None:
        authorize(code, "kim")

    @server.workflow
    def borrow_with_one_of_two(
        code: Annotated[str | None, Argument(secret=True)] = None,
        pin: Annotated[str | None, Argument(secret=True)] = None,
    ) -> None:
        authorize(first_of(code, pin), "kim")

    def borrow_openly(code: str) -> None:
        authorize(code, "kim")

    def borrow_with_a_constant() -> None:
        authorize("1234", "kim")

    for function in (borrow_openly, borrow_with_a_constant):
        with pytest.raises(WorkflowError, match="the argument 'pin' is secret, and is given a value that is not"):
            server.workflow(function)


def test_only_one_of_two_workflows_with_the_same_function_has_a_secret_argument() -> None:
    server = library()
    for name, is_secret in (("secretly", True), ("openly", False)):

        @server.workflow(name=name)
        def borrow(title: Annotated[str, Argument(secret=is_secret)]) -> None:
            step(find_book)(title=title)

    assert [bool(server.workflows[name].secrets) for name in ("secretly", "openly")] == [True, False]


def test_a_workflow_function_may_use_what_is_equal_in_each_run() -> None:
    server = library()

    def shelf_name() -> str:
        return "A"

    shelf_name.__module__ = "secrets"  # as of a module of the author

    @server.workflow
    def find(title: str) -> None:
        generator = random.Random(7)
        generator.random()
        step(find_book)(title=generator.choice(["Emma", "Emma"]))
        step(lend)(shelf=shelf_name())

    assert [step.name for step in server.workflows["find"].steps] == ["find_book", "lend"]


class Shelf:
    def __call__(self, title: str) -> str:
        return f"called {title}"

    def find(self, title: str) -> str:
        return f"found {title}"

    def borrow(self, title: str, kind: Kind = Kind.NEW) -> None:
        step(SHELF, name="call")(title=title)
        step(SHELF.find)(title)
        step(EXCLAIM, name="exclaim")(self="a", kind=kind)


def exclaim(self: str, kind: Kind) -> str:
    return f"{self}, {kind.name}!"


SHELF, EXCLAIM = Shelf(), partial(exclaim)


def test_objects_and_methods_are_tools_and_workflows() -> None:
    server = Server("library")
    server.add_tool(SHELF, name="shelf")
    server.add_tool(SHELF.find)
    server.add_tool(EXCLAIM, name="exclaim")
    server.workflow(SHELF.borrow)

    with connect(server) as client:
        variables = client.task(client.call_workflow("borrow", {"title": "Emma"}).task_id).variables

    results = [variables[f"_workflow.result.{step}"] for step in ("call", "find", "exclaim")]
    assert results == ["called Emma", "found Emma", "a, NEW!"]


def test_a_method_without_its_object_and_an_object_without_code_are_refused() -> None:
    with pytest.raises(RegistrationError, match=re.escape("'find': it is a method without its object; publish object")):
        Server("library").add_tool(Shelf.find)
    with pytest.raises(WorkflowError, match="is not a function that describes a workflow; write def"):
        Server("library").workflow(name="borrow")(partial(SHELF.borrow, title="Emma"))


def test_the_use_of_a_value_that_does_not_exist_yet_is_also_a_type_error() -> None:
    with pytest.raises(TypeError) as error_info:
        library().workflow(condition)
    assert isinstance(error_info.value, NoValueYet)


def test_steps_outside_of_a_workflow_function_are_refused() -> None:
    for call in (lambda: step(find_book), lambda: fetch("rules", "rules://a")):
        with pytest.raises(RegistrationError, match=re.escape(f"{__file__}:")):
            call()


def test_references_do_not_define_dunder_attributes() -> None:
    reference = Reference(step_output("book"))

    assert repr(reference.shelf) == "<the field 'shelf' of the result of the step 'book'>"
    assert not hasattr(reference, "__wrapped__")


def test_the_calls_of_tools_are_monitored_only_while_a_workflow_is_defined() -> None:
    server = library()

    @server.workflow
    def borrow(title: str) -> None:
        step(find_book)(title=title)

    assert find_book("Emma") == Book("shelf of Emma", 2)
    assert sys.monitoring.get_tool(4) is None
