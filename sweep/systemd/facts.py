"""What a host is: asked once, kept in plan.json, compared on resume."""

from __future__ import annotations

from dataclasses import dataclass, field

from sweep.clock import Clock
from sweep.errors import HostError, HostRefused
from sweep.host import Host
from sweep.host.script import sections
from sweep.inventory import HostSpec
from sweep.systemd import gpus
from sweep.systemd.gpus import Gpu
from sweep.systemd.paths import Homes
from sweep.systemd.site import quote, text

# The oldest systemd whose options and directives we keep to (Ubuntu 20.04).
OLDEST_SYSTEMD = 245
# What scripts of the tool call beyond the shell itself.
TOOLS = ("systemctl", "systemd-run", "journalctl", "ss", "cmp", "find", "grep", "sed", "ps", "stat")


@dataclass(frozen=True)
class HostFacts:
    """uid and user are those our scripts run as; clock_offset_s is the host's clock minus ours;
    missing are programs that our scripts call."""

    uid: int
    user: str
    boot_id: str
    systemd_version: int
    hostname: str
    kernel: str
    gpus: tuple[Gpu, ...]
    python_version: str | None
    clock_offset_s: float
    lingers: bool
    missing: tuple[str, ...] = ()
    homes: Homes = field(default_factory=Homes)


def read_facts(host: Host, spec: HostSpec, clock: Clock) -> HostFacts:
    """Ask the host. Raises HostError when it has no systemd or answers nonsense."""
    result = host.run(_script(host, spec))
    found = sections(result.stdout)
    try:
        version = text(found["systemd"]).split()[1]
        return HostFacts(
            uid=int(text(found["uid"])),
            user=text(found["user"]),
            boot_id=text(found["boot"]),
            systemd_version=int(version.split(".")[0].split("~")[0]),
            hostname=text(found["hostname"]),
            kernel=text(found["kernel"]),
            gpus=gpus.parse(found.get("gpus", b"")),
            python_version=text(found.get("python")) or None,
            clock_offset_s=_clock_offset_s(host, clock),
            lingers=text(found.get("linger")) == "yes",
            missing=tuple(text(found.get("missing")).split()),
            homes=Homes.parse(text(found["homes"])),
        )
    except (KeyError, IndexError, ValueError) as error:
        raise HostError(
            f"{host.name}: this does not look like a host with systemd ({error!r} in its answer): "
            f"{result.tail(3)}"
        ) from error


def require_usable(host: Host, spec: HostSpec, facts: HostFacts) -> None:
    """Raise HostRefused when this systemd, or these rights on it, cannot carry a sweep."""
    if facts.systemd_version < OLDEST_SYSTEMD:
        raise HostRefused(
            f"{host.name}: systemd {facts.systemd_version} is too old; "
            f"{OLDEST_SYSTEMD} or newer is needed"
        )
    if spec.transport == "demo":
        return
    if facts.missing:
        raise HostRefused(
            f"{host.name}: missing there: {', '.join(facts.missing)}; install iproute2 (ss), "
            "diffutils (cmp), findutils, procps (ps)"
        )
    if spec.scope == "user" and not facts.lingers:
        raise HostRefused(
            f"{host.name}: {facts.user} does not linger, so its units end with its last login; "
            f"run once on the host: loginctl enable-linger {facts.user}"
        )
    if spec.scope == "system" and facts.uid != 0:
        raise HostRefused(
            f"{host.name}: {facts.user} may not manage system units; set become: sudo, "
            "user: root or scope: user in the inventory"
        )


def _clock_offset_s(host: Host, clock: Clock) -> float:
    """A script that does nothing else: half its round trip is the error."""
    before = clock.now().timestamp()
    there = float(host.run("date +%s.%N | tr -d N").text)
    return round(there - (before + clock.now().timestamp()) / 2, 3)


def _script(host: Host, spec: HostSpec) -> str:
    python = quote(spec.python)
    version = quote("import platform; print(platform.python_version())")
    return f"""
echo @@uid; id -u
echo @@user; id -un
echo @@homes; {Homes.ASK}
echo @@boot; cat {quote(host.root)}/proc/sys/kernel/random/boot_id
echo @@systemd; systemctl --version | head -n 1
echo @@hostname; uname -n
echo @@kernel; uname -r
echo @@linger; [ -e "/var/lib/systemd/linger/$(id -un)" ] && echo yes
echo @@missing; for c in {" ".join(TOOLS)}; do command -v $c >/dev/null 2>&1 || echo $c; done
echo @@python; {python} -c {version} 2>/dev/null
echo @@gpus; {gpus.QUERY}
"""
