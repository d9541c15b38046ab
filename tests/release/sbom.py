"""Writes the layer's software bill of materials: uv export --format cyclonedx1.5 | python -m tests.release.sbom FILE

uv gives each list a new serial number and time. Both are optional in CycloneDX. Without them, the bytes depend only on
the locked packages.
"""

import json
import sys
from pathlib import Path


def main(target: Path) -> int:
    """Write the list from the standard input to a file. Return the exit code."""
    document = json.load(sys.stdin)
    del document["serialNumber"], document["metadata"]["timestamp"]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=2) + "\n")
    sys.stdout.write(
        f"{target}: {len(document['components'])} packages, and {document['metadata']['component']['name']}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
