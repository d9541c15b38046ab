"""Shared parts of the commands that use a server or its table (docs/commands.md)."""
