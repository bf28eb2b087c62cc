"""What every module here needs of one host: how to run a script there, and the words for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from sweep.clock import Clock
from sweep.errors import HostError
from sweep.hints import PLAIN, Commands
from sweep.host import Host, Result
from sweep.host.script import sections
from sweep.host.verbs import TIMED_OUT
from sweep.inventory import HostSpec
from sweep.systemd.paths import Paths

# A script of ours does a handful of small things; what takes longer is polled for.
SCRIPT_TIMEOUT_S = 60.0
ASK_AGAIN_S = 1.0
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# systemd gives root's own services no HOME; a person's command counts on it.
KNOW_HOME = ': "${HOME:=$(eval "echo ~$(id -un)")}"; export HOME'

# systemd answers nobody for a moment while it is executed anew, as after an upgrade of its package.
# A look that fails is repeated, and what may be asked for twice, too, where nobody was reached.
PATIENT = """systemctl() {
  for _turn in 1 2 3 4 5 6 7 8; do
    case " $* " in
      *" show "*)
        _said=$(command systemctl "$@" 2>/dev/null) && { printf '%s\\n' "$_said"; return; } ;;
      *" --no-block "* | *" stop "* | *" restart "* | *" daemon-reload "*)
        _said=$(command systemctl "$@" 2>&1) && return
        case $_said in *onnect* | *ransport*) ;; *) break ;; esac ;;
      *) break ;;
    esac
    sleep 0.4 2>/dev/null || sleep 1
  done
  command systemctl "$@"
}
"""


@dataclass(frozen=True)
class Site:
    """One run on one host. Scripts are POSIX sh and may be run twice after a reconnect."""

    host: Host
    spec: HostSpec
    clock: Clock
    paths: Paths
    commands: Commands = PLAIN

    @property
    def systemctl(self) -> str:
        return "systemctl --user" if self.spec.scope == "user" else "systemctl"

    @property
    def systemd_run(self) -> str:
        # Transient units that fail go away too: nothing of ours may stay listed.
        words = "systemd-run --quiet --collect"
        return f"{words} --user" if self.spec.scope == "user" else words

    @property
    def journalctl(self) -> str:
        words = "journalctl --quiet --no-pager"
        return f"{words} --user" if self.spec.scope == "user" else words

    @property
    def boot_id(self) -> str:
        """A shell command that prints the host's boot id."""
        return f"cat {quote(f'{self.host.root}{BOOT_ID}')}"

    def run(
        self, script: str, *, timeout_s: float = SCRIPT_TIMEOUT_S, stdin: bytes = b""
    ) -> Result:
        return self.host.run(PATIENT + script, timeout_s=timeout_s, stdin=stdin)

    def ask(
        self,
        doing: str,
        script: str,
        *,
        timeout_s: float = SCRIPT_TIMEOUT_S,
        stdin: bytes = b"",
    ) -> dict[str, bytes]:
        """The sections a script prints. A script that fails is a HostError: "could not DOING".

        A host that is reached and does not answer in time (its systemd hangs, a disk does) is asked
        again for as long as one that is not reached.
        """
        until = self.clock.monotonic() + self.spec.reconnect_for_s
        while True:
            result = self.run(script, timeout_s=timeout_s, stdin=stdin)
            if result.exit_status != TIMED_OUT or self.clock.monotonic() >= until:
                return self.answer(doing, result)
            self.clock.sleep(ASK_AGAIN_S)

    def answer(self, doing: str, result: Result) -> dict[str, bytes]:
        """The sections of a script that ran; HostError when it failed."""
        if result.exit_status == TIMED_OUT:
            raise HostError(
                f"{self.host.name}: could not {doing}: the host's shell or systemd did not answer "
                "in time; is it short of memory, or does a disk hang?"
            )
        if not result.ok:
            raise HostError(
                f"{self.host.name}: could not {doing}: exit {result.exit_status}: {result.tail(3)}"
            )
        return sections(result.stdout)


def quote(*words: str) -> str:
    """Words for a POSIX shell's command line."""
    return shlex.join(words)


def at_the_end(command: str) -> str:
    """Shell lines after which a command is run when the script ends, however it ends."""
    return f"trap {quote(command)} EXIT\ntrap 'exit 1' HUP INT TERM PIPE"


def text(section: bytes | None) -> str:
    """A section as text, without the space around it; a missing one is empty."""
    return (section or b"").decode(errors="replace").strip()


def properties(section: bytes | None) -> dict[str, str]:
    """What `systemctl show -p ... -- UNIT` prints, as a mapping."""
    return _properties(text(section).splitlines())


def blocks(section: bytes | None) -> list[dict[str, str]]:
    """What `systemctl show -p ... -- A B C` prints: one mapping for each unit, in that order."""
    found = text(section).split("\n\n")
    return [_properties(block.splitlines()) for block in found if block.strip()]


def names(shown: str) -> tuple[str, ...]:
    """A property that lists units; systemctl quotes those with a backslash in their name."""
    return tuple(shown.replace('"', "").replace("\\\\", "\\").split())


def _properties(lines: Iterable[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines if "=" in line)
