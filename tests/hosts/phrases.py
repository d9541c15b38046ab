"""Reads the next steps for a model from a text, using only the documented phrases (docs/workflows.md, docs/hosts.md).

1. Call refund with {"order_id": "A-17", "task_id": "…"}
Or call refund_order with {"task_id": "…"} to let the server continue.
After the decision, call refund_order with {"task_id": "…"} to let the server continue.
To end the task, call refund_order with {"task_id": "…", "task_action": "cancel"}.
Next: call send_mail with {"to": "kim@example.com", "task_id": "…"}
All 4 steps are done. Call refund_order with {"task_id": "…"} to finish.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

type JsonDict = dict[str, Any]

READ = r"(?:[Rr]ead the resource .+?, then )*"
NUMBERED = re.compile(rf"^\d+\. {READ}[Cc]all ([\w-]+) with (?=\{{[\x22}}])", re.MULTILINE)
OPENINGS = r"(?:^(?:Or|Then) call|^Call|\. Call|When the cause is corrected, call|After the decision, call)"
CONTINUE = re.compile(rf"{OPENINGS} ([\w-]+) with (?=\{{[\x22}}][^\n]*\}} to let the server continue\.)", re.MULTILINE)
NEXT = re.compile(rf"Next: {READ}call ([\w-]+) with (?=\{{[\x22}}])")
FINISH = re.compile(r"All \d+ steps are done(?:, \d+ of them skipped)?\. Call ([\w-]+) with (?=\{[\x22}])")
DONE = re.compile(r"^Done: \d+ of \d+ steps?(?:, \d+ of them skipped)?\.", re.MULTILINE)
LEFT_TO_CLIENT = re.compile(r"All \d+ steps are done(?:, \d+ of them skipped)?[.;] [Tt]he client completes the task\.")
WAITS = re.compile(r"waits for an approval: .*You cannot decide it\. Tell the user", re.DOTALL)
END = re.compile(
    r"Do not make the same call again\. Tell the user\.\s+To end the task, call ([\w-]+) with (?=\{[\x22}])"
)
RETRY = re.compile(r"again in (\d+(?:\.\d+)?) s\b")
PLACEHOLDER = re.compile(r"<(?:missing:|invalid:|prompt arg|secret) [\w-]+>|<(?:output|field|task variable) .+>")


@dataclass(frozen=True)
class Call:
    tool: str
    arguments: JsonDict

    def __str__(self) -> str:
        return f"{self.tool}({json.dumps(self.arguments)})"


@dataclass(frozen=True)
class Reading:
    """The instructions in a text.

    Attributes:
        calls: The remaining calls, the first one first: those of a handoff, or the one after `Next:`.
        continue_call: The call that lets the server continue or finish.
        left_to_client: Whether every step is done, and no call can end the task.
        retry_s: The seconds after which the same call should be made again.
        waits: Whether a person has to decide first, which the model must tell its user.
        end: The call that ends a task that cannot continue.
    """

    done: bool
    calls: tuple[Call, ...]
    continue_call: Call | None
    left_to_client: bool
    retry_s: float | None
    waits: bool = False
    end: Call | None = None


def read(text: str) -> Reading:
    finish = _calls(FINISH, text)
    continue_call = finish or _calls(CONTINUE, text)
    retry = RETRY.search(text)
    return Reading(
        done=DONE.search(text) is not None,
        calls=(*_calls(NUMBERED, text), *_calls(NEXT, text)),
        continue_call=continue_call[0] if continue_call else None,
        left_to_client=LEFT_TO_CLIENT.search(text) is not None,
        retry_s=float(retry[1]) if retry else None,
        waits=WAITS.search(text) is not None,
        end=next(iter(_calls(END, text)), None),
    )


def _calls(phrase: re.Pattern[str], text: str) -> list[Call]:
    return [Call(match[1], json.JSONDecoder().raw_decode(text, match.end())[0]) for match in phrase.finditer(text)]
