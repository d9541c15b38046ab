"""The workers of `baton serve`: processes that work on tasks in the background, as a second Lambda function would.

An event waits in a queue that tries again as Lambda's does (`queue`). A worker process (`sandbox`) polls a Lambda
Runtime API (`runtime_api`) and runs the server's own handler (`function`). `pool` holds them together.
"""
