"""Pictures of workflows, for `baton graph` (docs/commands.md, Draw a workflow)."""
