"""The `baton` command: one module for each subcommand, with Typer. Not part of the layer."""
