"""What `baton serve` tells in its terminal: a line a request, and errors (docs/commands.md, Serve)."""
