"""Removes documentation from botocore's data, and the endpoints of services that the layer does not have.

The Makefile runs it: `python slim.py PATH/botocore/data`. A client reads all its data when it is created, which takes a
tenth of the first request that needs it. Clients work as before; only `help(client)` is shorter.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

MODEL = "service-2.json"
DOCUMENTED = "clientContextParams"
"""Here botocore requires a documentation text, which can be empty."""


def main(data: Path) -> None:
    """Slim botocore's `data` folder."""
    for packed in sorted(data.rglob("*.json.gz")):
        write(packed.with_suffix(""), json.loads(gzip.decompress(packed.read_bytes())))
        packed.unlink()
    models = {path: json.loads(path.read_bytes()) for path in sorted(data.rglob(MODEL))}
    for path, model in models.items():
        write(path, without_documentation(model))
    endpoints = data / "endpoints.json"
    prefixes = {model["metadata"]["endpointPrefix"] for model in models.values()}
    write(endpoints, only_of(prefixes, json.loads(endpoints.read_bytes())))


def without_documentation(value: Any) -> Any:
    """Return a model without documentation texts. A member named `documentation` that is an object stays."""
    if isinstance(value, dict):
        members = value.items()
        return {
            name: with_empty_texts(member) if name == DOCUMENTED else without_documentation(member)
            for name, member in members
            if not (name == "documentation" and isinstance(member, str))
        }
    return [without_documentation(member) for member in value] if isinstance(value, list) else value


def with_empty_texts(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: {**parameter, "documentation": ""} for name, parameter in parameters.items()}


def only_of(prefixes: set[str], endpoints: dict[str, Any]) -> dict[str, Any]:
    """Return the endpoints of the services with these prefixes, in every partition and region."""
    for partition in endpoints["partitions"]:
        services = partition["services"]
        partition["services"] = {name: service for name, service in services.items() if name in prefixes}
    return endpoints


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, separators=(",", ":")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
