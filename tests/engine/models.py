"""Trains a tiny target and a tinier draft model on made-up timetable sentences.

    python models.py DIRECTORY

Runs on the engine's own interpreter; one thread, a fixed number of steps, about a minute. The
draft guesses a good part of what the target writes, not all of it: that is what makes acceptance
worth measuring.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<start>", "<stop>", "<user>", "<assistant>", "<system>")
VOCABULARY, LONGEST = 512, 4096
TOWNS = (
    "Aldermoor", "Birchley", "Corley", "Dunmere", "Eastwick", "Fernhill", "Garstone", "Hollin",
    "Inverby", "Kelsow",
)  # fmt: skip
TRAINS = ("express", "slow train", "mail train", "night train", "goods train", "railcar")
REMARKS = (
    "with one change", "without a stop", "on weekdays only", "if the bridge is open",
    "behind a steam engine", "with a dining car", "except in winter",
)  # fmt: skip
CHAT = (
    "<start>{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<stop>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
# layers, width, heads, steps of training
TARGET, DRAFT = (4, 128, 4, 250), (1, 64, 2, 300)
BATCH, WINDOW = 16, 96


def sentence(dice: random.Random) -> str:
    start, end = dice.sample(TOWNS, 2)
    hour, minute, track = dice.randrange(5, 23), dice.randrange(0, 60, 5), dice.randrange(1, 9)
    words = f"The {dice.choice(TRAINS)} from {start} to {end} leaves at {hour}:{minute:02d}"
    if dice.random() < 0.5:
        words += f" {dice.choice(REMARKS)}"
    if dice.random() < 0.3:
        words += f" and calls at tracks {track}, {track + 1} and {track + 2}"
    return words + "."


def tokenizer(text: list[str]) -> PreTrainedTokenizerFast:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(text, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="<pad>",
        bos_token="<start>",
        eos_token="<stop>",
        model_max_length=LONGEST,
    )
    fast.chat_template = CHAT
    return fast


def untrained(layers: int, width: int, heads: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 2,
        max_position_embeddings=LONGEST,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config)


def train(model: LlamaForCausalLM, tokens: torch.Tensor, steps: int) -> float:
    """One cycle of a falling learning rate; returns the last loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    loss = torch.zeros(())
    for _ in range(steps):
        starts = torch.randint(0, len(tokens) - WINDOW, (BATCH, 1))
        batch = tokens[starts + torch.arange(WINDOW)]
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return loss.item()


def main(directory: Path) -> None:
    torch.manual_seed(11)
    torch.set_num_threads(1)
    dice = random.Random(11)
    texts = [" ".join(sentence(dice) for _ in range(dice.randrange(3, 9))) for _ in range(2000)]
    words = tokenizer(texts)
    chats = [f"<start><user>{sentence(dice)}<stop><assistant>{text}<stop>" for text in texts]
    tokens = torch.tensor([token for chat in chats for token in words.encode(chat)])
    for name, (layers, width, heads, steps) in {"target": TARGET, "draft": DRAFT}.items():
        began = time.monotonic()
        model = untrained(layers, width, heads)
        loss = train(model, tokens, steps)
        model.to(torch.bfloat16).save_pretrained(directory / name)
        words.save_pretrained(directory / name)
        size = sum(parameter.numel() for parameter in model.parameters())
        print(f"{name}: {size} parameters, loss {loss:.3f}, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
