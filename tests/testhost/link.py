"""How a host is wired: a bridge per slot, a network namespace and a veth pair per host, and what
can go wrong with the wire. Hosts reach each other and this machine, nothing else."""

from __future__ import annotations

import contextlib
import ipaddress
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from tests.testhost.shell import TesthostError, sh, wait_until

# RFC 2544's range for tests of networks: nobody routes it.
NETWORKS = list(ipaddress.ip_network("198.18.0.0/15").subnets(new_prefix=24))
FIRST_NETWORK = 96


@dataclass(frozen=True)
class Bridge:
    """The switch the hosts of one slot hang on; this machine has the first address."""

    slot: int

    @property
    def name(self) -> str:
        return f"swth{self.slot}"

    @property
    def network(self) -> ipaddress.IPv4Network:
        network = NETWORKS[FIRST_NETWORK + self.slot]
        assert isinstance(network, ipaddress.IPv4Network)
        return network

    @cached_property
    def address(self) -> str:
        """This machine, as the hosts see it."""
        return str(self.network[1])

    def up(self) -> None:
        # Whatever becomes of the bridge, nothing meant for a host leaves by the default route.
        sh("ip", "route", "replace", "unreachable", str(self.network), "metric", "4000")
        sh(
            "ip", "link", "add", self.name, "type", "bridge",
            "forward_delay", "0", "stp_state", "0", "mcast_snooping", "0",
        )  # fmt: skip
        sh("ip", "addr", "add", f"{self.address}/{self.network.prefixlen}", "dev", self.name)
        # One port is always up: with every host cut the bridge would lose its carrier, and a
        # connect would fail with "no route to host" instead of silence.
        near, far = f"{self.name}k0", f"{self.name}k1"
        sh("ip", "link", "add", near, "type", "veth", "peer", "name", far)
        sh("ip", "link", "set", far, "up")
        sh("ip", "link", "set", near, "master", self.name, "up")
        sh("ip", "link", "set", self.name, "up")

    def down(self) -> None:
        """Also what is left of the hosts' wires: their interfaces carry the bridge's name."""
        for path in Path("/sys/class/net").glob(f"{self.name}[a-z]*"):
            sh("ip", "link", "del", path.name, check=False)
        for namespace in Path("/run/netns").glob(f"{self.name}-*"):
            sh("ip", "netns", "del", namespace.name, check=False)
        sh("ip", "link", "del", self.name, check=False)
        sh("ip", "route", "del", "unreachable", str(self.network), "metric", "4000", check=False)


class Link:
    """One host's wire. `number` is unique in the slot and gives the address.

    The relay lives in `cgroup`, the host's; its log and the host's root lie in `directory`.
    """

    def __init__(self, bridge: Bridge, number: int, cgroup: Path, directory: Path) -> None:
        self.bridge = bridge
        self.address = str(bridge.network[number])
        self.namespace = f"{bridge.name}-{number}"
        self._veth = f"{bridge.name}v{number}"
        self._tap = f"{bridge.name}t{number}"
        octets = ipaddress.ip_address(self.address).packed
        self._mac = "02:54:" + ":".join(f"{octet:02x}" for octet in octets)
        self._cgroup = cgroup
        self._log = directory / "relay.log"
        self._root = directory / "root"
        self._relay: subprocess.Popen[bytes] | None = None

    def up(self) -> None:
        self.down()
        sh("ip", "netns", "add", self.namespace)
        sh(
            "ip", "link", "add", self._veth, "type", "veth",
            "peer", "name", "eth0", "address", self._mac, "netns", self.namespace,
        )  # fmt: skip
        sh("ip", "link", "set", self._veth, "master", self.bridge.name, "up")
        inside = (
            "link set lo up\n"
            f"addr add {self.address}/{self.bridge.network.prefixlen} dev eth0\n"
            "link set eth0 up\n"
        )
        sh("ip", "-n", self.namespace, "-batch", "-", stdin=inside)
        # A fixed neighbour: a host that is cut off is silent, not "no route to host".
        sh(
            "ip", "neigh", "replace", self.address, "lladdr", self._mac,
            "dev", self.bridge.name, "nud", "permanent",
        )  # fmt: skip

    def down(self) -> None:
        """As when the power goes: no FIN and no reset, for old connections and new ones."""
        self._end_relay()
        sh("ip", "link", "del", self._veth, check=False)
        sh("ip", "netns", "del", self.namespace, check=False)

    def cut(self, how: Literal["drop", "down", "reject"] = "drop") -> None:
        """drop: silence both ways; down: the cable is pulled, the host sees it too; reject: every
        TCP segment to the host is answered with a reset."""
        if how == "drop":
            sh("bridge", "link", "set", "dev", self._port, "state", "0")
        elif how == "down":
            sh("ip", "link", "set", self._veth, "down")
        else:
            rules = (
                "add table inet cut\n"
                "add chain inet cut input { type filter hook input priority 0; }\n"
                "add rule inet cut input iif eth0 meta l4proto tcp reject with tcp reset\n"
            )
            self._inside(*self._nft, "-f", "-", stdin=rules)

    def restore(self) -> None:
        """End every fault of the wire."""
        self._end_relay()
        sh("ip", "link", "set", self._veth, "up")
        self._forward()
        self._inside(*self._nft, "delete table inet cut", check=False)
        sh("tc", "qdisc", "del", "dev", self._veth, "root", check=False)
        self._inside("tc", "qdisc", "del", "dev", "eth0", "root", check=False)

    def _forward(self) -> None:
        """Let the bridge pass frames; for a moment after the cable is plugged in it refuses."""
        words = ("bridge", "link", "set", "dev", self._port, "state", "3")
        wait_until(
            lambda: sh(*words, check=False).returncode == 0, "the port is forwarding", timeout_s=5
        )

    def slow(self, kbit_s: int) -> None:
        """Limit the rate, both ways."""
        limit = ("root", "tbf", "rate", f"{kbit_s}kbit", "burst", "8kb", "latency", "2s")
        sh("tc", "qdisc", "replace", "dev", self._veth, *limit)
        self._inside("tc", "qdisc", "replace", "dev", "eth0", *limit)

    def delay(self, round_trip_ms: float, loss: float = 0.0) -> None:
        """Each way takes half the round trip and loses the fraction `loss` of its frames.

        Not every kernel has netem, so a process of ours stands between the wire and the bridge.
        """
        self._end_relay()
        sh("ip", "link", "set", self._veth, "nomaster", "arp", "off")
        command = [sys.executable, str(Path(__file__).with_name("relay.py"))]
        command += [self._veth, self._tap, str(round_trip_ms / 2000), str(loss)]
        with self._log.open("ab") as log:
            relay = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        (self._cgroup / "cgroup.procs").write_text(str(relay.pid))
        self._relay = relay

        def there() -> bool:
            if relay.poll() is not None:
                raise TesthostError(f"the relay ended: {self._log.read_text()[-500:]}")
            return _exists(self._tap)

        wait_until(there, "the relay's interface", timeout_s=10)
        sh("ip", "link", "set", self._tap, "master", self.bridge.name, "up")

    @property
    def _nft(self) -> tuple[str, ...]:
        """The host's own: this machine may have none."""
        return "chroot", str(self._root), "nft"

    @property
    def _port(self) -> str:
        return self._tap if _exists(self._tap) else self._veth

    def _inside(self, *argv: str, stdin: str = "", check: bool = True) -> None:
        sh("ip", "netns", "exec", self.namespace, *argv, stdin=stdin, check=check)

    def _end_relay(self) -> None:
        if self._relay is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._relay.kill()
        self._relay.wait()
        self._relay = None
        wait_until(lambda: not _exists(self._tap), "the relay's interface to go", timeout_s=10)
        if _exists(self._veth):
            sh("ip", "link", "set", self._veth, "master", self.bridge.name, "arp", "on")


def _exists(interface: str) -> bool:
    return Path("/sys/class/net", interface).exists()
