"""Play one game on an emulator of AWS: see `game.py`."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.deployed.deployment import running_emulator
from tests.deployed.image import ensure_runtime_image
from tests.deployed.machine import docker_client, runtime_emulator
from tests.deployed.page import Page
from tests.game_day.game import BREAKS, Options, play, prepare, remove_containers

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.game_day", description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="decides what goes wrong, and in which order")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--clock-ms", type=int, default=300_000, help="by how much clocks may be wrong")
    parser.add_argument("--broken", choices=BREAKS, help="break Baton in the deployed server; the judge must notice it")
    options = Options(**vars(parser.parse_args()))
    sys.stdout.write(f"seed {options.seed}\n")
    sys.stdout.flush()
    ensure_runtime_image(docker_client(), runtime_emulator())
    (Path(".aws-sam")).mkdir(exist_ok=True)
    build = Page.read().build()
    folder = Path(tempfile.mkdtemp(prefix="game-day-"))
    with running_emulator(folder / "emulator.log", "--env GAME=day") as emulator:
        original = emulator.deploy(build, "baton")
        with prepare(original, folder, options) as setup:
            try:
                outcome = play(setup, options, folder)
            finally:
                remove_containers(setup.stack)
    sys.stdout.write(f"{outcome.report()}\nevidence: {folder}\n")
    sys.exit(not outcome.verdict.clean)
