"""Prints checkov's findings in the CloudFormation templates of the current folder, as JSON.

It runs with the interpreter of tests/audit. checkov's own command would first import the checks of every framework.
"""

import importlib
import json
import sys
import warnings


def main() -> None:
    """Check each template of the folder, offline."""
    warnings.simplefilter("ignore")
    runner = importlib.import_module("checkov.cloudformation.runner").Runner()
    runner_filter = importlib.import_module("checkov.runner_filter").RunnerFilter(framework=["cloudformation"])
    report = runner.run(root_folder=".", runner_filter=runner_filter)
    failed_checks = [
        {"check": check.check_id, "name": check.check_name, "resource": check.resource, "file": check.file_path}
        for check in report.failed_checks
    ]
    sys.stdout.write(json.dumps({"failed": failed_checks, "unread": report.parsing_errors}))


if __name__ == "__main__":
    main()
