"""The operator of the benchmark in Python, with the real kopf.

It does the same as the operators of the other sides (see handlers in sides_test.go), and speaks the same protocol: one command on each line
of the standard input, one line with the stats as the answer (see operator_test.go). It exits when its standard input is closed.
"""

import asyncio
import json
import logging
import os
import random
import resource
import sys
import threading
import time
from urllib.parse import urlsplit

import aiohttp
import kopf
from kopf._core.reactor import processing

role = json.loads(os.environ["KOPF_BENCH_OPERATOR"])
kind = ("bench.example.com", "v1", role["Plural"])


class Stats:
    processed = 0  # events that kopf has processed, which correspond to reconciles
    writes = 0
    late = []
    due = {}


def count_writes():
    """Count requests other than GET."""
    request = aiohttp.ClientSession._request

    async def counted(session, method, url, **kwargs):
        if method.upper() != "GET" and not urlsplit(str(url)).path.startswith("/apis/authorization.k8s.io/"):
            Stats.writes += 1
        return await request(session, method, url, **kwargs)

    aiohttp.ClientSession._request = counted


def count_processed():
    """Count the events that kopf has processed."""
    process = processing.process_resource_event

    async def counted(*args, **kwargs):
        try:
            return await process(*args, **kwargs)
        finally:
            Stats.processed += 1

    processing.process_resource_event = counted


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False  # the other sides post no Events either


def provision(spec, patch, **_):
    patch.status["phase"], patch.status["size"] = "Ready", spec["size"]


def announce(spec, patch, **_):
    patch.status["address"] = f"10.0.0.{spec['size']}"


def register(spec, patch, **_):
    patch.status["owner"] = spec["settings"]["region"]


def as_coroutine(step):
    async def handler(**kwargs):
        step(**kwargs)

    return handler


for step in [provision, announce, register][: role["Handlers"]]:
    handler = as_coroutine(step)
    kopf.on.create(*kind, id=step.__name__)(handler)
    kopf.on.update(*kind, id=step.__name__)(handler)

if role["Finalizer"]:

    @kopf.on.delete(*kind)
    async def drop(**_):
        pass


if role["Interval"]:
    interval = role["Interval"] / 1e9

    def first(name, **_):
        delay = random.uniform(0, interval)
        Stats.due[name] = time.monotonic() + delay
        return delay

    @kopf.timer(*kind, interval=interval, initial_delay=first)
    async def timer(name, **_):
        now = time.monotonic()
        Stats.late.append((now - Stats.due[name]) * 1000)
        Stats.due[name] = now + interval


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def stats(late=None):
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "CPU": int((usage.ru_utime + usage.ru_stime) * 1e9),
        "Resident": resident(),
        "Reconciles": Stats.processed,
        "Writes": Stats.writes,
        "Lateness": late,
    }


def serve_commands(loop, start, ready, stop):
    for line in sys.stdin:
        late = None
        match line.strip():
            case "start":
                loop.call_soon_threadsafe(start.set)
            case "sync":
                ready.wait()
            case "take":
                late, Stats.late = Stats.late, []
        print(json.dumps(stats(late)), flush=True)
    stop.set()
    loop.call_soon_threadsafe(start.set)


async def main():
    start, ready, stop = asyncio.Event(), threading.Event(), threading.Event()
    threading.Thread(target=serve_commands, args=(asyncio.get_running_loop(), start, ready, stop), daemon=True).start()
    await start.wait()
    if not stop.is_set():
        await kopf.operator(standalone=True, namespaces=[role["Namespace"]], ready_flag=ready, stop_flag=stop)


# Formatting log lines must cost as much as in production. Only their output is discarded.
kopf.configure(log_format=kopf.LogFormat.JSON)
for output in logging.getLogger().handlers:
    output.setStream(open(os.devnull, "w"))
count_writes()
count_processed()
try:
    import uvloop
except ImportError:
    asyncio.run(main())
else:
    uvloop.run(main())
