"""Benchmark clients on the host: transient units whose output lies on disk there.

A lost connection costs nothing: the client goes on, and its files wait to be fetched.

    {work}/JOB/           0700, of the user the client runs as; the client's working directory
        run.sh            the command
        stdout, stderr    what it wrote
        exit              its exit status, written last
        ...               the files it was given and those it made
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweep.errors import HostError
from sweep.host.scripted import FILE_TIMEOUT_S, words
from sweep.systemd.deadman import Hold
from sweep.systemd.lock import ACTIVE
from sweep.systemd.paths import is_name, require_name
from sweep.systemd.room import full_disk_as_launch_error
from sweep.systemd.site import KNOW_HOME, Site, at_the_end, properties, quote, text
from sweep.systemd.state import JobState

_STOP_S = 10
_START_TIMEOUT_S = 300.0  # its files come over a slow connection, too
_STOPPED = 128 + 15  # a shell's status of what SIGTERM ended


@dataclass(frozen=True)
class Job:
    """One client. `directory` is on the host; `progress` is the file in it that tells how far."""

    name: str
    unit: str
    directory: str
    progress: str = "stderr"


@dataclass(frozen=True)
class Left:
    """A client as it was found. `seconds`: from its start to its end, None while there is none."""

    name: str
    running: bool
    seconds: float | None


class Jobs:
    """The benchmark clients of one run."""

    def __init__(self, site: Site, hold: Hold) -> None:
        self._site = site
        self._hold = hold

    def job(self, name: str, progress: str = "stderr") -> Job:
        """The job of that name, started or not."""
        paths = self._site.paths
        return Job(name, paths.job_unit(name), paths.job(name), require_name(progress))

    def start(
        self,
        name: str,
        argv: Sequence[str],
        files: Mapping[str, bytes],
        *,
        user: str | None = None,
        progress: str = "stderr",
    ) -> Job:
        """Start a client with these files in its directory, which is where it runs.

        A job that was started before is left as it is. `user` None: whoever our scripts run as.
        `progress` names the file whose last line tells how far the client is.
        Raises HostTaken, LaunchError host_disk_full, HostError when systemd refuses.
        """
        job = self.job(name, progress)
        doing = f"start the benchmark client {name}"
        with full_disk_as_launch_error():
            # All in one script, which takes the files apart: each one alone would be a round trip.
            parcel = {**files, "run.sh": _command(job, argv)}
            script = self._start_script(job, user, {name: len(parcel[name]) for name in parcel})
            answer = self._site.ask(
                doing, script, timeout_s=_START_TIMEOUT_S, stdin=b"".join(parcel.values())
            )
        self._hold.require(answer)
        return job

    def state(self, job: Job) -> JobState:
        show = f"echo @@job; {self._site.systemctl} show -p ActiveState -- {job.unit}"
        script = f"{show}\n{job_files_script(job)}"
        answer = self._site.ask("look at the benchmark client", script)
        return job_state(answer, properties(answer.get("job")))

    def left(self) -> tuple[Left, ...]:
        """Every client of this run that has a directory here, whichever process started it."""
        site, work = self._site, quote(self._site.paths.work)
        answer = site.ask("look for benchmark clients", f"""
for directory in {work}/*/; do
  [ -d "$directory" ] || continue
  name=$(basename "$directory")
  echo "@@$name"
  {site.systemctl} show -p ActiveState -- "{self._site.paths.job_unit_prefix}$name.service" || exit
  echo "Status=$(cat "$directory/exit" 2>/dev/null)"
  echo "Began=$(date -r "$directory/run.sh" +%s 2>/dev/null)"
  echo "Ended=$(date -r "$directory/exit" +%s 2>/dev/null)"
done
:""")  # fmt: skip
        return tuple(
            _left(name, properties(shown)) for name, shown in answer.items() if is_name(name)
        )

    def read(self, job: Job, name: str) -> bytes | None:
        """A file of the job's directory; None: it is not there."""
        return self.files(job, (name,)).get(name)

    def files(self, job: Job, names: Sequence[str]) -> dict[str, bytes]:
        """Those of the job's files that are there, read in one go."""
        site = self._site
        files = " ".join(quote(require_name(name)) for name in names)
        result = site.run(f"""
[ -d {quote(job.directory)} ] || exit 0
cd {quote(job.directory)} || exit
for file in {files}; do
  [ -e "$file" ] || continue
  size=$(wc -c <"$file") || exit
  echo "$file" $size
  head -c $size "$file" || exit
done
:""", timeout_s=FILE_TIMEOUT_S)  # fmt: skip
        if not result.ok:
            raise HostError(f"{site.host.name}: cannot read in {job.directory}: {words(result)}")
        try:
            return _parcelled(result.stdout)
        except ValueError as error:
            raise HostError(
                f"{site.host.name}: a file in {job.directory} changed while it was read"
            ) from error

    def stop(self, job: Job) -> None:
        """End the client with all its processes; its files stay."""
        self._site.run(f"{self._site.systemctl} stop {job.unit} 2>/dev/null; :")

    def forget(self, job: Job) -> None:
        """Remove the job's files from the host: they have been fetched, or nobody wants them."""
        mark = f"{self._site.paths.run}/jobs/{job.unit}"
        self._site.run(
            f"{self._site.systemctl} stop {job.unit} 2>/dev/null\n"
            f"rm -rf {quote(job.directory, mark)}"
        )

    def _was_started(self, job: Job) -> str:
        """A shell command that succeeds for a client that runs or has ended.

        In this order: one that is gone when the unit is looked at has written its status.
        """
        show = f"{self._site.systemctl} show -p ActiveState -- {job.unit}"
        return f"{{ {show} | grep -qv =inactive || [ -e {quote(job.directory)}/exit ]; }}"

    def _start_script(self, job: Job, user: str | None, sizes: Mapping[str, int]) -> str:
        """Its files come through standard input, one after the other.

        Run again while the first run is still at it, both make the same files, each whole in one
        step, and one of them starts the client.
        """
        site, directory = self._site, quote(job.directory)
        as_user, own = "", ""
        if user is not None and site.spec.scope == "system":
            as_user = f"--property=User={quote(user)}"
            own = f'chown -R -- {quote(user)} "$new"/* {directory} || exit'
        return f"""
{self._hold.guard()}
if {self._was_started(job)}; then exit 0; fi
umask 077
mkdir -p {directory} && : > {quote(f"{site.paths.run}/jobs/{job.unit}")} || exit
new=$(mktemp -d {directory}/.new.XXXXXX) || exit
{at_the_end('rm -rf -- "$new"')}
{_unpack(sizes)}
{own}
mv -f -- "$new"/* {directory}/ || exit
{site.systemd_run} --unit={job.unit} --property=TimeoutStopSec={_STOP_S} {as_user} \\
  --description={quote(f"sweep: benchmark client {job.name}")} /bin/sh {directory}/run.sh && exit
# Another run of this has it loaded, and starts it in a moment.
for _ in 1 2 3 4 5 6 7 8 9 10; do
  {self._was_started(job)} && exit
  sleep 0.2
done
exit 1
"""


def _command(job: Job, argv: Sequence[str]) -> bytes:
    """run.sh. The words go through a file: systemd-run's own quoting of them differs by version.

    A stop signals this shell and the client in no certain order. Either way there is no status;
    and in a subshell of its own the client's stderr has no `Terminated` of this shell's.
    """
    return f"""cd {quote(job.directory)} || exit
umask 077
{KNOW_HOME}
(exec {quote(*argv)}) </dev/null >stdout 2>stderr
status=$?
[ $status != {_STOPPED} ] || exit
echo $status > exit.new && mv -f exit.new exit
exit $status
""".encode()


def _unpack(sizes: Mapping[str, int]) -> str:
    """The lines that make files of so many bytes, one after the other, of standard input.

    A connection that is cut looks like its end, so the size of it all is compared.
    """
    begin, lines = 0, []
    for name, size in sizes.items():
        file = f'"$new"/{quote(require_name(name))}'
        lines.append(f'tail -c +{begin + 1} "$parcel" | head -c {size} >{file} || exit')
        begin += size
    return "\n".join((
        "parcel=$new/.parcel",
        'cat >"$parcel" || exit',
        'arrived=$(wc -c <"$parcel") || exit',
        f'if [ "$arrived" -ne {begin} ]; then',
        f'  echo "only $arrived of {begin} bytes arrived" >&2; exit 1',
        "fi",
        *lines,
    ))  # fmt: skip


def _parcelled(data: bytes) -> dict[str, bytes]:
    """Files one after the other, each after a line with its name and size; else ValueError."""
    found = {}
    while data:
        line, _, rest = data.partition(b"\n")
        name, size = line.decode().split()
        found[name], data = rest[: int(size)], rest[int(size) :]
    return found


def _left(name: str, shown: Mapping[str, str]) -> Left:
    ended = shown.get("Status", "").isdigit()
    times = shown.get("Began", ""), shown.get("Ended", "")
    whole = ended and all(time.isdigit() for time in times)
    return Left(
        name,
        running=not ended and shown.get("ActiveState") in (*ACTIVE, "deactivating"),
        seconds=max(0.0, float(times[1]) - float(times[0])) if whole else None,
    )


def job_files_script(job: Job) -> str:
    """The sections exit and progress: part of a poll, after the unit was looked at.

    In this order: a unit that is gone has written its status by then.
    """
    directory = quote(job.directory)
    return f"""
echo @@exit; status=; {{ read -r status < {directory}/exit; }} 2>/dev/null; echo "$status"
echo @@progress; tail -c 400 {directory}/{job.progress} 2>/dev/null; echo
"""


def job_state(answer: Mapping[str, bytes], shown: Mapping[str, str]) -> JobState:
    """A client's unit as it was shown, and after it the sections of `job_files_script`."""
    active = shown.get("ActiveState", "")
    status = text(answer.get("exit"))
    lines = text(answer.get("progress")).replace("\r", "\n").split("\n")
    running = not status and active in (*ACTIVE, "deactivating")
    return JobState(running, int(status) if status.isdigit() else None, lines[-1].strip())
