"""A workflow function and `Workflow`/`Step` describe the same plan, for random plans (docs/workflows.md)."""

import random
from typing import Any, Literal

import pytest

from mcp_baton import (
    Argument,
    Fetch,
    Question,
    Retry,
    Server,
    ToolStep,
    Workflow,
    ask_model,
    ask_user,
    constant,
    fetch,
    prompt_arg,
    step,
    step_output,
)
from mcp_baton.workflow.steps.step import Step

TYPES = {"str": str, "int": int, "list[str]": list[str], "bool": bool}
CONSTANTS: list[Any] = [1, "text", "of {a0}", None, [1, {"b": "c"}], 2.5, True]
OPTIONS: list[tuple[str, str, Any]] = [
    ("retryable", "True", True),
    ("checkpoint", "True", True),
    ("guidance", "'Be quick'", "Be quick"),
    ("retry", "Retry(attempts=2)", Retry(attempts=2)),
]


def tool(x: Any = None, y: Any = None, z: Any = None) -> dict[str, Any]:
    """Do it."""
    return {}


class Plans:
    """Builds one random plan twice: as the source of a workflow function, and as arguments and steps."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.steps: list[Step] = []
        names = [f"a{place}" for place in range(self.random.randint(0, 3))]
        kinds = [self.random.choice(list(TYPES)) for _ in names]
        self.parameters = ", ".join(f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True))
        self.arguments = [
            Argument(name, required=True, type=TYPES[kind]) for name, kind in zip(names, kinds, strict=True)
        ]
        for place in range(self.random.randint(1, 8)):
            self.random.choice([self.add_call, self.add_call, self.add_fetch, self.add_question])(place)

    def value(self) -> tuple[str, Any]:
        """Return a value as source text and as a `Source`."""
        kind = self.random.choice(["constant", "argument", "output", "output"])
        if kind == "argument" and self.arguments:
            name = self.random.choice(self.arguments).name
            return name, prompt_arg(name)
        outputs = [earlier_step for earlier_step in self.steps if earlier_step.has_value]
        if kind == "output" and outputs:
            name = self.random.choice(outputs).name
            accesses = [("", None), ("['k']", "k"), (".field", "field"), ("[0].k['l']", "0.k.l")]
            text, path = self.random.choice(accesses)
            return f"{name}{text}", step_output(name, path)
        value = self.random.choice(CONSTANTS)
        return repr(value), constant(value)

    def values(self, names: list[str]) -> tuple[str, dict[str, Any]]:
        values = {name: self.value() for name in self.random.sample(names, self.random.randint(0, len(names)))}
        return ", ".join(f"{name}={text}" for name, (text, _) in values.items()), {
            name: source for name, (_, source) in values.items()
        }

    def add_call(self, place: int) -> None:
        texts, sources = self.values(["x", "y", "z"])
        options = self.random.sample(OPTIONS, self.random.randint(0, 2))
        options_text = "".join(f", {name}={text}" for name, text, _ in options)
        self.lines.append(f"s{place} = step(tool, name='s{place}'{options_text})({texts})")
        option_values: dict[str, Any] = {name: value for name, _, value in options}
        self.steps.append(ToolStep(f"s{place}", sources, tool=tool, **option_values))

    def add_fetch(self, place: int) -> None:
        texts, sources = self.values(["p", "q"])
        self.lines.append(f"fetch('s{place}', 'docs://{{p}}/{{q}}'{', ' if texts else ''}{texts})")
        self.steps.append(Fetch(f"s{place}", resources=["docs://{p}/{q}"], template_bindings=sources))

    def add_question(self, place: int) -> None:
        texts, sources = self.values(["p", "q"])
        choices: list[Literal["model", "user"]] = ["model", "user"]
        role = self.random.choice(choices)
        self.lines.append(f"s{place} = ask_{role}('s{place}', 'Why {{p}}?', returns=int{', ' if texts else ''}{texts})")
        self.steps.append(Question(f"s{place}", "Why {p}?", returns=int, of=role, template_bindings=sources))

    def as_function(self, server: Server) -> Workflow:
        body = "\n    ".join(self.lines)
        source = f"def plan({self.parameters}) -> None:\n    '''Plan it.'''\n    {body}\n"
        names = {"step": step, "fetch": fetch, "ask_model": ask_model, "ask_user": ask_user}
        namespace: dict[str, Any] = {**names, "Retry": Retry, "tool": tool}
        exec(compile(source, f"<plan of {source}>", "exec"), namespace)  # noqa: S102 - made above
        server.workflow(namespace["plan"])
        return server.workflows["plan"]

    def as_steps(self) -> Workflow:
        return Workflow(name="plan", description="plan it", arguments=self.arguments, steps=self.steps)


@pytest.mark.parametrize("seed", range(300))
def test_both_layers_define_the_same_plan(seed: int) -> None:
    plans = Plans(seed)
    server = Server("plans")
    server.add_tool(tool)

    from_function, from_steps = plans.as_function(server), plans.as_steps()

    assert from_function == from_steps
    assert from_function.fingerprint == from_steps.fingerprint
