"""The streaming runtime: AWS's runtime interface client, extended by streamed responses (docs/performance.md).

`baton-runtime`, the `AWS_LAMBDA_EXEC_WRAPPER`, starts `python -m mcp_baton.transport.runtime`.
"""
