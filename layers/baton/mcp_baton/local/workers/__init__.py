"""The workers of `baton serve`: processes that run background tasks, as a second Lambda function would.

An event waits in a queue that retries as Lambda's does (`event_queue`). A worker process (`__main__`) polls a Lambda
Runtime API (`runtime_api`) and runs the server's handler (`function`). `pool` starts the processes.
"""
