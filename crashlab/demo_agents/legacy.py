"""An older runtime that asks nobody: it only reports afterwards, and not always well."""

import argparse
import os
import random
import time
from pathlib import Path
from typing import Any

from countersign import Client, RunInfo, canonicalize, fingerprint
from countersign.calls import new_id
from countersign.reports import now_text, run_record

from crashlab.demo_agents.parents import end_with_parent
from crashlab.demo_agents.setting import KEY

_EVERY_SECONDS = 20.0
_AGENT = "legacy-importer"


def batch_of(number: int, seed: int) -> list[dict[str, Any]]:
    """The n-th run's records, shuffled: the console must make the same of any order."""
    draw = random.Random(f"{seed}/{_AGENT}/{number}")
    run = RunInfo(f"run_legacy_{seed}_{number:04d}", _AGENT, agent_version="0.9")
    records = [run_record(run, "RUN_STARTED")]
    for step in range(1, draw.randint(2, 4)):
        records += _call(draw, run, step, ending=_ENDINGS[(number + step) % len(_ENDINGS)])
    records.append(run_record(run, "RUN_FINISHED"))
    draw.shuffle(records)
    return records


def _call(draw: random.Random, run: RunInfo, step: int, ending: str) -> list[dict[str, Any]]:
    args = {"contact": f"con_{draw.randint(1, 500)}", "field": "plan", "value": "team"}
    about: dict[str, Any] = {
        "occurred_at": now_text(),
        "run": run.document(),
        "step": step,
        "tool_call_id": "" if ending == "without_id" else f"call_{step}",
        "tool": "crm.update",
        "attempt": {"id": new_id(), "layer": "transport"},
    }
    invoked = about | {"record_id": new_id(), "type": "TOOL_INVOKED", "args": args}
    if ending == "cut_off":
        del invoked["args"]
        invoked["args_raw"] = canonicalize(args).decode()[:-9]
    if ending in ("silent", "cut_off", "without_id"):
        return [invoked]
    outcome = about | {"record_id": new_id(), "type": "TOOL_COMMITTED", "result": {"ok": True}}
    if ending == "refused":
        error = {"type": "locked", "message": "the contact is locked by another user"}
        outcome |= {"type": "TOOL_FAILED", "effect": "none", "permanent": True, "error": error}
        del outcome["result"]
    if ending == "replayed":
        return [invoked, outcome, outcome | {"record_id": new_id(), "replayed": True}]
    outcome["provider_ref"] = fingerprint(args)[-12:]
    return [invoked, outcome]


_ENDINGS = (
    "done",
    "done",
    "replayed",
    "done",
    "refused",
    "done",
    "silent",
    "without_id",
    "cut_off",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--console", required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    given, _ = parser.parse_known_args()
    end_with_parent()
    folder = given.state / _AGENT
    folder.mkdir(parents=True, exist_ok=True)
    counter = folder / "next-batch"
    with Client(given.console, os.environ[KEY], agent=_AGENT, spool_dir=folder / "spool") as client:
        while True:
            number = int(counter.read_text()) if counter.exists() else 0
            counter.write_text(str(number + 1))
            summary = client.records(batch_of(number, given.seed))
            print(f"{_AGENT}: {summary}", flush=True)
            time.sleep(_EVERY_SECONDS)


if __name__ == "__main__":
    main()
