"""What a healthy server may do that spoils a comparison, chosen by environment.

SWEEP_SIM_QUIRKS is a list of kinds with `;` between them:

- cold: once, soon after the first cache flush, nothing comes for a second, as while kernels compile
- drift: each forward takes a little longer than the one before it, from the cache flush on
- retract: requests are thrown back into the queue now and then
- short: answers end at half their length, whatever was asked
- old: neither requests nor /server_info tell the acceptance, as before 0.5.20 with the totals kept
- mute: nor do decode lines
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("cold", "drift", "retract", "short", "old", "mute")
COLD_S, COLD_AT = 1.0, 20
DRIFT_FORWARDS = 200
RETRACT_EVERY = 30


def read_quirks(text: str) -> frozenset[str]:
    """The kinds in SWEEP_SIM_QUIRKS. Raises ValueError."""
    found = frozenset(filter(None, (part.strip() for part in text.split(";"))))
    if found - set(KINDS):
        raise ValueError(f"SWEEP_SIM_QUIRKS: {text!r}; the kinds are {', '.join(KINDS)}")
    return found


@dataclass
class Quirks:
    """The quirks of one server, and how many forwards it has made since the last flush."""

    kinds: frozenset[str] = frozenset()
    forwards: int = 0
    flushed: bool = False
    warm: bool = False

    def flush(self) -> None:
        self.forwards, self.flushed = 0, True

    def pause_s(self) -> float:
        """How long nothing comes before the next forward: real seconds, however fast it runs."""
        if "cold" not in self.kinds or self.warm or not self.flushed or self.forwards < COLD_AT:
            return 0.0
        self.warm = True
        return COLD_S

    def slower(self) -> float:
        """By how much a forward takes longer than it should."""
        return 1 + self.forwards / DRIFT_FORWARDS if "drift" in self.kinds else 1.0

    def length(self, tokens: int) -> int:
        """How long an answer is that should have so many tokens."""
        return max(1, tokens // 2) if "short" in self.kinds else tokens

    def count(self, forwards: int) -> bool:
        """So many forwards were made; whether a request is thrown back now."""
        before = self.forwards // RETRACT_EVERY
        self.forwards += forwards
        return "retract" in self.kinds and self.forwards // RETRACT_EVERY > before
