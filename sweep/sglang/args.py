"""SGLang's rules for speculation: what it refuses, silently ignores or overwrites, and resolves to.

Rules 1.1 to 1.6 hold for releases 0.4.6 to 0.5.23 unless a message says otherwise; read from each
release's srt/server_args.py and srt/arg_groups/speculative_hook.py, most of them tried on 0.5.23.
Every complaint is one sentence "<what is wrong>; <what to do>".
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sweep.inventory import FlagValue
from sweep.plan import ServerConfig
from sweep.sglang.flags import NEWEST, canonical, field_of, flags
from sweep.sglang.spelling import OWNED, name_problem, shown, value_problem

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
TREE_BACKENDS = ("flashinfer", "fa3", "triton")


@dataclass(frozen=True)
class Complaint:
    """A rule broken by `flag`, which may be one that is missing."""

    flag: str
    text: str


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


def complaints(args: Mapping[str, FlagValue]) -> Iterator[Complaint]:
    """The flags of one launch together, in canonical spelling and with its steps."""
    if not args.get("model-path"):
        yield Complaint("model-path", "is missing; write the model's path or name")
    if not _steps(args):
        return
    problem = _algorithm_problem(args.get(ALGORITHM), _steps(args))
    if problem:
        yield Complaint(ALGORITHM, problem)
        return
    for rule in (_topk, _drafts_given, _adaptive, _refused):
        if complaint := rule(args):
            yield complaint
            return


def _steps(args: Mapping[str, FlagValue]) -> int:
    return _number(args, STEPS)


def _number(args: Mapping[str, FlagValue], name: str) -> int:
    value = args.get(name)
    return value if isinstance(value, int) else 0


def _algorithm_problem(given: FlagValue | None, steps: int) -> str | None:
    if not given:
        return (
            f"is missing while the steps are {steps}: SGLang ignores the steps then and serves "
            f"without speculation (tried on {NEWEST}); add {ALGORITHM}: NEXTN, EAGLE, EAGLE3 or "
            "STANDALONE"
        )
    name = str(given)
    if name.upper() == "MTP":
        return "MTP exists in no release of SGLang; models with MTP layers take NEXTN"
    if name.upper() in STEPLESS:
        return (
            f"{name.upper()} {STEPLESS[name.upper()]}, so steps mean nothing to it "
            f"(SGLang 0.5.3 to {NEWEST}); sweep EAGLE, EAGLE3, NEXTN or STANDALONE"
        )
    if name not in STEPPED and name.upper() in STEPPED:
        return f"{shown(name)} is refused before SGLang 0.5.12; write {name.upper()}"
    near = difflib.get_close_matches(name.upper(), STEPPED, 1, 0.75)
    if name not in STEPPED and near:
        return f"{shown(name)} is no algorithm of SGLang {NEWEST}; did you mean {near[0]}?"
    return None


def _topk(args: Mapping[str, FlagValue]) -> Complaint | None:
    topk = args.get(TOPK)
    if topk is None:
        return Complaint(
            TOPK,
            "is missing: given steps without it SGLang ends in a TypeError "
            f"(0.5.9 to {NEWEST}); add {TOPK}: 1",
        )
    if not isinstance(topk, int) or topk < 1:
        return Complaint(TOPK, f"must be a whole number from 1 up, not {shown(topk)}; write 1")
    return None


def _drafts_given(args: Mapping[str, FlagValue]) -> Complaint | None:
    steps, topk, draft = _steps(args), _number(args, TOPK), args.get(DRAFT)
    most = steps * topk + 1
    problem = None
    if topk == 1:
        problem = draft is not None and (
            f"is overwritten with steps + 1 when {TOPK} is 1 (SGLang 0.4.6 to {NEWEST}), so a "
            "fixed value never holds; remove it"
        )
    elif draft is None:
        problem = (
            f"is missing: with {TOPK} {topk} SGLang fails only later, in its workers "
            f"(tried on {NEWEST}); add {DRAFT}, at most {most} where the steps are {steps}"
        )
    elif not isinstance(draft, int) or not 2 <= draft <= most:
        problem = (
            f"{shown(draft)} does not fit: with steps {steps} and topk {topk} the tree holds "
            f"steps * topk + 1 = {most} tokens (SGLang 0.4.6 to {NEWEST} do not check it); write "
            f"2 to {most}, or sweep from more steps"
        )
    return Complaint(DRAFT, problem) if problem else None


def _adaptive(args: Mapping[str, FlagValue]) -> Complaint | None:
    if not args.get(ADAPTIVE):
        return None
    rivals = (
        "enable-dp-attention",
        "enable-multi-layer-eagle",
        "enable-two-batch-overlap",
        "enable-pdmux",
    )
    reason = next((f"cannot be with {rival}" for rival in rivals if args.get(rival)), None)
    if args[ALGORITHM] not in (*EAGLE_FAMILY, "EAGLE3") or args[TOPK] != 1:
        reason = f"takes EAGLE, EAGLE3 or NEXTN and {TOPK} 1 only"
    if reason:
        return Complaint(
            ADAPTIVE,
            f"{reason} (SGLang 0.5.11 to {NEWEST} turn it off with a log line and go on); remove "
            "one of the two",
        )
    steps = _steps(args)
    if "speculative-adaptive-config" not in args and steps not in ADAPTIVE_STEPS:
        return Complaint(
            ADAPTIVE,
            f"moves between {', '.join(map(str, ADAPTIVE_STEPS))} steps and refuses to start from "
            f"{steps} (SGLang 0.5.11 to {NEWEST}); sweep those steps, or give "
            "speculative-adaptive-config",
        )
    return None


def _refused(args: Mapping[str, FlagValue]) -> Complaint | None:
    """What SGLang's resolution refuses whatever the model is, each with a traceback."""
    algorithm, tree = args[ALGORITHM], _number(args, TOPK) > 1
    backends = {args.get(f"{part}attention-backend") for part in ("", "decode-", "prefill-")}
    paged = _number(args, "page-size") > 1
    sampled = args.get("speculative-use-rejection-sampling")
    if algorithm == "STANDALONE" and args.get("enable-dp-attention"):
        return Complaint(
            ALGORITHM,
            f"STANDALONE refuses enable-dp-attention (SGLang {NEWEST}); remove one of the two",
        )
    if tree and "trtllm_mha" in backends:
        return Complaint(
            TOPK,
            f"must be 1 with trtllm_mha (SGLang {NEWEST}); write 1, or another attention-backend",
        )
    if tree and paged and backends.isdisjoint(TREE_BACKENDS) and backends != {None}:
        return Complaint(
            TOPK,
            f"above 1 and page-size above 1 need attention-backend {', '.join(TREE_BACKENDS)} "
            f"(SGLang {NEWEST}); write one of these, or page-size: 1",
        )
    if sampled and (tree or algorithm not in (*EAGLE_FAMILY, "EAGLE3")):
        return Complaint(
            "speculative-use-rejection-sampling",
            f"needs EAGLE, EAGLE3 or NEXTN and {TOPK} 1 (SGLang {NEWEST}); remove one of the two",
        )
    return None


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
    numbers = {"int": int, "float": float}
    return numbers[flag.kind](value) if flag.kind in numbers else value
