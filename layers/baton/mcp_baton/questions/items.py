"""Questions to clients and their answers, one small item for each, in the table of the tasks (docs/http.md)."""

from mcp_baton.exceptions import TaskNotFound, TooLarge
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.attributes import Item, attributes, decode, encode_json, primary_key
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.items import expired, partition
from mcp_baton.tasks.dynamodb.retries import ConditionFailed, ItemTooLarge
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.ids import is_question, new_token

QUESTION_KEY = "QUESTION"
COMPRESS_ANSWER_OVER_BYTES = 8_192


class DynamoDBAnswerStore:
    """An `AnswerStore` beside the tasks: `pk` = `QUESTION#<owner>#<question>`, `sk` = `QUESTION`.

    Each question has a partition key of its own, because it is read many times while a call waits for the answer.
    """

    def __init__(self, table: TaskTable) -> None:
        self._table = table

    def ask(self, owner: str, question: str, ttl_s: int) -> None:
        expires = attributes(expires_at=self._table.clock_ms() // 1000 + ttl_s)
        self._table.create(question_key(owner, question) | expires, "the question's id is taken")

    def answer(self, owner: str, question: str, answer: JsonObject) -> None:
        if not is_question(question):
            raise TaskNotFound
        update = Update(self._table.clock_ms(), new_token())
        update.require_exists("pk")
        update.require_missing("answer")
        update.require("expires_at", ">", update.now_ms // 1000)
        update.set("answer", encode_json("the answer", answer, COMPRESS_ANSWER_OVER_BYTES))
        try:
            self._table.update(question_key(owner, question), update)
        except ConditionFailed as error:
            raise TaskNotFound from error
        except ItemTooLarge as error:
            raise TooLarge("the answer is too large: DynamoDB takes 409,600 bytes") from error

    def answered(self, owner: str, question: str) -> JsonObject | None:
        item = self._table.get(question_key(owner, question))
        if item is None or expired(item, self._table.clock_ms()) or "answer" not in item:
            return None
        answer = decode(item["answer"])
        return answer if isinstance(answer, dict) else None

    def close(self, owner: str, question: str) -> None:
        self._table.delete(question_key(owner, question))


def question_key(owner: str, question: str) -> Item:
    return primary_key(partition(owner, question), QUESTION_KEY)
