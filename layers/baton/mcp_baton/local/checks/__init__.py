"""`baton check`: all that a handler would refuse a server for, and what is worth knowing besides."""
