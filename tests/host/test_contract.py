"""What every `Host` keeps, on the demo host as on real ones: as root, through sudo, as a user."""

from __future__ import annotations

import random
import shlex
from concurrent.futures import ThreadPoolExecutor

import pytest

from sweep.errors import HostError
from sweep.host import Host

STRANGE = 'it\'s "quoted" $HOME `date` \\n \\\\ !! %s *?[a] ~ # ; & | <> (x) {y}\ttab ünï ✓'


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_a_status_is_a_value_and_outputs_are_apart(host: Host) -> None:
    result = host.run("echo out; echo err >&2; exit 3")
    assert (result.exit_status, result.stdout, result.stderr) == (3, b"out\n", b"err\n")
    assert not result.ok
    assert result.tail() == "err"
    assert host.run(":").ok


@pytest.mark.parametrize("shell", ["sh", "dash"])
def test_scripts_arrive_as_they_are(host: Host, shell: str) -> None:
    script = f"printf %s {shlex.quote(STRANGE)}"
    assert host.run(f"exec {shell} -c {shlex.quote(script)}").text == STRANGE
    assert host.run(f"# a comment\n\n{script}\n# and a last one").text == STRANGE


def test_several_lines_end_with_the_last_ones_status(host: Host) -> None:
    assert host.run("false\ntrue").ok
    assert host.run("set -e\nfalse\ntrue").exit_status == 1


def test_sbin_is_on_the_path_and_messages_are_english(host: Host) -> None:
    assert host.run('case ":$PATH:" in *:/usr/sbin:*) exit 0; esac; exit 1').ok
    assert host.run("cat /does/not/exist").tail().endswith("No such file or directory")


def test_unicode_passes_both_ways(host: Host) -> None:
    assert host.run("cat", stdin=STRANGE.encode()).text == STRANGE


def test_without_input_there_is_an_end_of_file(host: Host) -> None:
    assert host.run("cat; echo done").text == "done\n"


def test_much_input_and_output_at_once(host: Host) -> None:
    data = noise(5_000_000)
    assert host.run("cat", stdin=data).stdout == data


def test_much_output_on_both_streams(host: Host) -> None:
    script = "head -c 20000000 /dev/zero; head -c 3000000 /dev/zero >&2; echo end"
    result = host.run(script, timeout_s=120)
    assert (len(result.stdout), len(result.stderr)) == (20_000_004, 3_000_000)
    assert result.stdout.endswith(b"\0end\n")


def test_input_nobody_reads_is_no_error(host: Host) -> None:
    assert host.run("exec <&-; echo fine", stdin=noise(3_000_000)).text == "fine\n"


@pytest.mark.parametrize(("signal", "status"), [("KILL", 137), ("TERM", 143), ("SEGV", 139)])
def test_a_signal_becomes_a_status(host: Host, signal: str, status: int) -> None:
    assert host.run(f"echo before; kill -{signal} $$").exit_status == status


def test_out_of_time_is_124_and_nothing_runs_on(host: Host) -> None:
    # The demo host shares this machine's processes, and so do the containers of other workers.
    seconds = f"1{random.randrange(10**9)}"
    result = host.run(f"echo $$; sleep {seconds} & sleep {seconds}", timeout_s=0.5)
    assert result.exit_status == 124
    assert result.text.strip().isdigit(), "what it printed before is kept"
    left = host.run(f"ps -eo pid,ppid,args | grep '[s]leep {seconds}'").text
    assert left == ""


def test_many_scripts_at_once(host: Host) -> None:
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda n: host.run(f"echo {n}").text, range(30)))
    assert answers == [f"{n}\n" for n in range(30)]


def test_a_nul_in_a_script_is_our_bug(host: Host) -> None:
    with pytest.raises(ValueError, match="NUL"):
        host.run("echo '\0'")


# -- files


@pytest.mark.parametrize("name", ["plain", "-rf", 'it\'s "q" $x `y`', " s p ", "ünï", "*", "a\\b"])
def test_files_of_any_name_and_content(host: Host, folder: str, name: str) -> None:
    path = f"{folder}/new dir/{name}"
    data = noise(3000) + b"\0\r\n"
    host.put(path, data)
    assert host.read(path) == data
    listed = host.run(f"cd {shlex.quote(folder)}/new*; ls -A; stat -c %a -- ./*").text
    assert listed == f"{name}\n644\n"


@pytest.mark.parametrize("mode", [0o600, 0o755, 0o444])
def test_modes(host: Host, folder: str, mode: int) -> None:
    host.put(f"{folder}/file", b"x", mode=mode)
    assert host.run(f"stat -c %a {folder}/file").text == f"{mode:o}\n"


def test_a_file_is_replaced_whole(host: Host, folder: str) -> None:
    host.put(f"{folder}/file", b"a longer first text")
    before = host.run(f"stat -c %i {folder}/file").text
    host.put(f"{folder}/file", b"second", mode=0o600)
    assert host.read(f"{folder}/file") == b"second"
    assert host.run(f"stat -c %i {folder}/file").text != before


def test_large_and_empty_files(host: Host, folder: str) -> None:
    data = noise(4_000_000)
    host.put(f"{folder}/large", data)
    host.put(f"{folder}/empty", b"")
    assert host.read(f"{folder}/large") == data
    assert host.read(f"{folder}/empty") == b""


def test_no_file_is_none(host: Host, folder: str) -> None:
    assert host.read(f"{folder}/missing") is None
    assert host.read(f"{folder}/missing/further") is None


def test_what_cannot_be_read_or_written_says_why(host: Host, folder: str) -> None:
    host.put(f"{folder}/file", b"x")
    with pytest.raises(HostError, match=r"cannot read .*: .*[Ii]s a directory"):
        host.read(folder)
    with pytest.raises(HostError, match=r"cannot write .*: .*(Not a directory|File exists)"):
        host.put(f"{folder}/file/below", b"x")
    with pytest.raises(HostError, match=r"cannot write .*: is a directory"):
        host.put(folder, b"x")
    assert host.run(f"ls -A {folder}").text == "file\n"
