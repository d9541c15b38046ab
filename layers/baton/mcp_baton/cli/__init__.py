"""The `baton` command: one module a command, on Typer. Not part of the layer."""
