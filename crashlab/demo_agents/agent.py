"""One agent process: goes on with what was left unfinished, then begins new runs, for ever.

It may be killed at any instant; another process with the same name takes its runs over.
"""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import countersign
from countersign import Client, RunInfo, Waiting
from countersign.reports import run_record

from crashlab.demo_agents.effects import Effects
from crashlab.demo_agents.parents import end_with_parent
from crashlab.demo_agents.setting import KEY, PROVIDER_KEY, Setting
from crashlab.demo_agents.stories import REPERTOIRE, VERSIONS, Step, Story, story_of

#: Seconds between runs: quick until everything was seen once, then as in a small company.
_OVERTURE_SECONDS = 4.0
_CALM_SECONDS = {"renewals": 20.0, "payouts": 90.0, "support": 45.0, "reports": 30.0}
#: So many runs that wait for a person or a look; a new one begins when fewer do.
_MOST_WAITING = {"renewals": 12, "payouts": 6, "support": 4, "reports": 2}
_LOOK_AGAIN_SECONDS = 25.0


class Agent:
    def __init__(self, name: str, setting: Setting) -> None:
        self.name = name
        self.setting = setting
        self.effects = Effects(setting)
        self.client = Client(
            setting.console,
            setting.key,
            agent=name,
            spool_dir=setting.state / name / "spool",
            defaults={"on_wait": "park", "timeout": 2.0, "worker": f"demo-{os.getpid()}"},
        )
        self._counter = setting.state / name / "next-run"
        self._again_at: dict[int, float] = {}

    def work(self) -> None:
        self._wait_for_the_console()
        for run in self.client.unfinished_runs(agent=self.name):
            self._again_at[int(run["run_id"].rpartition("_")[2])] = 0.0
        begin_at = time.monotonic()
        while True:
            now = time.monotonic()
            for number in [number for number, at in self._again_at.items() if at <= now]:
                self._play(number)
            if now >= begin_at and len(self._again_at) < _MOST_WAITING[self.name]:
                number = self._next_number()
                self._play(number)
                overture = number < len(REPERTOIRE[self.name][0])
                pause = _OVERTURE_SECONDS if overture else _CALM_SECONDS[self.name]
                begin_at = time.monotonic() + pause
            time.sleep(0.5)

    def _play(self, number: int) -> None:
        """One run, as far as it goes now."""
        story = story_of(self.name, number, self.setting.seed)
        self._again_at.pop(number, None)
        try:
            self._run(story)
        except (Waiting, countersign.ConsoleUnavailable) as waiting:
            self._again_at[number] = time.monotonic() + _LOOK_AGAIN_SECONDS
            _say(self.name, story, type(waiting).__name__)
        except countersign.DuplicateRun as twice:
            _say(self.name, story, f"the same trigger already started {twice.run_id}")
        except Exception as failure:  # noqa: BLE001 -- an agent that gives up a run says so
            _say(self.name, story, f"gives up: {failure}")
            self.client.records([run_record(self._info(story, None), "RUN_FINISHED")])
        else:
            _say(self.name, story, "finished")

    def _run(self, story: Story) -> None:
        resumed = self.client.resume(story.run_id)
        version = story.restarted_version if resumed.known else None
        with self.client.run(self._info(story, version)) as run:
            for number, step in enumerate(story.steps, 1):
                if resumed.done(number):
                    continue
                said = resumed.model_output(number) or step.said(number)
                effect = self.effects.effect_of(step.tool, step.mishap)
                about: dict[str, Any] = {"goal": step.goal, "reason": step.reason}
                about |= {"model_output": said, "safe": step.tool == "crm.lookup"}
                for args in self._wordings(step, said, asked_again=resumed.known):
                    try:
                        run.call(number, said["tool_call_id"], step.tool, args, effect, **about)
                        break
                    except countersign.ArgsConflict as conflict:
                        _say(self.name, story, str(conflict))

    @staticmethod
    def _wordings(step: Step, said: dict[str, Any], *, asked_again: bool) -> list[Any]:
        """A model that is asked again words it differently; what was persisted is the way out."""
        first = [step.reworded] if step.reworded is not None and asked_again else []
        return [*first, said["args"]]

    def _info(self, story: Story, version: str | None) -> RunInfo:
        info = RunInfo(
            story.run_id, self.name, trigger=story.trigger, budget=story.budget, **VERSIONS
        )
        return replace(info, agent_version=version) if version else info

    def _next_number(self) -> int:
        """Counted on disk before the run begins, so that no number is given twice."""
        number = int(self._counter.read_text()) if self._counter.exists() else 0
        draft = self._counter.with_suffix(".draft")
        draft.write_text(str(number + 1))
        os.replace(draft, self._counter)
        return number

    def _wait_for_the_console(self) -> None:
        while True:
            try:
                self.client.unfinished_runs(agent=self.name)
                return
            except (countersign.ConsoleUnavailable, countersign.NotAuthorised):
                time.sleep(1)


def _say(agent: str, story: Story, what: str) -> None:
    print(f"{agent}: {story.run_id} ({story.name}): {what}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("agent", choices=[*REPERTOIRE])
    parser.add_argument("--console", required=True)
    parser.add_argument("--provider", required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    given = parser.parse_args()
    end_with_parent()
    keys = os.environ[KEY], os.environ[PROVIDER_KEY]
    setting = Setting(given.console, keys[0], given.provider, keys[1], given.state, given.seed)
    (given.state / given.agent).mkdir(parents=True, exist_ok=True)
    try:
        Agent(given.agent, setting).work()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
