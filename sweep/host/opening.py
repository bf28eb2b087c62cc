"""From the inventory to an open host."""

from __future__ import annotations

from sweep.errors import InventoryError
from sweep.host.connection import Connection
from sweep.host.hostkeys import STRICT, check_mode
from sweep.host.route import Hop, known_hosts_name, route
from sweep.host.session import SshHost, Waiting
from sweep.inventory import HostSpec


def open_ssh(name: str, spec: HostSpec, waiting: Waiting) -> SshHost:
    """A host somewhere. The way to it is looked up once: it stays the same for the whole run."""
    try:
        mode = check_mode(spec.host_key)
    except InventoryError as error:
        raise InventoryError(f"hosts.{name}.{error}") from error
    hops = route(spec)
    return SshHost(name, spec, lambda: Connection(hops, mode), waiting)


class DemoSession(SshHost):
    """The same over a host of our own, which is switched on for it and ends with it."""

    def __init__(self, name: str, spec: HostSpec, waiting: Waiting) -> None:
        from sweep.demo.host import DemoHost  # noqa: PLC0415 - only where it is asked for

        self.demo = DemoHost()
        there = self.demo.start()
        # Not through `ssh -G`: what somebody configured for 127.0.0.1 is not meant for this.
        hop = Hop(
            label=name,
            address=there.address,
            port=there.port,
            user=there.user,
            identity_files=(there.key_file,),
            identities_only=True,
            use_agent=False,
            known_hosts=(there.known_hosts,),
            host_key_name=known_hosts_name(there.address, there.port),
        )
        own = self.demo.spec(spec).model_copy(update={"become": "none"})
        root = str(there.root)
        try:
            super().__init__(name, own, lambda: Connection((hop,), STRICT), waiting, root)
        except BaseException:
            self.demo.close()
            raise

    def close(self) -> None:
        super().close()
        self.demo.close()
