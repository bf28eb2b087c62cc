"""SGLang's flags together: their canonical form, which are not the user's, what they resolve to.

Names and values of speculation are here too; the rules over them are in `rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sweep.inventory import FlagValue
from sweep.plan import ServerConfig
from sweep.sglang.flags import canonical, field_of, flags, is_speculative
from sweep.sglang.spelling import OWNED, name_problem, size_of, value_problem

STEPS = "speculative-num-steps"
TOPK = "speculative-eagle-topk"
DRAFT = "speculative-num-draft-tokens"
ALGORITHM = "speculative-algorithm"
ADAPTIVE = "speculative-adaptive"

# The algorithms whose speed the steps decide; the first three are one (NEXTN is an alias of EAGLE,
# which a Gemma 4 draft turns into FROZEN_KV_MTP).
EAGLE_FAMILY = ("EAGLE", "NEXTN", "FROZEN_KV_MTP")
STEPPED = (*EAGLE_FAMILY, "EAGLE3", "STANDALONE")
STEPLESS = {
    "DFLASH": "forces the steps to 1 (what drives it is speculative-dflash-block-size)",
    "DSPARK": "forces the steps to 1 (what drives it is speculative-dspark-block-size)",
    "UNO": "forces the steps to 1",
    "NGRAM": "does not draft in steps (what drives it is speculative-num-draft-tokens)",
}
# srt/speculative/adaptive_spec_params.py of 0.5.23: what it moves between without a file.
ADAPTIVE_STEPS = (0, 1, 3, 5, 7)


@dataclass(frozen=True)
class Complaint:
    """A rule broken by `flag`, which may be one that is missing.

    `text` is one sentence "<what is wrong>; <what to do>".
    """

    flag: str
    text: str


def given_flags(config: ServerConfig) -> dict[str, FlagValue]:
    """The flags that a server gets: of a switch that is off, or of speculation without steps, none.

    SGLang 0.5.23 accepts steps=0 with an algorithm, and that is not a server without speculation.
    """
    return {
        name: value
        for name, value in config.args
        if value is not False and (config.steps or not is_speculative(name))
    }


def spelt(args: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    """`args` in canonical spelling, in the same order; of two spellings of a flag the last wins.

    `x: false` of a flag that SGLang can also deny becomes `no-x: true`.
    """
    return merged({}, args)


def merged(args: Mapping[str, FlagValue], more: Mapping[str, FlagValue]) -> dict[str, FlagValue]:
    """`args`, already `spelt`, with `more` instead of what they say of the same flags."""
    found = dict(args)
    for name, value in more.items():
        flag = flags().get(name)
        spelling = canonical(name)
        if flag is not None and flag.kind == "optional-bool":
            found.pop(f"no-{spelling}", None)
            if value is False:
                found.pop(spelling, None)
                found[f"no-{spelling}"] = True
                continue
        elif spelling.startswith("no-"):
            found.pop(spelling.removeprefix("no-"), None)
        found[spelling] = value
    return found


def flag_complaints(args: Mapping[str, FlagValue], *, absent: bool = False) -> Iterator[Complaint]:
    """Each flag for itself: its name, its value, whether it is the tool's, given twice.

    With `absent`, false is right for every flag: it is then not given.
    """
    first: dict[str, str] = {}
    for name, value in args.items():
        spelling = canonical(name)
        subject = spelling.removeprefix("no-") if spelling in flags() else spelling
        problem = name_problem(name) or OWNED.get(spelling)
        if problem is None and subject in first:
            problem = f"is said by '{first[subject]}' already (the last would win); remove one"
        first.setdefault(subject, name)
        if problem is None and not (absent and value is False):
            problem = value_problem(spelling, value)
        if problem:
            yield Complaint(name, problem)


def same_algorithm(one: object, other: object) -> bool:
    """Whether two names mean one algorithm: NEXTN = EAGLE = FROZEN_KV_MTP; None is none at all."""
    return algorithm_family(one) == algorithm_family(other)


def algorithm_family(name: object) -> str | None:
    """EAGLE for its three names, else the name in capitals; None, "" and "NONE" are none at all."""
    text = str(name or "NONE").upper()
    return "EAGLE" if text in EAGLE_FAMILY else None if text == "NONE" else text


def expected(config: ServerConfig) -> dict[str, object]:
    """What /server_info must say of this launch, by its own field names.

    Always: speculative_algorithm (family name or None), speculative_num_steps,
    speculative_eagle_topk, speculative_num_draft_tokens (None at steps 0, where releases before
    0.4.6 show defaults nobody uses: only the algorithm counts then), model_path, tp_size; dp_size
    where it was asked for; and each swept flag that has a value. Numbers are numbers, a switch is
    true or false, words are lists.
    """
    args = dict(config.args)
    steps = config.steps
    found: dict[str, object] = {
        "speculative_algorithm": algorithm_family(args.get(ALGORITHM)) if steps else None,
        "speculative_num_steps": steps or None,
        "speculative_eagle_topk": args.get(TOPK) if steps else None,
        "speculative_num_draft_tokens": _drafts(args, steps),
        "model_path": args.get("model-path"),
        "tp_size": args.get("tp-size", 1),
    }
    if "dp-size" in args:
        found["dp_size"] = args["dp-size"]
    for name, value in config.swept:
        flag = flags().get(name)
        if value is False and (flag is None or flag.kind not in ("bool", "optional-bool")):
            continue
        if field_of(name) not in found:
            found[field_of(name)] = _as_resolved(name, value)
    return found


def _drafts(args: Mapping[str, FlagValue], steps: int) -> FlagValue | None:
    if not steps:
        return None
    return steps + 1 if args.get(TOPK) == 1 else args.get(DRAFT)


def _as_resolved(name: str, value: FlagValue) -> object:
    flag = flags().get(name)
    if name.startswith("no-") and flag is not None:
        return not value
    if isinstance(value, tuple):
        return list(value)
    if flag is None or isinstance(value, bool):
        return value
    if flag.words:
        return [value]
    numbers: dict[str, Callable[[str], object]] = {"int": int, "float": float, "size": size_of}
    return numbers[flag.kind](str(value)) if flag.kind in numbers else value
