"""The log of `baton`'s commands, on the standard error stream."""

import logging


def log_to_stderr() -> None:
    """Log as the command does, in this process or in one that it has started."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("botocore", "boto3", "moto", "urllib3", "werkzeug"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
