"""Is there room, and are the GPUs there and free."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sweep.check.finding import LONGEST_COMMAND, About, Answer, Finding, Level, said, unreadable
from sweep.inventory import FlagValue
from sweep.plan import ServerConfig
from sweep.sglang.secrecy import without_secrets
from sweep.systemd.gpus import QUERY, Gpu, parse, used_by

MIB_PER_KIB = 1 / 1024
# A foreign process this big leaves SGLang less memory than it has at other times.
FOREIGN_MIB = 1024
_SMI = "nvidia-smi --format=csv,noheader,nounits"


@dataclass(frozen=True)
class Place:
    """A directory that has to have room, in MiB. `path` may hold the shell's own words."""

    path: str
    what: str
    problem_mib: int
    warning_mib: int
    ours: bool = False  # the sweep itself writes there


def places(about: About, root: str) -> list[Place]:
    """`root` is quoted for a shell."""
    runtime = f"{root}/run/user/$(id -u)" if about.spec.scope == "user" else f"{root}/run"
    found = [
        Place(f"{root}/var/tmp", "results of the client", 100, 512, ours=True),  # noqa: S108
        Place(runtime, "the unit, the lock, the record of production", 8, 32, ours=True),
        Place("/tmp", "the server's temporary files", 16, 512),  # noqa: S108
        Place("/var/log", "the journal", 16, 256),
    ]
    directory = about.spec.server.working_directory
    if directory and directory.startswith("/"):
        found.append(Place(shlex.quote(directory), "the server's working directory", 16, 512))
    return found


def questions(about: About, root: str) -> str:
    paths = " ".join(place.path for place in places(about, root))
    return f"""
echo @@disks; for d in {paths}; do
  kib=$(limited df -Pk "$d" 2>/dev/null | tail -n 1 | awk '{{print $4}}')
  inodes=$(limited df -Pi "$d" 2>/dev/null | tail -n 1 | awk '{{print $2, $4}}')
  [ -w "$d" ] && w=rw || w=ro
  printf '%s\t%s\t%s\t%s\n' "$d" "$kib" "$inodes" "$w"
done
echo @@smi; if command -v nvidia-smi >/dev/null 2>&1; then
  limited nvidia-smi -L 2>&1; echo "status $?"; fi
echo @@gpus; limited sh -c {shlex.quote(QUERY)}
echo @@holders; command -v nvidia-smi >/dev/null 2>&1 &&
limited {_SMI} --query-compute-apps=gpu_uuid,pid,used_memory 2>/dev/null |
while IFS=', ' read -r uuid pid used; do
  printf '%s\\t%s\\t%s\\t%s\\t%s\\n' \\
    "$uuid" "$pid" "$used" "$(unit_of "$pid")" "$(owner_of "$pid")"
done
"""


def findings(about: About, answer: Answer) -> Iterator[Finding]:
    yield from _disks(about, said(answer, "disks"))
    yield from _gpus(about, answer)


def _disks(about: About, table: str) -> Iterator[Finding]:
    fine = []
    # One line for each place, in their order.
    for place, line in zip(places(about, ""), table.splitlines(), strict=False):
        path, kib, inodes, mode = (*line.split("\t"), "", "", "")[:4]
        if not kib.isdigit():
            yield unreadable("disk", f"the free space of {path or place.path} ({place.what})")
            continue
        free_mib = int(kib) * MIB_PER_KIB
        where = f"{path} ({place.what})"
        if place.ours and mode == "ro":
            yield Finding("problem", "disk", f"{where} cannot be written")
        elif free_mib < place.problem_mib:
            yield _full("problem", f"{where} has {_size(free_mib)} left")
        # A file system without a fixed number of inodes (btrfs) says 0 of 0.
        elif re.fullmatch(r"[1-9]\d* 0", inodes):
            yield _full("problem", f"{where} has no inode left")
        elif free_mib < place.warning_mib:
            yield _full("warning", f"{where} has {_size(free_mib)} left")
        else:
            fine.append(f"{path} {_size(free_mib)}")
    if fine:
        yield Finding("ok", "disk", f"free: {', '.join(fine)}")


def _full(level: Level, text: str) -> Finding:
    return Finding(level, "disk", text, "make room there before the sweep starts")


def _size(mib: float) -> str:
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def _gpus(about: About, answer: Answer) -> Iterator[Finding]:
    said_by_smi = said(answer, "smi").splitlines()
    on_cpu = all(launch.config.flag("device") == "cpu" for launch in about.plan.launches)
    if not said_by_smi:
        if "smi" in answer and not (about.demo or on_cpu):
            yield unreadable(
                "gpu", "no nvidia-smi: neither free memory nor other users of the GPUs"
            )
        return
    cards = parse(answer.get("gpus", b""))
    if said_by_smi[-1] != "status 0" or not cards:
        why = said_by_smi[-2] if len(said_by_smi) > 1 else "no answer within 20 s"
        yield Finding(
            "problem", "gpu", f"nvidia-smi: {why}",
            "mend the driver there (after an upgrade of it: reboot)",
        )  # fmt: skip
        return
    if not on_cpu:
        yield from _ours(about, cards, said(answer, "holders"))


def _ours(about: About, cards: Sequence[Gpu], holders: str) -> Iterator[Finding]:
    wanted, used = _cards(about, cards)
    if len(used) < wanted:
        yield Finding(
            "problem", "gpu", f"the server needs {wanted} GPUs and can see {len(used)}",
            "correct tp, dp, base-gpu-id or CUDA_VISIBLE_DEVICES",
        )  # fmt: skip
    kinds = ", ".join(dict.fromkeys(card.name for card in used))
    yield Finding(
        "ok", "gpu", f"{len(used)} of {len(cards)} used: {kinds}, driver {cards[0].driver}"
    )
    uuids = {card.uuid: card.index for card in used}
    seen: dict[str, int] = {}
    for line in holders.splitlines():
        uuid, pid, mib, unit, owner = (*line.split("\t"), "", "", "", "", "")[:5]
        if uuid not in uuids or not mib.isdigit():
            continue
        seen[uuid] = seen.get(uuid, 0) + int(mib)
        if unit not in (*about.production_units, about.spec.unit):
            who = without_secrets(owner)[:LONGEST_COMMAND] or "not visible to us"
            yield _foreign(uuids[uuid], f"pid {pid} ({who})", int(mib))
    for card in used:
        hidden = (card.memory_used_mib or 0) - seen.get(card.uuid, 0)
        if hidden >= FOREIGN_MIB:
            yield _foreign(card.index, "nobody to be seen (a container, another user)", hidden)


def _foreign(index: int, who: str, mib: int) -> Finding:
    return Finding(
        "problem" if mib >= FOREIGN_MIB else "warning", "gpu",
        f"GPU {index}: {mib} MiB are held by {who}, which is not production",
        "end it before the sweep; the tool never ends a process that is not its own",
    )  # fmt: skip


def _cards(about: About, cards: Sequence[Gpu]) -> tuple[int, list[Gpu]]:
    """How many cards the largest launch needs, and which of those present any launch uses."""
    # A host of as many cards as anybody asks for tells how many that are.
    plenty = [Gpu(index, "", f"any-{index}", "", None) for index in range(1024)]
    wanted, used = 0, set()
    for launch in about.plan.launches:
        words, env = _words(launch.config), dict(launch.config.env)
        wanted = max(wanted, len(used_by(words, {}, plenty)))
        used |= {card.index for card in used_by(words, env, cards)}
    return wanted, [card for card in cards if card.index in used]


def _words(config: ServerConfig) -> list[str]:
    return [word for name, value in config.args for word in (f"--{name}", *_plain(value))]


def _plain(value: FlagValue) -> list[str]:
    if isinstance(value, bool):
        return []
    return [str(one) for one in value] if isinstance(value, tuple) else [str(value)]
