"""Random items, conditions and updates for the comparison of the simulated DynamoDB with DynamoDB Local."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from tests.simulation.dynamodb.paths import Attribute, Item

NAMES = ("aa", "bb", "cc", "dd", "ee", "ff")
MEMBERS = ("xx", "yy")
WORDS = ("", "a", "ab", "abc", "b", "z")
KINDS = ("N", "S", "BS", "BOOL", "NULL", "M", "L", "B")
ORDERED = ("N", "S", "B")
HOLDS = {"aa": ("N",), "bb": ("S",), "cc": ("BS",), "dd": ("L",), "ee": ("M",), "ff": KINDS}
"""The usual types of the attributes, chosen so that most updates are valid."""
SIGNS = ("=", "<>", "<", "<=", ">", ">=")


class RandomRequest:
    """One random request."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.names: dict[str, str] = {}
        self.values: dict[str, Attribute] = {}
        self.changed_names: set[str] = set()

    def item(self, key: Item) -> Item:
        return {**key, **{name: self.attribute(HOLDS[name]) for name in NAMES if self.rng.random() < 0.8}}

    def attribute(self, kinds: tuple[str, ...] = KINDS, levels: int = 2) -> Attribute:
        rng = self.rng
        kind = rng.choice([kind for kind in kinds if levels or kind not in {"M", "L"}])
        match kind:
            case "N":
                return {"N": rng.choice(("0", "1", "-3", "7", "30.5", "38"))}
            case "S":
                return {"S": rng.choice(WORDS)}
            case "B":
                return {"B": rng.choice(WORDS).encode()}
            case "BS":
                return {"BS": rng.sample([word.encode() for word in WORDS if word], rng.randrange(1, 4))}
            case "BOOL":
                return {"BOOL": rng.random() < 0.5}
            case "NULL":
                return {"NULL": True}
            case "M":
                return {"M": {name: self.attribute(levels=levels - 1) for name in MEMBERS if rng.random() < 0.8}}
            case _:
                return {"L": [self.attribute(levels=levels - 1) for _ in range(rng.randrange(4))]}

    def path(self, *, is_top_level: bool = False, kind: str = "", is_unused: bool = False) -> str:
        """Return a random path, with names or placeholders.

        Args:
            whole: Return an attribute, not a path inside one.
            free: Return an attribute that this request does not change yet.
        """
        names = [name for name in NAMES if not kind or HOLDS[name] == (kind,) or self.rng.random() < 0.1]
        name = self.rng.choice([name for name in names if not is_unused or name not in self.changed_names] or names)
        if is_unused:
            self.changed_names.add(name)
        path = self._name(name)
        while not is_top_level and self.rng.random() < (0.7 if name in {"dd", "ee"} else 0.1):
            is_list = (name == "dd") is (self.rng.random() < 0.9)
            path += f"[{self.rng.randrange(3)}]" if is_list else f".{self._name(self.rng.choice(MEMBERS))}"
        return path

    def _name(self, name: str) -> str:
        if self.rng.random() < 0.5:
            return name
        self.names[f"#{name}"] = name
        return f"#{name}"

    def value(self, *kinds: str) -> str:
        return self._placeholder(self.attribute(kinds or KINDS))

    def condition(self, levels: int = 2) -> str:
        if levels and self.rng.random() < 0.6:
            left, right = self.condition(levels - 1), self.condition(levels - 1)
            match self.rng.randrange(5):
                case 0:
                    return f"NOT {left}" if left.startswith("(") else f"NOT ({left})"
                case 1 | 2:
                    return f"{left} AND {right}" if self.rng.random() < 0.5 else f"({left}) AND ({right})"
                case _:
                    return f"({left} OR {right})"
        return self.rng.choice(self._simple())()

    def _simple(self) -> list[Callable[[], str]]:
        return [
            lambda: f"attribute_exists({self.path()})",
            lambda: f"attribute_not_exists({self.path()})",
            lambda: f"contains({self.path()}, {self.value('B')})",
            lambda: f"NOT contains({self.path(is_top_level=True)}, {self.value('B')})",
            lambda: f"{self.path()} {self.rng.choice(('=', '<>'))} {self.value()}",
            lambda: f"{self.path()}{self.rng.choice(SIGNS)}{self.value(*ORDERED)}",
            lambda: f"{self._name('aa')}{self.rng.choice(SIGNS)}{self._name('ee')}.{self._name(MEMBERS[0])}",
            lambda: f"{self.path()} IN ({self.value()},{self.value()},{self.value()})",
            lambda: f"{self.path()} BETWEEN {self._placeholder({'N': '-3'})} AND {self.value('N')}",
        ]

    def _placeholder(self, value: Attribute) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = value
        return placeholder

    def update(self) -> str:
        rng = self.rng
        clauses: dict[str, list[str]] = {}
        for _ in range(rng.randrange(1, 4)):
            clause, action = rng.choice(self._actions())()
            clauses.setdefault(clause, []).append(action)
        return " ".join(f"{clause} {', '.join(actions)}" for clause, actions in clauses.items())

    def _actions(self) -> list[Callable[[], tuple[str, str]]]:
        unused_path = partial(self.path, is_unused=self.rng.random() < 0.9)
        return [
            lambda: ("SET", f"{unused_path()}={self.value()}"),
            lambda: ("SET", f"{unused_path()} = {self.value()}"),
            lambda: ("SET", f"{(path := unused_path(kind='N', is_top_level=True))}={path}+{self.value('N')}"),
            lambda: ("SET", f"{unused_path()}={self.path(kind='N', is_top_level=True)}+{self.value('N')}"),
            lambda: ("SET", f"{unused_path()}=if_not_exists({self.path()},{self.value()})"),
            lambda: ("SET", f"{unused_path()}={self.path()}"),
            lambda: ("REMOVE", unused_path()),
            lambda: ("ADD", f"{unused_path(is_top_level=True, kind='BS')} {self.value('BS')}"),
            lambda: ("ADD", f"{unused_path(is_top_level=True, kind='N')} {self.value('N')}"),
        ]

    def request(self, key: Item) -> dict[str, Any]:
        """Return a complete `UpdateItem` request."""
        update = self.update()
        request: dict[str, Any] = {"Key": key, "UpdateExpression": update}
        if self.rng.random() < 0.7:
            request["ConditionExpression"] = self.condition()
        return {
            **request,
            **({"ExpressionAttributeNames": self.names} if self.names else {}),
            **({"ExpressionAttributeValues": self.values} if self.values else {}),
            # For a path inside an attribute, DynamoDB Local returns sometimes the value and sometimes the whole
            # attribute.
            "ReturnValues": self.rng.choice(
                ("ALL_NEW", "NONE") if {*update} & {".", "["} else ("ALL_NEW", "UPDATED_NEW")
            ),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
