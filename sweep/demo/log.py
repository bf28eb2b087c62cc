"""The simulated server's log: SGLang's own format on stderr, scheduler prefixes, raw bars."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO


class Log:
    """Lines as `configure_logger` of srt/utils/common.py formats them: `[time prefix] message`."""

    def __init__(self, level: str = "info", stream: TextIO | None = None) -> None:
        self._level = int(logging.getLevelNamesMapping().get(level.upper(), logging.INFO))
        self._stream = stream or sys.stderr

    def line(self, message: str, rank: str = "") -> None:
        self._write(logging.INFO, message, rank)

    def warn(self, message: str, rank: str = "") -> None:
        self._write(logging.WARNING, message, rank)

    def complain(self, message: str, rank: str = "") -> None:
        self._write(logging.ERROR, message, rank)

    def raw(self, text: str) -> None:
        """Text as tqdm or a traceback writes it: no time, no newline added, whatever the level."""
        self._stream.write(text)
        self._stream.flush()

    def _write(self, level: int, message: str, rank: str) -> None:
        if level >= self._level:
            moment = time.strftime("%Y-%m-%d %H:%M:%S")
            self.raw(f"[{moment}{rank}] {message}\n")


def uvicorn_logging() -> Mapping[str, Any]:
    """uvicorn's logging with the time in front, as SGLang sets it; access lines go to stdout."""
    moment = "%Y-%m-%d %H:%M:%S"
    access = '[%(asctime)s] %(levelprefix)s %(client_addr)s - "%(request_line)s" %(status_code)s'
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "default": {
                "()": "uvicorn.logging.DefaultFormatter",
                "fmt": "[%(asctime)s] %(levelprefix)s %(message)s",
                "datefmt": moment,
            },
            "access": {"()": "uvicorn.logging.AccessFormatter", "fmt": access, "datefmt": moment},
        },
        "handlers": {
            "default": {
                "class": "logging.StreamHandler",
                "formatter": "default",
                "stream": "ext://sys.stderr",
            },
            "access": {
                "class": "logging.StreamHandler",
                "formatter": "access",
                "stream": "ext://sys.stdout",
            },
        },
        "loggers": {
            "uvicorn": {"handlers": ["default"], "level": "INFO", "propagate": False},
            "uvicorn.error": {"level": "INFO"},
            "uvicorn.access": {"handlers": ["access"], "level": "INFO", "propagate": False},
        },
    }
