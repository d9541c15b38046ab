"""The streaming runtime: AWS's own runtime interface client, able to open a streamed answer (docs/performance.md).

`python -m mcp_baton.transport.runtime` is what `baton-runtime`, the `AWS_LAMBDA_EXEC_WRAPPER`, starts. A package with
a `__main__` of its own, so that `-m` does not make a second copy of a module that others import by its name.
"""
