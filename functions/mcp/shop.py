"""The server that `orders` and `sales` register with, and the tool that both workflows end with."""

from dataclasses import dataclass

from mcp_baton import Server

server = Server(
    "shop",
    version="1.0.0",
    title="Example shop",
    instructions="Refunds orders and reports on sales. Amounts are in EUR. Read policy://refunds before you refund.",
)


@dataclass(frozen=True)
class Message:
    """An e-mail as it went out."""

    to: str
    subject: str
    text: str


@server.tool
def send_message(to: str, text: str, reference: str | None = None) -> Message:
    """Send an e-mail; `reference` is put into its subject."""
    # An application of your own sends it here. This one has nobody to write to.
    return Message(to, f"News from the shop ({reference})" if reference else "News from the shop", text)
