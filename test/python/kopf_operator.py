"""The operator in Python. Its handlers come from a table, and ask the test what to do."""

import datetime
import json
import os
import sys
import threading
import types
from collections.abc import Mapping

import aiohttp
import kopf

table = json.loads(os.environ["KOPF_PYTHON_TABLE"])
kind = (table["group"], table["version"], table["plural"])


def as_json(value):
    """Convert kopf's views of objects."""
    return dict(value) if isinstance(value, Mapping) else list(value)


async def ask(handler, kwargs, cause):
    """Report a call, and do what the test answers."""
    call = {
        "process": table["process"],
        "handler": handler,
        "object": kwargs["name"],
        "cause": cause,
        "retry": kwargs.get("retry") or 0,
        "old": kwargs.get("old"),
        "new": kwargs.get("new"),
        "diff": kwargs.get("diff") or (),
    }
    text = json.dumps(call, default=as_json)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        async with session.post(table["server"], data=text) as response:
            answer = await response.json(content_type=None)
    if answer.get("event"):
        kopf.info(kwargs["body"], reason="Called", message=f"{handler} was called")
    match answer["do"]:
        case "succeed":
            return answer.get("result")
        case "temporary":
            raise kopf.TemporaryError("busy", delay=answer["delay"])
        case "permanent":
            raise kopf.PermanentError("invalid")
        case "error":
            raise Exception("broken")
    raise AssertionError(f"unknown answer {answer}")


def function(handler):
    """Make the function of a handler for causes, with its sub-handlers."""

    async def called(**kwargs):
        for sub in handler.get("subs") or ():
            kopf.register(function({"id": f"{handler['id']}/{sub}"}), id=sub)
        return await ask(handler["id"], kwargs, str(kwargs["reason"].value))

    return called


def daemon(handler):
    async def called(stopped, **kwargs):
        await ask(handler["id"], kwargs, "daemon")
        while not stopped:
            await stopped.wait(60)
        await ask(handler["id"], kwargs, "stopped")

    return called


def timer(handler):
    async def called(**kwargs):
        return await ask(handler["id"], kwargs, "timer")

    return called


def admit(handler):
    def called(spec, patch, **_):
        if handler["admission"] == "mutate":
            patch.metadata.annotations[table["process"]] = "was here"
        elif spec.get("size") == 13:
            raise kopf.AdmissionError(f"{table['process']} says no", code=422)

    return called


def declare(handler):
    options = {"id": handler["id"]}
    if handler.get("admission"):
        getattr(kopf.on, handler["admission"])(*kind, **options)(admit(handler))
        return
    if handler.get("case"):
        options["labels"] = {"case": handler["case"]}
    if handler.get("backoff"):
        options["backoff"] = handler["backoff"]
    if handler.get("retries"):
        options["retries"] = handler["retries"]
    if handler.get("daemon"):
        kopf.daemon(*kind, **options)(daemon(handler))
        return
    if handler.get("interval"):
        kopf.timer(*kind, interval=handler["interval"], **options)(timer(handler))
        return
    fn = function(handler)
    if handler.get("field"):
        options["field"] = handler["field"]
    for cause in handler["causes"]:
        getattr(kopf.on, cause)(*kind, **options)(fn)


def stores(name, prefix):
    """Return the stores for records and baselines, None for the defaults."""
    annotations, baseline = kopf.AnnotationsProgressStorage, kopf.AnnotationsDiffBaseStorage
    match name:
        case "smart":
            return None, None
        case "annotations":
            return annotations(prefix=prefix), baseline(prefix=prefix)
        case "annotations-v2":
            return annotations(prefix=prefix, v1=False), baseline(prefix=prefix, v1=False)
        case "status":
            return kopf.StatusProgressStorage(), kopf.StatusDiffBaseStorage()
        case "multi":
            return (
                kopf.MultiProgressStorage([annotations(prefix=prefix), kopf.StatusProgressStorage()]),
                kopf.MultiDiffBaseStorage([baseline(prefix=prefix), kopf.StatusDiffBaseStorage()]),
            )
    raise AssertionError(f"unknown store {name}")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    records, baselines = stores(table["store"], table["prefix"])
    if records is not None:
        settings.persistence.progress_storage = records
        settings.persistence.diffbase_storage = baselines
    settings.background.cancellation_polling = 0.5
    if table.get("finalizer"):
        settings.persistence.finalizer = table["finalizer"]
    if file := table.get("certificate"):
        settings.admission.server = kopf.WebhookServer(addr="127.0.0.1", host="127.0.0.1", certfile=file, pkeyfile=file, cafile=file)
        settings.admission.managed = f"{table['process']}.example.com"
    if table.get("share"):
        settings.watching.label_selectors[kind] = f"share={table['share']}"
        # Without its feature gate, the API server ignores the selector, but kopf then allows equal priorities.
        settings.watching.shard_selectors[kind] = "shardRange(object.metadata.uid, '0x0', '0x8000000000000000')"
    if table.get("lifetime"):
        settings.peering.lifetime = table["lifetime"]


def skew_clock(seconds):
    """Let kopf's peering have a wrong clock."""
    from kopf._core.engines import peering

    real, offset = peering.datetime, datetime.timedelta(seconds=seconds)

    class Skewed(real.datetime):
        @classmethod
        def now(cls, tz=None):
            return real.datetime.now(tz) + offset

    peering.datetime = types.SimpleNamespace(datetime=Skewed, timedelta=real.timedelta, timezone=real.timezone, UTC=real.UTC)


def exit_with_parent():
    sys.stdin.buffer.read()
    os._exit(0)


def main():
    threading.Thread(target=exit_with_parent, daemon=True).start()
    kopf.configure()
    for handler in table["handlers"]:
        declare(handler)
    if table.get("skew"):
        skew_clock(table["skew"])
    peering = table.get("peering")
    kopf.run(
        standalone=not peering,
        peering_name=peering or None,
        priority=table.get("priority") or 0,
        identity=table["process"],
        clusterwide=bool(table.get("clusterwide")),
        namespaces=[] if table.get("clusterwide") else [table["namespace"]],
    )


if __name__ == "__main__":
    main()
