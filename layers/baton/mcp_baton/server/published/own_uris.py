"""URIs of Baton's own: a task's stored values, as resources (docs/storage.md, Values as resources). Pure."""

from typing import Final

SCHEME: Final = "baton://"
_TASKS: Final = f"{SCHEME}tasks/"

APP_URI: Final = "ui://baton/tasks"
"""The page of a workflow's tasks, which hosts show beside the results of its tool (docs/console.md)."""


def is_own(uri: str) -> bool:
    """Whether a URI is Baton's, so that no resource of a server's can be there. Schemes have no case (RFC 3986)."""
    return uri[: len(SCHEME)].lower() == SCHEME


def value_uri(task_id: str, name: str) -> str:
    """Where a task's variable can be read whole."""
    from urllib.parse import quote

    return f"{_TASKS}{task_id}/{quote(name, safe='', errors='surrogatepass')}"


def value_at(uri: str) -> tuple[str, str] | None:
    """The task id and the variable that a URI names; `None` for any other URI."""
    if not uri.startswith(_TASKS):
        return None
    task_id, slash, name = uri[len(_TASKS) :].partition("/")
    if not slash or "/" in name:
        return None
    from urllib.parse import unquote

    try:
        return task_id, unquote(name, errors="surrogatepass")
    except UnicodeDecodeError:
        return None
