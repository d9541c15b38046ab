"""Questions and answers in the tasks' table, one small item each, gone when its time is over (docs/http.md)."""

from collections.abc import Callable

from mcp_baton.exceptions import StoreError, TaskNotFound, TooLarge
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.attributes import Item, decode, encode_object
from mcp_baton.tasks.dynamodb.expressions import Update, first_token
from mcp_baton.tasks.dynamodb.items import expired, partition
from mcp_baton.tasks.dynamodb.table import ConditionFailed, ItemTooLarge, TaskTable, system_ms
from mcp_baton.tasks.ids import is_question, new_token

QUESTION_KEY = "QUESTION"
COMPRESS_OVER_BYTES = 8_192


class DynamoDBAnswerStore:
    """An `AnswerStore` beside the tasks: `pk` = `OWNER#<owner>#<question>`, `sk` = `QUESTION`.

    A question that is waited for is read many times, so each has a partition key of its own.

    Args:
        table: The table.
        now_ms: The clock, epoch milliseconds.
    """

    def __init__(self, table: TaskTable, *, now_ms: Callable[[], int] = system_ms) -> None:
        self._table = table
        self._now_ms = now_ms

    def ask(self, owner: str, question: str, ttl_s: int) -> None:
        """Open a question: one conditional `PutItem`."""
        token = new_token()
        item: Item = {
            **question_key(owner, question),
            "expires_at": {"N": str(self._now_ms() // 1000 + ttl_s)},
            **first_token(self._now_ms(), token),
        }
        try:
            self._table.put(item, token)
        except ConditionFailed as error:
            raise StoreError("the question's id is taken") from error

    def answer(self, owner: str, question: str, answer: JsonObject) -> None:
        """Answer an open question, once: one conditional `UpdateItem`."""
        if not is_question(question):
            raise TaskNotFound
        update = Update(new_token(), self._now_ms())
        update.require(f"attribute_exists({update.name('pk')})")
        update.require(f"attribute_not_exists({update.name('answer')})")
        update.require(f"{update.name('expires_at')}>{update.value({'N': str(self._now_ms() // 1000)})}")
        update.set(update.name("answer"), update.value(encode_object("answer", answer, COMPRESS_OVER_BYTES)))
        try:
            self._table.update(question_key(owner, question), update)
        except ConditionFailed as error:
            raise TaskNotFound from error
        except ItemTooLarge as error:
            raise TooLarge("the answer is too large: DynamoDB takes 409,600 bytes") from error

    def answered(self, owner: str, question: str) -> JsonObject | None:
        """The answer when there is one: one `GetItem`, strongly consistent."""
        item = self._table.get(question_key(owner, question))
        if item is None or expired(item, self._now_ms()) or "answer" not in item:
            return None
        answer = decode(item["answer"])
        return answer if isinstance(answer, dict) else None

    def close(self, owner: str, question: str) -> None:
        """Close a question: one `DeleteItem`."""
        self._table.delete(question_key(owner, question))


def question_key(owner: str, question: str) -> Item:
    """The primary key of a question's item."""
    return {"pk": partition(owner, question), "sk": {"S": QUESTION_KEY}}
