"""Conversations, as they are replayed. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """What is asked, and the recorded answer, which stands before the next question; "": none."""

    question: str
    answer: str = ""


@dataclass(frozen=True)
class Conversation:
    """One or more turns; `system` is said first, if anything."""

    turns: tuple[Turn, ...]
    system: str = ""

    def messages(self, turn: int, lead_in: str = "") -> list[dict[str, str]]:
        """What is sent to have question number `turn` answered: all before it, answers recorded.

        `lead_in` stands before the first question.
        """
        said = [{"role": "system", "content": self.system}] if self.system else []
        for place, one in enumerate(self.turns[: turn + 1]):
            question = one.question if place else lead_in + one.question
            said.append({"role": "user", "content": question})
            if place < turn:
                said.append({"role": "assistant", "content": one.answer})
        return said

    def cut(self, most: int) -> Conversation:
        """The turns that can be replayed: up to the first without an answer, at most so many."""
        answered = 0
        while answered < len(self.turns) and self.turns[answered].answer:
            answered += 1
        return Conversation(self.turns[: min(answered + 1, most)], self.system)


def fingerprint(conversations: Sequence[Conversation]) -> str:
    """12 hex digits over everything that may be sent, in its order."""
    texts = [[c.system, *([t.question, t.answer] for t in c.turns)] for c in conversations]
    text = json.dumps(texts, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
