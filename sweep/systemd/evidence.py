"""What a host can tell about a server that hangs or died: its cards, its kernel, its processes."""

from __future__ import annotations

from dataclasses import dataclass

from sweep.systemd.site import Site, quote, text

_TIMEOUT_S = 60.0
_KERNEL_LINES = 40
# NVRM and Xid are the driver's; the rest is why a process can be gone or stuck without a word.
_KERNEL_WORDS = (
    "NVRM|Xid|nvidia|amdgpu|oom-kill|Out of memory|Killed process|blocked for more than|lockup"
)


@dataclass(frozen=True)
class HostEvidence:
    """As printed; empty where the host has no such program, or does not let us look.

    `kernel` are lines since the unit was started, of the driver and about killed processes.
    """

    nvidia_smi: str
    kernel: tuple[str, ...]
    processes: str


def host_evidence(site: Site, pids: frozenset[int]) -> HostEvidence:
    """Look once. `pids` are the server's processes. Raises HostError."""
    wanted = ",".join(map(str, sorted(pids)))
    listed = f"ps -o pid,ppid,user,stat,wchan:32,etime,time,args -p {wanted}" if wanted else ":"
    answer = site.ask("gather evidence", f"""
echo @@smi; command -v nvidia-smi >/dev/null 2>&1 && timeout 20 nvidia-smi 2>&1
echo @@kernel
read -r token since before < {quote(site.paths.start_mark)} 2>/dev/null
now=$(date +%s); since=${{since:-$now}}
read -r up rest < /proc/uptime
lines=$(journalctl -k --quiet --no-pager -o short-iso --since "@$since" 2>/dev/null)
# Where the kernel's journal may not be read its buffer perhaps may; it counts from the boot.
[ -n "$lines" ] || lines=$(dmesg 2>/dev/null | awk -F '[][]' \\
  -v from=$((${{up%.*}} - now + since)) '$2 + 0 >= from')
printf '%s\\n' "$lines" | grep -E {quote(_KERNEL_WORDS)} | tail -n {_KERNEL_LINES}
echo @@processes; {listed} 2>/dev/null
:""", timeout_s=_TIMEOUT_S)  # fmt: skip
    return HostEvidence(
        nvidia_smi=text(answer.get("smi")),
        kernel=tuple(line for line in text(answer.get("kernel")).splitlines() if line),
        processes=text(answer.get("processes")),
    )
