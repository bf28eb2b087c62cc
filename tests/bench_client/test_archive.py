"""The client as one file on a host: syntax of Python 3.8, nothing but the standard library."""

from __future__ import annotations

import ast
import io
import json
import shutil
import signal
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

from sweep.bench.archive import client_archive
from tests.bench_client.jobs import body, job
from tests.bench_client.server import StreamServer


@cache
def oldest_python() -> str:
    """The oldest interpreter from 3.8 up that starts here, on PATH or among pyenv's."""
    for minor in range(8, sys.version_info.minor):
        name = f"python3.{minor}"
        installed = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))
        for candidate in (*map(str, installed), shutil.which(name)):
            if candidate and subprocess.run([candidate, "-c", ""], check=False).returncode == 0:
                return candidate
    return sys.executable


def members() -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(client_archive())) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_every_file_is_python_3_8_of_the_standard_library():
    files = members()
    assert "__main__.py" in files
    for name, source in files.items():
        tree = ast.parse(source, name, feature_version=(3, 8))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= sys.stdlib_module_names
            elif isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1, f"{name} reaches out of the client"
            elif isinstance(node, ast.ImportFrom):
                assert str(node.module).split(".")[0] in {*sys.stdlib_module_names, "sweep_client"}


def test_the_archive_is_the_same_every_time():
    assert client_archive() == client_archive()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "client.pyz"
    path.write_bytes(client_archive())
    return path


def test_it_measures_on_the_oldest_python_without_site_packages(archive):
    with StreamServer() as server:
        requests = [body(tokens=9, per_chunk=2, verify=3) for _ in range(6)]
        described = json.dumps(job(server, requests, 2, flush=True, warmup=[body()]))
        (archive.parent / "job.json").write_text(described)
        command = [oldest_python(), "-I", "-S", archive.name, "job.json", "result.json"]
        ended = subprocess.run(command, cwd=archive.parent, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    result = json.loads((archive.parent / "result.json").read_text())
    assert result["error"] is None
    assert [request["tokens_out"] for request in result["requests"]] == [9] * 6
    assert result["client"]["stamped"] == result["client"]["reads"]
    assert not list(archive.parent.glob("*.tmp"))


def test_sigterm_ends_it_with_a_result(archive):
    with StreamServer() as server:
        described = json.dumps(job(server, [body(tokens=10000, gap_s=0.01)]))
        (archive.parent / "job.json").write_text(described)
        command = [sys.executable, "-I", archive.name, "job.json", "result.json"]
        running = subprocess.Popen(command, cwd=archive.parent)
        while not server.served:
            assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 128 + signal.SIGTERM
    result = json.loads((archive.parent / "result.json").read_text())
    assert result["error"] == {"phase": "measure", "detail": "ended by a signal", "late": False}


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer k-1"}, {}])
def test_a_key_is_nowhere_once_it_was_read(archive, headers):
    with StreamServer() as server:
        described = json.dumps(job(server, [body(tokens=10000, gap_s=0.01)], headers=headers))
        (archive.parent / "job.json").write_text(described)
        command = [sys.executable, "-I", archive.name, "job.json", "result.json"]
        running = subprocess.Popen(command, cwd=archive.parent)
        while not server.served:
            assert running.poll() is None
        assert (archive.parent / "job.json").exists() is not bool(headers)
        running.send_signal(signal.SIGTERM)
        running.wait(30)
    assert "k-1" not in (archive.parent / "result.json").read_text()


def test_a_spoilt_trial_exits_1_and_says_why(archive):
    with StreamServer() as server:
        described = json.dumps(job(server, [body()]))
    (archive.parent / "job.json").write_text(described)
    command = [sys.executable, "-I", archive.name, "job.json", "result.json"]
    assert subprocess.run(command, cwd=archive.parent, check=False).returncode == 1
    assert "cannot connect" in (archive.parent / "result.json").read_text()


def test_usage(archive):
    ended = subprocess.run([sys.executable, archive], capture_output=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == b"usage: client.pyz job.json result.json\n"
