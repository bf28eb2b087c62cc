"""`python standin/__main__.py ROOT COMMAND WORDS...`: one command of the demo host."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Run as a file, in isolated mode: fast, and nothing around it can change what is imported.
    sys.path[:0] = [os.path.abspath(f"{os.path.dirname(__file__)}/../../..")]  # noqa: PTH100, PTH120


def main(argv: list[str]) -> int:
    root, command, words = argv[0], argv[1], argv[2:]
    if command in ("systemctl", "systemd-run"):
        from sweep.demo.standin.client import ask  # noqa: PLC0415 - only what is needed loads

        return ask(root, command, words)
    if command == "journalctl":
        from sweep.demo.standin.journalctl import journalctl  # noqa: PLC0415

        return journalctl(root, words)
    if command == "ss":
        from sweep.demo.standin.sockets import ss  # noqa: PLC0415

        return ss(words)
    if command == "nvidia-smi":
        from sweep.demo.standin.gpus import nvidia_smi  # noqa: PLC0415

        return nvidia_smi(root, words)
    sys.stderr.write(f"{command}: not a command of the demo host\n")
    return 127


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 141
    sys.exit(status)
