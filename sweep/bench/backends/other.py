"""A benchmark client of somebody else's, between two looks of our own at the server.

Our own client warms the server up at the trial's concurrency and empties its caches, as before any
trial; the other one measures; ours looks at the server's totals again. So every client meets the
same server, and acceptance comes from the same source.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from sweep.bench.archive import NAME, client_archive
from sweep.bench.backends import aiperf, guidellm, sglang, sglang_rust, vllm
from sweep.bench.backends.backend import MARGIN_S, TrialContext, TrialSpoilt, last_lines
from sweep.bench.backends.builtin import client_job
from sweep.bench.backends.client import Asked, Client, columns
from sweep.bench.job import JobSpec
from sweep.bench.metrics import Measurement, acceptance
from sweep.bench.workload import Workload
from sweep.errors import PointError
from sweep.inventory import ClientBenchmark
from sweep.rows import MEASURED, Cell
from sweep.sglang.redact import redact_text

CLIENTS: Mapping[str, Client] = MappingProxyType(
    {
        "sglang": sglang.CLIENT,
        "sglang-rust": sglang_rust.CLIENT,
        "guidellm": guidellm.CLIENT,
        "vllm": vllm.CLIENT,
        "aiperf": aiperf.CLIENT,
    }
)
# Statuses of a shell: not executable, not found.
NOT_THERE = ("126", "127")


def client_of(spec: ClientBenchmark) -> Client:
    return CLIENTS[spec.kind]


@dataclass(frozen=True)
class Other:
    """One client of `CLIENTS`, given the texts of a workload."""

    spec: ClientBenchmark
    workload: Workload

    def job(self, ctx: TrialContext) -> JobSpec:
        client, asked = client_of(self.spec), self.asked(ctx)
        before = client_job(self.workload, ctx, urlsplit(ctx.url)) | {"requests": []}
        after = dict(before)
        before |= {"warmup": self.workload.warmups(ctx.model, ctx.concurrency), "flush": True}
        files = {
            NAME: client_archive(),
            "before.json": json.dumps(before).encode(),
            "after.json": json.dumps(after).encode(),
            "environment": _environment(ctx.api_key),
            "run-trial": _script(client, asked).encode(),
            **client.files(asked),
        }
        return JobSpec(
            argv=("/bin/sh", "run-trial"),
            files=files,
            outputs=(
                client.kept, "client.out", "client.err", "client.status", "client.version",
                "server-before.json", "server-after.json", "ours.err",
            ),
            timeout_s=before["timeout_s"] + MARGIN_S,
            progress="progress.json",
            kept=(client.kept,),
        )  # fmt: skip

    def asked(self, ctx: TrialContext) -> Asked:
        return Asked(
            spec=self.spec,
            url=ctx.url,
            model=ctx.model,
            tokenizer=self.spec.tokenizer or ctx.tokenizer or ctx.model,
            concurrency=ctx.concurrency,
            prompts=self.workload.prompts(ctx.concurrency),
            python=ctx.python,
            api_key=ctx.api_key,
        )

    def read(self, ctx: TrialContext, outputs: Mapping[str, bytes]) -> Measurement:
        before = self._look(outputs, "before")
        if before["error"] is not None:
            detail = f"{before['error']['phase']}: {before['error']['detail']}"
            failure = "hang" if before["error"]["late"] else "warmup_failed"
            raise PointError(failure, detail)
        self._require_end(ctx, outputs)
        values, missing = self._values(ctx, outputs)
        after = self._look(outputs, "after")
        totals = {
            "flush": before["flush"],
            "server_before": before["server_before"],
            "server_after": after["server_before"],
        }
        if ctx.steps > 0:
            values |= acceptance(totals, (), ctx.draft_tokens)
        unknown = ctx.steps > 0 and values.get("accept_length") is None
        measurement = Measurement(
            values={name: values.get(name) for name in MEASURED},
            flags=frozenset({"no_acceptance_data"} if unknown else ()),
            evidence={**totals, "warmup": before["warmup"], **self._told(ctx, outputs, missing)},
        )
        failed = len(self.workload.prompts(ctx.concurrency)) - int(values["requests_ok"] or 0)
        if failed > 0:
            detail = f"{failed} of {values['requests']} requests failed"
            raise TrialSpoilt("client_error", f"{self._name}: {detail}", measurement)
        return measurement

    @property
    def _name(self) -> str:
        return f"the benchmark {self.spec.kind}"

    def _look(self, outputs: Mapping[str, bytes], when: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(outputs[f"server-{when}.json"])
        except (KeyError, ValueError) as error:
            said = last_lines(outputs.get("ours.err", b"").decode("utf-8", "replace"))
            raise PointError(
                "client_error",
                f"the look at the server {when} {self._name} ran left nothing: {said}; is "
                "hosts.*.python a Python 3.8 or newer?",
            ) from error
        return found

    def _require_end(self, ctx: TrialContext, outputs: Mapping[str, bytes]) -> None:
        """Raises PointError unless the client came to an end of its own and left its result."""
        client = client_of(self.spec)
        status = outputs.get("client.status", b"").decode().strip()
        said = self._said(ctx, outputs)
        if status == "0" and client.kept in outputs:
            return
        if status in NOT_THERE or "No module named" in said:
            raise PointError("client_error", f"{self._name} cannot run: {said}; {client.install}")
        how = f"exit status {status}" if status else "it did not end by itself"
        how = "it left no result" if status == "0" else how
        raise PointError("client_error", f"{self._name}: {how}: {said}")

    def _said(self, ctx: TrialContext, outputs: Mapping[str, bytes]) -> str:
        text = outputs.get("client.err") or outputs.get("client.out") or b""
        return last_lines(self._clean(ctx, text), 3)

    def _clean(self, ctx: TrialContext, text: bytes) -> str:
        secrets = [ctx.api_key] if ctx.api_key else []
        return redact_text(text, secrets).decode("utf-8", "replace")

    def _values(
        self, ctx: TrialContext, outputs: Mapping[str, bytes]
    ) -> tuple[dict[str, Cell], list[str]]:
        """The columns in the client's result, and the places at which it has none."""
        client = client_of(self.spec)
        try:
            document = client.document(outputs[client.kept])
        except (ValueError, LookupError) as error:
            detail = f"its result file is no such JSON ({error}): {self._said(ctx, outputs)}"
            raise PointError("client_error", f"{self._name}: {detail}") from error
        values, missing = columns(document, client.places)
        for needed in ("requests_ok", "agg_tok_s"):
            if not values.get(needed):
                place = client.places[needed]
                where = place if isinstance(place, str) else place[0]
                detail = f"{where} is 0 or not in its result: {self._said(ctx, outputs)}"
                raise PointError("client_error", f"{self._name}: {detail}")
        values["requests"] = len(self.workload.prompts(ctx.concurrency))
        return values, missing

    def _told(
        self, ctx: TrialContext, outputs: Mapping[str, bytes], missing: list[str]
    ) -> dict[str, object]:
        """What the record keeps of the client, beside its result file."""
        client = client_of(self.spec)
        return {
            "benchmark": {
                "kind": self.spec.kind,
                "version": self._clean(ctx, outputs.get("client.version", b"")).strip() or None,
                "command": list(client.command(self.asked(ctx))),
                "missing": missing,
                "result_sha256": hashlib.sha256(outputs[client.kept]).hexdigest(),
            },
            "stdout": self._clean(ctx, outputs.get("client.out", b"")),
            "stderr": self._clean(ctx, outputs.get("client.err", b"")),
        }


def _environment(api_key: str | None) -> bytes:
    """A key never stands among the words of a command."""
    if not api_key:
        return b""
    return f"export OPENAI_API_KEY={shlex.quote(api_key)}\n".encode()


def _script(client: Client, asked: Asked) -> str:
    ours = f"{shlex.quote(asked.python)} -I {NAME}"
    links = "".join(
        f"ln -sfn {shlex.quote(target)} {name}\n" for name, target in client.links(asked).items()
    )
    move = "" if client.result == client.kept else f"mv -f {client.result} {client.kept}\n"
    return f"""\
. ./environment
{links}{ours} before.json server-before.json 2>ours.err || exit
{shlex.join(client.command(asked))} >client.out 2>client.err
echo $? >client.status
{move}{ours} after.json server-after.json 2>>ours.err
{shlex.join(client.version(asked.spec, asked.python))} >client.version 2>/dev/null
exit 0
"""
