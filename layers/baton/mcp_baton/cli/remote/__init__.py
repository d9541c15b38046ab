"""What the commands have in common that speak to a server or to its table (docs/commands.md)."""
