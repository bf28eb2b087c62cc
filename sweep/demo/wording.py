"""The text the simulated model writes and how tokens are counted: same seed, same text."""

from __future__ import annotations

_WORDS = (
    "the", "draft", "model", "offers", "a", "few", "tokens", "and", "server", "keeps", "those",
    "it", "would", "have", "written", "itself", "so", "each", "step", "gives", "more", "than",
    "one", "when", "guess", "was", "right", "while", "every", "request", "in", "batch", "waits",
    "for", "same", "forward", "pass", "longer", "chain", "needs", "room", "that", "others",
    "could", "use", "then", "fewer", "run", "together", "what", "is", "gained", "alone", "may",
    "be", "lost", "under", "load",
)  # fmt: skip
_RING = tuple(f" {word}" for word in _WORDS) * 24
_TURN = len(_WORDS)


def text_of(seed: int, start: int, end: int) -> str:
    """Output tokens start..end (end not included) as text."""
    at = (seed + start) % _TURN
    parts = []
    while start < end:
        take = min(end - start, len(_RING) - at)
        parts.append("".join(_RING[at : at + take]))
        start += take
        at = (at + take) % _TURN
    return "".join(parts)


def count_tokens(text: str) -> int:
    """Roughly four tokens for three words, at least one."""
    return max(1, len(text.split()) * 4 // 3)
