"""The configuration files of hosts, for `baton install` (docs/commands.md, Configure a host)."""
