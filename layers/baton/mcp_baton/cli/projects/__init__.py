"""Projects that depend on Baton as a package: what `baton new` makes and `baton upgrade` keeps (docs/projects.md)."""
