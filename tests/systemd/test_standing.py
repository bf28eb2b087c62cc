"""What a later process of a run may go on with: the very start of an earlier one, and no other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sweep.systemd import Standing, Systemd
from sweep.unit import RenderedUnit, SecretFiles
from tests.systemd.targets import NO_SECRETS, Target, me, rendered, taken, wait_for

RUN = "r-standing"


def started(target: Target, systemd: Systemd, secrets: SecretFiles) -> tuple[RenderedUnit, str]:
    unit = rendered(target, "/bin/sleep 600")
    systemd.install(unit, secrets)
    return unit, systemd.start().invocation_id


def later(target: Target, secrets: SecretFiles) -> Standing | None:
    """As a new process of the same run sees it."""
    another = target.systemd(RUN)
    another.take(me())
    return another.standing(secrets)


def test_the_start_of_an_earlier_process_is_found(target: Target) -> None:
    with taken(target, RUN) as systemd:
        assert later(target, NO_SECRETS) is None, "nothing was started"
        unit, invocation_id = started(target, systemd, NO_SECRETS)
        found = later(target, NO_SECRETS)
        assert found is not None
        assert (found.unit_sha256, found.invocation_id) == (unit.sha256, invocation_id)
        assert 0 <= float(target.sh("date +%s")) - found.started_at.timestamp() < 600
        systemd.stop()
        assert later(target, NO_SECRETS) is None, "it has ended"


def restarted(target: Target) -> None:
    target.sh(f"{target.systemctl} restart {target.spec.unit}")


def edited(target: Target) -> None:
    unit_file = f"{target.runtime}/systemd/{target.spec.scope}/{target.spec.unit}"
    target.sh(f"echo '# edited' >> {unit_file}")


def dropped_in(target: Target) -> None:
    place = f"{target.unit_directory}/{target.spec.unit}.d"
    target.host.put(f"{place}/nice.conf", b"[Service]\nNice=5\n")
    target.sh(f"{target.systemctl} daemon-reload")


def ended(target: Target) -> None:
    target.sh(f"{target.systemctl} kill -s KILL {target.spec.unit}")
    wait_for(lambda: target.active(target.spec.unit) == "failed", "its end")


@pytest.mark.parametrize("change", [restarted, edited, dropped_in, ended])
def test_anything_else_than_that_start_is_not(
    target: Target, change: Callable[[Target], None]
) -> None:
    with taken(target, RUN) as systemd:
        started(target, systemd, NO_SECRETS)
        try:
            change(target)
            assert later(target, NO_SECRETS) is None
        finally:
            target.run(f"rm -rf {target.unit_directory}/{target.spec.unit}.d")


def test_a_start_with_other_secrets_is_not(target: Target) -> None:
    with taken(target, RUN) as systemd:
        started(target, systemd, SecretFiles(b"TOKEN=one\n", None))
        assert later(target, SecretFiles(b"TOKEN=two\n", None)) is None
        assert later(target, NO_SECRETS) is None
        assert later(target, SecretFiles(b"TOKEN=one\n", None)) is not None
