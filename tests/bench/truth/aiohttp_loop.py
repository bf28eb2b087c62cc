"""A client as the Python ones of SGLang and vLLM are: asyncio, aiohttp, JSON of every chunk.

    python aiohttp_loop.py JOB RESULT

Made to do no more than they do: one session without a connection limit, a semaphore of C, the time
taken when a line is read, the JSON of every chunk looked into at once. RESULT: JSON with `ttft` and
`itl`, both in ms.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import aiohttp


async def ask(
    session: aiohttp.ClientSession, url: str, body: dict, ttft: list[float], itl: list[float]
) -> None:
    began = before = time.perf_counter()
    first = True
    async with session.post(url, json=body) as response:
        async for raw in response.content:
            line = raw.strip()
            if not line or line == b"data: [DONE]":
                continue
            now = time.perf_counter()
            event = json.loads(line.decode().removeprefix("data: "))
            choices = event["choices"]
            if choices and choices[0]["delta"].get("content"):
                (ttft if first else itl).append((now - before) * 1e3)
                first, before = False, now
    if first:
        raise RuntimeError(f"nothing came in {time.perf_counter() - began:.1f} s")


async def run(job: dict) -> dict[str, list[float]]:
    places = asyncio.Semaphore(job["concurrency"])
    ttft: list[float] = []
    itl: list[float] = []
    url = f"http://{job['host']}:{job['port']}{job['path']}"

    async def one(body: dict) -> None:
        async with places:
            await ask(session, url, body, ttft, itl)

    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=job["timeout_s"])
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await asyncio.gather(*(one(body) for body in job["requests"]))
    return {"ttft": ttft, "itl": itl}


if __name__ == "__main__":
    told = asyncio.run(run(json.loads(Path(sys.argv[1]).read_text())))
    Path(sys.argv[2]).write_text(json.dumps(told))
