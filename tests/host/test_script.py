"""Scripts, wrapped and told apart; in the shell of this machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sweep.host import script, sections
from sweep.host.script import LONGEST_SCRIPT, MARK, command, printed


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        (b"", {}),
        (b"noise\n", {}),
        (b"@@a\n", {"a": b""}),
        (b"@@a", {"a": b""}),
        (b"motd\n@@a\n1\n2\n@@b\n@@c\n3", {"a": b"1\n2\n", "b": b"", "c": b"3"}),
        (b"@@ a b \n\n\n@@c\n", {"a b": b"\n\n", "c": b""}),
        (b"@@a\nx@@y\n @@z\n", {"a": b"x@@y\n @@z\n"}),
        (b"@@a\n10%\r20%\r\n\x0b\x85\xff\n", {"a": b"10%\r20%\r\n\x0b\x85\xff\n"}),
        (b"@@a\n1\n@@a\n2\n", {"a": b"2\n"}),
    ],
)
def test_sections(stdout: bytes, expected: dict[str, bytes]) -> None:
    assert sections(stdout) == expected


def test_sections_of_much_text_are_quick_to_find() -> None:
    line = b"a line of some journal, about this long, and nothing special about it\n"
    assert sections(b"@@journal\n" + line * 500_000 + b"@@end\n")["journal"] == line * 500_000


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a command's line; stdout is what its script printed."""
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
    own = printed(done.stdout)
    assert own is not None
    return subprocess.CompletedProcess(line, done.returncode, own.decode(), done.stderr.decode())


@pytest.mark.parametrize(
    ("before", "own"),
    [("", b"x\n@@a\n"), ("motd\n@@id\n", b"@@id\n"), ("no end", b""), ("", b"\xff")],
)
def test_what_a_login_shell_says_first_is_not_the_scripts(before: str, own: bytes) -> None:
    assert printed(f"{before}{MARK}\n".encode() + own) == own


def test_a_script_that_was_not_begun_is_told_from_a_silent_one() -> None:
    assert printed(b"This account is currently not available.\n") is None
    assert printed(f"{MARK}\n".encode()) == b""


def test_the_command_line_runs_in_any_sh() -> None:
    line = command("echo \"it's\" '$HOME'; exit 4", timeout_s=10, sudo=False, user_runtime=None)
    done = shell(line)
    assert (done.returncode, done.stdout, done.stderr) == (4, "it's $HOME\n", "")


def test_time_is_limited_where_the_script_runs() -> None:
    line = command("echo begun; sleep 60", timeout_s=0.2, sudo=False, user_runtime=None)
    assert (shell(line).returncode, shell(line).stdout) == (124, "begun\n")


@pytest.mark.parametrize("size", [1, 65536, 65537, 300_000])
def test_what_a_script_is_to_read_comes_whole(size: int) -> None:
    line = command("wc -c; exit 4", timeout_s=10, sudo=False, user_runtime=None, input_size=size)
    done = subprocess.run(["sh", "-c", line], input=b"x" * size, capture_output=True, check=False)
    assert (printed(done.stdout), done.returncode) == (b"%d\n" % size, 4)
    assert done.stderr == b""


def test_a_script_that_does_not_read_what_it_could_ends_as_it_likes() -> None:
    line = command("exit 4", timeout_s=10, sudo=False, user_runtime=None, input_size=300_000)
    done = subprocess.run(
        ["sh", "-c", line], input=b"x" * 300_000, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (4, b"")


def test_no_script_waits_for_input_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """As over a connection that was cut, whose end the host never hears of."""
    monkeypatch.setattr(script, "INPUT_SILENCE_S", 0.3)
    line = command(
        "head -c 5; wc -c; exit 4", timeout_s=60, sudo=False, user_runtime=None, input_size=300_000
    )
    with subprocess.Popen(
        ["sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as held:
        assert held.stdin is not None
        assert held.stdout is not None
        held.stdin.write(b"begun" + b"x" * 100_000)
        held.stdin.flush()
        said = printed(held.stdout.read())  # while the other end stays open
        assert said is not None
        assert (said[:5], held.wait()) == (b"begun", 4)
        assert int(said[5:]) < 300_000 - 5


def test_without_timeout_the_script_runs_all_the_same() -> None:
    line = command("echo fine; exit 3", timeout_s=5, sudo=False, user_runtime=None)
    without = line.replace("command -v timeout", "command -v no-such-timeout")
    assert without != line
    assert (shell(without).stdout, shell(without).returncode) == ("fine\n", 3)


def test_a_users_systemd_can_be_reached() -> None:
    script = 'echo "$XDG_RUNTIME_DIR $DBUS_SESSION_BUS_ADDRESS"'
    line = command(script, timeout_s=5, sudo=False, user_runtime="/a b/run/user")
    directory, address = shell(line).stdout.split(" unix:path=")
    assert directory.startswith("/a b/run/user/")
    assert address == f"{directory}/bus\n"


def test_what_a_login_exports_changes_no_tool() -> None:
    line = command(
        'echo "${POSIXLY_CORRECT-unset} $LC_ALL"', timeout_s=5, sudo=False, user_runtime=None
    )
    done = shell(f"export POSIXLY_CORRECT=1 LC_ALL=tr_TR.UTF-8; {line}")
    assert done.stdout == "unset C.UTF-8\n"


def test_sudo_never_asks() -> None:
    line = command(":", timeout_s=5, sudo=True, user_runtime=None)
    assert line.startswith("sudo -n -- sh -c ")


def test_too_long_is_said_before_the_host_says_it() -> None:
    with pytest.raises(ValueError, match="standard input"):
        command("#" * LONGEST_SCRIPT, timeout_s=5, sudo=False, user_runtime=None)


def test_importing_the_seam_loads_no_ssh() -> None:
    program = "import sys, sweep.host; print({'fabric', 'paramiko', 'tenacity'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
