"""Real Debian hosts for tests: systemd as PID 1, journald, logind and sshd in nspawn containers.

Needs root on a Debian machine with apt, iproute2, perl and ssh-keygen; what is missing beyond that
(mmdebstrap, systemd-nspawn) is downloaded and unpacked, nothing is installed. A base image of each
release is built once and kept; a host boots in about a second on a small disk of its own (tmpfs).

`Pool` hands out `Machine`s. Each pool works in a slot of its own, so test runs side by side, and
the workers of one run, do not meet. What a killed run leaves is removed by its reaper process, or
by the next run that takes the slot.
"""

from __future__ import annotations

from tests.testhost.base import RELEASES
from tests.testhost.machine import Machine
from tests.testhost.pool import Pool, why_not
from tests.testhost.shell import TesthostError

__all__ = ["RELEASES", "Machine", "Pool", "TesthostError", "why_not"]
