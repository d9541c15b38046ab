"""The resources of docs/events.md, and the template with them."""

import re
from pathlib import Path
from textwrap import indent

DOCS = Path(__file__).parents[1] / "docs" / "events.md"
STATEMENTS = re.compile(r"\n  DeadLetterQueuePolicy:\n(?:    .*\n)*? +Statement:\n(?=( +)- )")
OUTPUTS = "\nOutputs:\n"
RULE_NAME = "AlarmRule"


def blocks() -> list[str]:
    """Return the YAML of the page: the schedule, the rule, the statement for its dead letters, the queue, and the new
    file's part of a rule.
    """
    return re.findall(r"^```yaml\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)


def with_event_resources(template: str) -> str:
    """Add all resources of the page to the template, or to the built or packaged template. The rule for a new file is
    `FileRule`.
    """
    schedule, rule, statement, queue, file_properties = blocks()
    rule_start = f"{RULE_NAME}:\n  Type: AWS::Events::Rule\n  Properties:\n"
    assert rule.startswith(rule_start)
    permission = rule[rule.index(f"{RULE_NAME}Permission:") :]
    file_rule = f"{rule_start}{indent(file_properties, ' ' * 4)}{permission}".replace(RULE_NAME, "FileRule")
    resources = indent("".join((schedule, rule, file_rule, queue)), "  ")
    before, outputs, after = template.partition(OUTPUTS)
    assert outputs
    template = f"{before}\n{resources}{outputs}{after}"
    found = STATEMENTS.search(template)
    assert found
    file_statement = statement.replace(RULE_NAME, "FileRule").replace("FailedRules", "FailedFiles")
    statements = indent(statement + file_statement, found[1])
    return template[: found.end()] + statements + template[found.end() :]
