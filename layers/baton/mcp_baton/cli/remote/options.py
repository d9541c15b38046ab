"""Options that several commands have."""

from typing import Annotated

import typer

from mcp_baton.cli import values

Where = Annotated[
    str,
    typer.Argument(metavar="WHERE", help="A URL, a file or module with a Server (app.py:server), or a profile's name."),
]
Served = Annotated[str, typer.Argument(metavar="WHERE", help="A URL, or a profile's name.")]
WhereOrTask = Annotated[
    str,
    typer.Argument(metavar="WHERE", help="A URL, or a profile's name; not with --table."),
]
Task = Annotated[
    str | None, typer.Argument(metavar="TASK", help="The task's id, or so much of its beginning that one task has it.")
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="key=text, key:=JSON, or key=@FILE for the file's text."),
]
ApiKey = Annotated[
    str | None, typer.Option("--api-key", metavar="KEY", help="Sent as x-api-key; env:NAME takes a variable's value.")
]
Token = Annotated[
    str | None, typer.Option("--token", metavar="TOKEN", help="Sent as a bearer token; env:NAME as for --api-key.")
]
Aws = Annotated[
    bool, typer.Option("--aws", help="Sign the requests with AWS credentials (Signature Version 4), as IAM asks for.")
]
Header = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME:VALUE", help="One more header; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on the standard output, and nothing else.")]
Table = Annotated[
    str | None,
    typer.Option(
        "--table", metavar="NAME", help="For operators: the DynamoDB table itself, with AWS credentials, not a server."
    ),
]
Owner = Annotated[str | None, typer.Option("--owner", metavar="OWNER", help="With --table: whose tasks.")]
DynamoDB = Annotated[
    str | None,
    typer.Option(
        "--dynamodb", parser=values.database, metavar="URL", help="With --table: a DynamoDB that is not AWS's."
    ),
]
GoOn = Annotated[
    bool,
    typer.Option(
        "--continue", help="Make the calls that are left to the client, one by one, asking for what is missing."
    ),
]
