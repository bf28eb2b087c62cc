"""SGLang's rules for speculation: what it refuses, silently ignores or overwrites.

They hold for releases 0.4.6 to 0.5.23 unless a message says otherwise; read from each release's
srt/server_args.py and srt/arg_groups/speculative_hook.py, most of them tried on 0.5.23.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from sweep.inventory import FlagValue
from sweep.sglang.args import (
    ADAPTIVE,
    ADAPTIVE_STEPS,
    ALGORITHM,
    DRAFT,
    EAGLE_FAMILY,
    STEPLESS,
    STEPPED,
    STEPS,
    TOPK,
    Complaint,
)
from sweep.sglang.flags import NEWEST
from sweep.sglang.spelling import shown

TREE_BACKENDS = ("flashinfer", "fa3", "triton")
TRACK = "mamba-track-interval"
DRAFT_MODEL = "speculative-draft-model-path"
# With these the draft may be another class although it has no path of its own.
OTHER_DRAFTS = ("enable-multi-layer-eagle", "model-impl", "decrypted-draft-config-file")


def complaints(args: Mapping[str, FlagValue]) -> Iterator[Complaint]:
    """The flags of one launch together, in canonical spelling and with its steps."""
    if not args.get("model-path"):
        yield Complaint("model-path", "is missing; write the model's path or name")
    if complaint := _attention_groups(args):
        yield complaint
    if not _steps(args):
        return
    problem = _algorithm_problem(args.get(ALGORITHM), _steps(args))
    if problem:
        yield Complaint(ALGORITHM, problem)
        return
    for rule in (_topk, _drafts, _adaptive, _refused, _hybrid, _draft_model):
        if complaint := rule(args):
            yield complaint
            return


def _attention_groups(args: Mapping[str, FlagValue]) -> Complaint | None:
    """srt/arg_groups/parallel_hook.py of 0.5.23 asserts it without a word, whatever the steps."""
    dp, tp = _number(args, "dp-size"), _number(args, "tp-size") or 1
    if not args.get("enable-dp-attention") or dp < 2 or tp % dp == 0:
        return None
    return Complaint(
        "dp-size",
        f"is {dp}, which does not divide tp-size {tp}: with enable-dp-attention SGLang {NEWEST} "
        "ends in an AssertionError that says nothing; write a divisor",
    )


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


def tree_size(steps: int, topk: int) -> int:
    """The most draft tokens there can be, the root among them.

    The first step proposes topk tokens, each later one topk for each of topk kept
    (select_top_k_tokens in srt/speculative/spec_utils.py, 0.5.23); organize_draft_results in
    srt/speculative/eagle_utils.py takes the best of all of them and fails when asked for more.
    """
    return 1 + topk + (steps - 1) * topk**2


def _drafts(args: Mapping[str, FlagValue]) -> Complaint | None:
    steps, topk, draft = _steps(args), _number(args, TOPK), args.get(DRAFT)
    most = tree_size(steps, topk)
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
            f"1 + topk + (steps - 1) * topk^2 = {most} tokens (SGLang 0.4.6 to {NEWEST} do not "
            f"check it); write 2 to {most}, or sweep from more steps"
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
    # with a dp-size of 1 there is no such attention, whatever the flag says
    if (
        algorithm == "STANDALONE"
        and args.get("enable-dp-attention")
        and _number(args, "dp-size") > 1
    ):
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


def _hybrid(args: Mapping[str, FlagValue]) -> Complaint | None:
    """srt/arg_groups/mamba_hook.py: the state of hybrid models is kept every so many tokens."""
    interval, page = _number(args, TRACK), _number(args, "page-size") or 1
    drafts = _steps(args) + 1 if args.get(TOPK) == 1 else _number(args, DRAFT)
    if TRACK not in args:
        return None
    if interval < drafts:
        return Complaint(
            TRACK,
            f"is {interval}, less than the {drafts} draft tokens at steps {_steps(args)} (SGLang "
            f"0.5.9 to {NEWEST} refuse it); remove it for SGLang's 256",
        )
    if interval % page:
        return Complaint(
            TRACK,
            f"is {interval}, no multiple of page-size {page} (SGLang 0.5.9 to {NEWEST} refuse it); "
            f"write one, such as {page * 4}",
        )
    return None


def _draft_model(args: Mapping[str, FlagValue]) -> Complaint | None:
    """Without a path the draft is the model itself, or its MTP layers.

    That is (ModelConfig.from_server_args, _config_draft_model in srt/configs/model_config.py,
    0.5.23) what EAGLE and NEXTN want where the model has such layers, and STANDALONE runs with it
    (tried). But init_lm_head of srt/speculative/eagle_worker_v2.py reads `hot_token_id` of an
    EAGLE3 draft, which only the classes of EAGLE3 heads have.
    """
    if args[ALGORITHM] != "EAGLE3" or args.get(DRAFT_MODEL):
        return None
    if any(args.get(name) for name in OTHER_DRAFTS):
        return None
    return Complaint(
        DRAFT_MODEL,
        "is missing: EAGLE3 drafts with a head of its own, and without one SGLang loads the model "
        f"itself and ends in an AttributeError (tried on {NEWEST}); add the path of the model's "
        "EAGLE3 head, or use NEXTN where the model has MTP layers",
    )
