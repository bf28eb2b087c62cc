"""The command line of SGLang 0.5.23, and how it resolves: facts read from its wheel, own code.

`parse` ends the process as argparse does (exit 2) or raises Refusal where SGLang's own resolution
ends in a traceback (exit 1). Sources: srt/arg_groups/speculative_hook.py, srt/server_args.py,
srt/utils/server_args_config_parser.py.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Any

VERSION = "0.5.23"
CHAINS = ("EAGLE", "EAGLE3", "STANDALONE", "FROZEN_KV_MTP")
BLOCKS = ("DFLASH", "DSPARK", "UNO")
ADAPTIVE_STEPS = (0, 1, 3, 5, 7)

RESET_48 = (
    "Max running requests is reset to 48 for speculative decoding. You can override this by "
    "explicitly setting --max-running-requests."
)
ADJUSTED = (
    "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 "
    "when speculative_eagle_topk == 1"
)
DRAFTS_NGRAM = 12
NGRAM_DRAFTS = (
    "speculative_num_draft_tokens is set to 12 by default for ngram speculative decoding. You can "
    "override this by explicitly setting --speculative-num-draft-tokens."
)
SIZES = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
SIZES |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Refusal(Exception):
    """SGLang's resolution would end in this exception. `where` is (file, line, function)."""

    def __init__(self, kind: str, message: str, where: tuple[str, int, str]) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.where = where

    def traceback(self) -> str:
        """The last frames as Python prints them."""
        file, line, function = self.where
        root = "/opt/sglang/lib/python3.12/site-packages/sglang"
        last = f"{self.kind}: {self.message}" if self.message else self.kind
        return (
            "Traceback (most recent call last):\n"
            f'  File "{root}/launch_server.py", line 87, in <module>\n'
            "    run_server(server_args)\n"
            f'  File "{root}/srt/server_args.py", line 512, in resolve_once\n'
            f'  File "{root}/{file}", line {line}, in {function}\n'
            f"{last}\n"
        )


@dataclass(frozen=True)
class ServerArgs:
    """Every field after resolution, the warnings resolution printed, and what was asked for."""

    fields: dict[str, Any]
    warnings: tuple[str, ...]
    launch_command: str

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def speculative(self) -> bool:
        return self.fields["speculative_algorithm"] is not None

    @property
    def steps(self) -> int:
        """Draft steps in effect; 0 without an algorithm, whatever --speculative-num-steps says."""
        return int(self.fields["speculative_num_steps"] or 0) if self.speculative else 0


def parse(argv: list[str]) -> ServerArgs:
    """`argv` without the program's name, resolved.

    Raises SystemExit(2) with usage on stderr for flags argparse refuses, Refusal for the rest.
    """
    parser = make_parser()
    given = vars(parser.parse_args(_merge_config(parser, argv)))
    given.pop("config", None)
    fields, warnings = resolve(given)
    return ServerArgs(fields, tuple(warnings), " ".join(argv))


def make_parser() -> argparse.ArgumentParser:
    """argparse with every flag of the release; prefix matching is on, as it is there."""
    parser = argparse.ArgumentParser(prog="sglang serve")
    table = resources.files("sweep").joinpath("sglang", "flags.txt").read_text("utf-8")
    for line in table.splitlines():
        if not line.startswith("#"):
            name, spellings, kind, default = line.split(" ", 3)
            _add_flag(parser, name, spellings.split(","), kind, json.loads(default))
    return parser


def _add_flag(
    parser: argparse.ArgumentParser, name: str, spellings: list[str], kind: str, default: object
) -> None:
    kind, _, choices = kind.partition("=")
    more: dict[str, Any] = {"dest": name, "default": default}
    if kind == "bool":
        more["action"] = "store_true"
    elif kind == "optional-bool":
        more["action"] = argparse.BooleanOptionalAction
    else:
        words, _, item = kind.rpartition(":")
        kinds = {"int": int, "float": float, "size": _size, "json": json.loads}
        more["type"] = kinds.get(item, str)
        if words:
            more["nargs"] = "*" if words == "list*" else "+"
        if choices:
            now = choices.partition(";")[0].split("|")
            more["choices"] = [more["type"](one) for one in now]
    parser.add_argument(*spellings, required=name == "model_path", **more)


def _size(text: str) -> int:
    """'32k', '1Mi' or a plain number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)", text.strip())
    if found and "." in found[1] and found[2].endswith("i"):
        raise argparse.ArgumentTypeError("Decimals are not allowed with IEC suffixes")
    return int(Decimal(found[1]) * SIZES[found[2]]) if found else int(text)


def _merge_config(parser: argparse.ArgumentParser, argv: list[str]) -> list[str]:
    """Flags of the --config file before those of the command line, which therefore win."""
    if "--config" not in argv:
        return argv
    at = argv.index("--config")
    where = ("srt/utils/server_args_config_parser.py", 118, "_extract_config_file_path")
    if at + 1 == len(argv):
        raise Refusal("ValueError", "No config file specified after --config flag!", where)
    path = Path(argv[at + 1])
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise Refusal("ValueError", f"Config file must be YAML format, got: {path.suffix}", where)
    if not path.exists():
        raise Refusal("ValueError", f"Config file not found: {path}", where)
    bare = {
        option
        for action in parser._actions
        if isinstance(action, argparse._StoreTrueAction)
        for option in action.option_strings
    }
    merged: list[str] = []
    for key, value in read_config(path.read_text("utf-8")):
        flag = f"--{key}"
        if flag.replace("_", "-") in bare:
            merged += [flag] if value == "true" else []
        else:
            merged += [flag, value]
    return merged + argv[:at] + argv[at + 2 :]


def read_config(text: str) -> list[tuple[str, str]]:
    """`key: value` lines of a flat YAML file; quoted values as YAML reads them."""
    found = []
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if not colon or line.lstrip().startswith("#"):
            continue
        value = value.strip()
        if value.startswith('"'):
            value = json.loads(value)
        elif value.startswith("'"):
            value = value[1:-1].replace("''", "'")
        else:
            value = value.split(" #", 1)[0].rstrip()
        found.append((key.strip().strip("'\""), value))
    return found


def resolve(given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields with every decision SGLang takes for an unset one; and the warnings it prints."""
    fields = dict(given)
    chosen = {
        "tokenizer_path": fields["model_path"],
        "served_model_name": fields["model_path"],
        "device": "cuda",
        "mem_fraction_static": 0.85,
        "chunked_prefill_size": 8192,
        "random_seed": 42,
        "page_size": 1,
        "attention_backend": "flashinfer",
        "max_running_requests": None,
    }
    for name, value in chosen.items():
        if fields.get(name) is None:
            fields[name] = value
    warnings: list[str] = []
    groups = fields["dp_size"] if fields["enable_dp_attention"] else 1
    if fields["tp_size"] % groups:
        where = ("srt/arg_groups/parallel_hook.py", 326, "_handle_data_parallelism")
        raise Refusal("AssertionError", "", where)
    if fields["speculative_algorithm"] is not None:
        _resolve_speculation(fields, warnings)
    return fields, warnings


def _resolve_speculation(fields: dict[str, Any], warnings: list[str]) -> None:
    name = fields["speculative_algorithm"].upper()
    name = "EAGLE" if name == "NEXTN" else name
    if name not in (*CHAINS, *BLOCKS, "NGRAM"):
        where = ("srt/speculative/spec_info.py", 65, "from_string")
        raise Refusal("ValueError", f"Unknown speculative algorithm name: {name}", where)
    fields["speculative_algorithm"] = name
    if fields["max_running_requests"] is None:
        fields["max_running_requests"] = 48
        warnings.append(RESET_48)
    if name == "NGRAM":
        breadth = fields["speculative_ngram_max_bfs_breadth"]
        if fields["speculative_num_draft_tokens"] is None:
            fields["speculative_num_draft_tokens"] = DRAFTS_NGRAM
            warnings.append(NGRAM_DRAFTS)
        fields["speculative_eagle_topk"] = breadth
        if fields["speculative_num_steps"] is None:
            fields["speculative_num_steps"] = fields["speculative_num_draft_tokens"] // breadth
    elif name in BLOCKS:
        _resolve_block(name, fields, warnings)
    else:
        _resolve_chain(fields, warnings)


def _resolve_block(name: str, fields: dict[str, Any], warnings: list[str]) -> None:
    """These draft a whole block at once: steps and topk mean nothing and are forced to 1."""
    for field in ("speculative_num_steps", "speculative_eagle_topk"):
        if fields[field] not in (None, 1):
            warnings.append(f"{name} only supports {field} == 1; overriding {fields[field]} to 1.")
        fields[field] = 1
    fields["speculative_num_draft_tokens"] = fields["speculative_num_draft_tokens"] or 8


def _resolve_chain(fields: dict[str, Any], warnings: list[str]) -> None:
    hook = "srt/arg_groups/speculative_hook.py"
    steps, topk, drafts = (
        fields[f"speculative_{name}"] for name in ("num_steps", "eagle_topk", "num_draft_tokens")
    )
    if fields["speculative_adaptive"] and steps is not None and steps not in ADAPTIVE_STEPS:
        message = (
            f"--speculative-num-steps={steps} is not in the adaptive config candidate_steps "
            f"{list(ADAPTIVE_STEPS)}. Choose one of them, or change --speculative-adaptive-config."
        )
        where = ("srt/speculative/adaptive_spec_params.py", 214, "validate")
        raise Refusal("ValueError", message, where)
    if steps is None:
        if topk is not None or drafts is not None:
            raise Refusal("AssertionError", "", (hook, 1162, "_handle_eagle_family"))
        steps, topk, drafts = 3, 1, 4
    if topk is None:
        message = "'>' not supported between instances of 'NoneType' and 'int'"
        raise Refusal("TypeError", message, (hook, 1274, "_handle_eagle_family"))
    if topk == 1 and drafts != steps + 1:
        warnings.append(ADJUSTED)
        drafts = steps + 1
    fields["speculative_num_steps"] = steps
    fields["speculative_eagle_topk"] = topk
    fields["speculative_num_draft_tokens"] = drafts
