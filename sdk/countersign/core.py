"""What both clients are made of: settings, the spool, and each verb as a protocol to be driven."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack, cast
from urllib.parse import quote

from countersign import atomic, backoff, guarding, messages, reports, resuming, spool
from countersign.asking import Console
from countersign.background import Background, Post
from countersign.calls import Call, CallOptions, Effect, Result, RunInfo
from countersign.resuming import Resumed
from countersign.steps import Send, Steps
from countersign.tools import Tool

#: The default of `spool_dir`: a folder of this user's, apart for each console and key.
STATE_FOLDER = "state"


class Core:
    """Holds no connection; `Client` and `AsyncClient` add those and drive the protocols.

    `agent` and the versions are the defaults for runs. `spool_dir` is where reports wait while the
    console is away (None: in memory only, lost with the process). `claim_seconds` is how long a
    claim tries to reach the console before ConsoleUnavailable. `grant_keys` is a JWK set that you
    trust: an approved call is then executed only with a grant that one of them signed for it.
    `defaults` are call options for every call.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        agent: str = "agent",
        agent_version: str | None = None,
        prompt_version: str | None = None,
        code_version: str | None = None,
        spool_dir: str | Path | None = STATE_FOLDER,
        claim_seconds: float = 30.0,
        report_seconds: float = 5.0,
        poll_seconds: int = 30,
        grant_keys: Mapping[str, Any] | None = None,
        defaults: CallOptions | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.agent = agent
        self.agent_version = agent_version
        self.prompt_version = prompt_version
        self.code_version = code_version
        self._api_key = api_key
        self._defaults = defaults or CallOptions()
        self._spool = _open_spool(self.base_url, api_key, spool_dir)
        self._report_seconds = report_seconds
        self._claim_seconds = claim_seconds
        self._poll_seconds = poll_seconds
        self._grant_keys = grant_keys

    def _start(self, post: Post) -> None:
        self._background = Background(self._spool, post)
        self._console = Console(
            self._spool,
            self._background,
            backoff.RetryBudget(),
            self._claim_seconds,
            self._report_seconds,
            self._poll_seconds,
            self._grant_keys,
        )
        if self._spool.waiting():
            # Left behind by a process that died or lost the console.
            self._background.deliver_soon()

    def run_info(self, run: str | RunInfo, **versions: Any) -> RunInfo:
        """The run with this client's agent and versions, where it does not bring its own."""
        if isinstance(run, RunInfo):
            return run
        mine = {
            "agent": self.agent,
            "agent_version": self.agent_version,
            "prompt_version": self.prompt_version,
            "code_version": self.code_version,
        }
        given = {name: value for name, value in versions.items() if value is not None}
        return RunInfo(run, **(mine | given))

    def tool(self, name: str, **options: Unpack[CallOptions]) -> Callable[[Effect], Tool]:
        """Decorates an effect with its tool's name and options; call it with `run.call`."""
        return lambda function: Tool(name, function, options)

    @property
    def spooled(self) -> int:
        """How many reports wait on this machine for the console to take them."""
        return len(self._spool.waiting())

    def flush(self, seconds: float = 10.0) -> int:
        """Delivers spooled reports now; how many are still left after so many seconds."""
        return self._background.flush(seconds)

    def atomic(
        self,
        cursor: atomic.Cursor,
        run: str | RunInfo,
        step: int,
        tool_call_id: str,
        tool: str,
        args: Any,
        effect: Effect,
        **options: Unpack[CallOptions],
    ) -> Result:
        """An effect in your own Postgres, in the transaction of `cursor`: see `atomic.execute`.

        Needs the table of `countersign.atomic.DDL`; an `OutboxRelay` tells the console.
        """
        call = self._call(run, step, tool_call_id, tool, args, options)
        return atomic.execute(cursor, call, effect)

    def _call(
        self,
        run: str | RunInfo,
        step: int,
        tool_call_id: str,
        tool: str,
        args: Any,
        options: CallOptions,
    ) -> Call:
        merged = cast("CallOptions", {**self._defaults, **options})
        return Call.of(self.run_info(run), step, tool_call_id, tool, args, merged)

    def _guarding(self, call: Call, effect: Effect | None) -> Steps[Result]:
        return guarding.guarding(self._console, call, effect)

    def _records(
        self, records: Iterable[Mapping[str, Any]], *, spool: bool
    ) -> Steps[dict[str, Any]]:
        return reports.sending_records(self._console, records, spool=spool)

    def _resuming(self, run: str | RunInfo) -> Steps[Resumed]:
        return resuming.resuming(self._console, self.run_info(run))

    def _operation(self, idem_key: str) -> Steps[dict[str, Any]]:
        return resuming.reading(self._console, messages.path_of(idem_key))

    def _unfinished(self, agent: str | None) -> Steps[list[dict[str, Any]]]:
        mine = "" if agent is None else f"&agent={quote(agent)}"
        return resuming.listing(self._console, f"/api/v1/runs?status=unfinished{mine}")

    def _verb(self, idem_key: str, verb: str) -> Steps[dict[str, Any]]:
        send = Send("POST", messages.path_of(idem_key, f"/{verb}"), b"{}")
        return resuming.telling(self._console, send)


def _open_spool(base_url: str, api_key: str, folder: str | Path | None) -> spool.Spool:
    if folder == STATE_FOLDER:
        folder = spool.default_folder(base_url, api_key)
    try:
        return spool.Spool(Path(folder) if folder is not None else None)
    except OSError as problem:
        raise ValueError(
            f"Reports wait in {folder} while the console is away, and it cannot be used "
            f"({problem}). Pass spool_dir= with a writable folder that outlives the process, or "
            "spool_dir=None to keep them in memory and lose them with the process."
        ) from problem
