"""The commands that are useful without a sweep: bench, scrape, init."""

from __future__ import annotations

import math
import os
import re
import sys
from socket import gethostname
from typing import TYPE_CHECKING, Any

import click

from sweep.cli.options import Options, packaged_example, pass_options
from sweep.errors import FatalError, UsageError
from sweep.hints import DEFAULT_INVENTORY, with_inventory
from sweep.limits import MOST_CONCURRENCY, MOST_RATE, MOST_REQUESTS, MOST_TOKENS

if TYPE_CHECKING:
    from sweep.inventory import HostSpec

LOCAL = "local"  # this machine, where a host is asked for


@click.command(
    short_help="Benchmark a server that is already up.",
    epilog="\b\nExample:\n  sweep bench http://127.0.0.1:30000 1 4 16 32 64\n"
    "  sweep bench http://127.0.0.1:30000 1 16 --workload chat\n"
    "  sweep bench http://127.0.0.1:30000 256 --workload chat --rate 4 --endpoint native\n"
    "  sweep bench http://127.0.0.1:30000 1 4 16 --format json > levels.jsonl",
)
@click.argument("url")
@click.argument(
    "concurrencies",
    metavar="C...",
    nargs=-1,
    type=click.IntRange(1, MOST_CONCURRENCY),
    required=True,
)
@click.option(
    "--workload", default="greedy", show_default=True, metavar="NAME|FILE|IN:OUT",
    help="greedy, chat, code, reasoning, extraction, translation, summarization, a file of "
    "conversations, or numbers of random tokens.",
)  # fmt: skip
@click.option(
    "--max-tokens", type=click.IntRange(1, MOST_TOKENS),
    help="Output tokens per request at most.  [default: the workload's]",
)  # fmt: skip
@click.option(
    "--requests", type=click.IntRange(1, MOST_REQUESTS),
    help="Requests at each C.  [default: 2*C, at least 4; at least 40 of the other workloads]",
)  # fmt: skip
@click.option(
    "--rate", type=click.FloatRange(0, MOST_RATE, min_open=True),
    help="Requests per second, at random moments; C is then the most in flight.  [default: C are "
    "held in flight]",
)  # fmt: skip
@click.option(
    "--endpoint", type=click.Choice(["openai", "native"]), default="openai", show_default=True,
    help="native: SGLang's own /generate, which knows no chat template.",
)  # fmt: skip
@click.option("--api-key-env", metavar="NAME", help="Variable that holds the server's API key.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="json: every measured column, an object on a line of its own for each C.",
)  # fmt: skip
def bench(
    url: str,
    concurrencies: tuple[int, ...],
    workload: str,
    api_key_env: str | None,
    form: str,
    **given: Any,
) -> int:
    """Benchmark a server that is already up: the published table, latencies, acceptance.

    By default 2*C requests at concurrency C, at least 4: fixed prompts, temperature 0, ignore_eos,
    1000 tokens. The other workloads are sampled and end by themselves; they send at least 40
    requests, or conversations. Before that C requests of 100 tokens warm the server up, which no
    figure counts. With --rate requests come as those of users do, whether the server keeps up or
    not. What else can be set of a benchmark is set in an inventory, for `sweep run`.
    """
    from sweep.bench.shown import AsJson, AsTables
    from sweep.bench.standalone import bench_url
    from sweep.inventory import BuiltinBenchmark
    from sweep.inventory_file import parse_workload
    from sweep.unit.secrets import header_problem

    key = os.environ.get(api_key_env) if api_key_env else None
    if api_key_env and not key:
        raise click.UsageError(
            f"--api-key-env: the variable {api_key_env} is not set here, or empty"
        )
    if key and (problem := header_problem(key)):
        raise click.UsageError(f"--api-key-env: the variable {api_key_env} {problem}")
    requests, most = given["requests"], max(concurrencies)
    if requests is not None and requests < most and given["rate"] is None:
        raise click.UsageError(f"--requests {requests}: too few to hold {most} in flight")
    if given["rate"] is not None and math.isnan(given["rate"]):
        raise click.UsageError("--rate: nan is no number of requests per second")
    try:
        texts = parse_workload(workload)
    except ValueError as error:
        raise UsageError(f"--workload {workload}: {error}") from error
    settings = {name: value for name, value in given.items() if value is not None}
    benchmark = BuiltinBenchmark(workload=texts, **settings)
    shown = (AsTables if form == "text" else AsJson)(click.echo, live)
    return bench_url(url, concurrencies, shown=shown, benchmark=benchmark, api_key=key)


def live(text: str) -> None:
    """One line on a terminal, written over by the next; nothing elsewhere."""
    if sys.stderr.isatty():
        click.echo(f"\r{text:<60}\r", nl=False, err=True)


@click.command(
    short_help="What a saved journal says, as JSON.",
    epilog="\b\nExample:\n  journalctl -u sglang -o cat | sweep scrape -",
)
@click.argument("file", metavar="FILE|-")
def scrape(file: str) -> None:
    """What the scraper reads from a saved journal, as JSON."""
    from sweep.sglang.journal import scrape_json

    try:
        with click.open_file(file, "rb") as journal:
            data = journal.read()
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    click.echo(scrape_json(data), nl=False)


@click.command(
    short_help="Write an inventory.yaml.",
    epilog="\b\nExample:\n  sweep init\n  sweep init --from root@gpu1.example.net sglang.service",
)
@click.option(
    "--from", "source", nargs=2, metavar="HOST UNIT",
    help="Read the unit that a host runs today, over SSH; HOST may be USER@HOST, or the word local "
    "for this machine.",
)  # fmt: skip
@click.option("--become", type=click.Choice(["none", "sudo"]), default="none", show_default=True)
@click.option("--scope", type=click.Choice(["system", "user"]), default="system", show_default=True)
@click.option("--host-key", default="strict", show_default=True,
              help="strict, accept-new or a SHA256 fingerprint.")  # fmt: skip
@click.option("--ssh-config", metavar="FILE", help="Instead of ~/.ssh/config.")
@pass_options
def init(options: Options, /, source: tuple[str, str] | None, **given: str | None) -> None:
    """Write an inventory.yaml: the example, or one for what a host runs today."""
    from sweep.init import from_unit, write_new

    path = options.inventory or DEFAULT_INVENTORY
    if source is None:
        example = packaged_example()
        if example is None:
            raise FatalError("this installation of sweep has lost its example inventory")
        write_new(path, example.read_text())
        options.say(f"wrote {path}; `{with_inventory('run demo', path)}` tries the tool here")
        return
    from sweep.host import connect

    target, unit = source
    spec = _spec_for(target, given)
    name = host_name(spec.address or gethostname())
    with connect(name, spec) as host:
        draft = from_unit(host, name, spec.address, unit, connected=spec)
    write_new(path, draft.text)
    for note in draft.notes:
        options.say(f"note: {note}")
    then = with_inventory("run overnight --dry-run", path)
    options.say(f"wrote {path}; look at it, then: {then}")


def _spec_for(target: str, given: dict[str, str | None]) -> HostSpec:
    """Enough of a host to connect to it: what the options say, the server still unknown."""
    from sweep.inventory import HostSpec, ServerSpec

    known = {key: value for key, value in given.items() if value is not None}
    server = ServerSpec(command=("/bin/true",))
    if target == LOCAL:
        meant = {key: known[key] for key in ("become", "scope")}
        return HostSpec.model_validate({"transport": LOCAL, **meant, "server": server})
    user, _, address = target.rpartition("@")
    return HostSpec.model_validate(
        {"address": address, "user": user or None, **known, "server": server}
    )


def host_name(address: str) -> str:
    """A name for the inventory: the first label of a host name; h-... for an IP address."""
    label = address if re.fullmatch(r"[0-9a-fA-F.:]+", address) else address.partition(".")[0]
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", label)
    return plain if plain[:1].isalpha() else f"h-{plain}"


COMMANDS = (bench, scrape, init)
