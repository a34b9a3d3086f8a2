"""Behind the calls: heartbeats for leases that are held, and the relay of spooled reports.

Both are daemon threads that start with the first work there is for them, also under asyncio: an
event loop that an effect blocks must not cost the lease. After a fork they start anew.
"""

import heapq
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable

from countersign import backoff, messages
from countersign.asking import Backstage, settled
from countersign.calls import Lease
from countersign.spool import Report, Spool
from countersign.steps import Reply, Send

_log = logging.getLogger("countersign")
Post = Callable[[Send], Reply]


class Background(Backstage):
    """One for each client. `post` asks the console once and never raises."""

    def __init__(self, spool: Spool, post: Post) -> None:
        self._heartbeats = Heartbeats(post)
        self._relay = Relay(spool, post)

    def watch(self, lease: Lease) -> None:
        self._heartbeats.watch(lease)

    def unwatch(self, lease: Lease) -> None:
        self._heartbeats.unwatch(lease)

    def deliver_soon(self) -> None:
        self._relay.wake()

    def flush(self, seconds: float) -> int:
        return self._relay.flush(seconds)

    def close(self) -> None:
        self._heartbeats.close()
        self._relay.close()


class _Worker:
    """A daemon thread that sleeps until it is due or woken."""

    name = "countersign"

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._closed = False
        self._woken = False

    def _wake(self) -> None:
        with self._condition:
            self._woken = True
            self._condition.notify()
            started = self._thread is not None and self._pid == os.getpid()
            if not (started or self._closed):
                self._pid = os.getpid()
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def _sleep(self, seconds: float | None) -> None:
        with self._condition:
            if not (self._woken or self._closed):
                self._condition.wait(seconds)
            self._woken = False

    def close(self) -> None:
        """Ends the thread; what it was doing it finishes first."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        thread = self._thread
        if thread is not None and self._pid == os.getpid() and thread.is_alive():
            thread.join(10)

    def _run(self) -> None:
        while not self._closed:
            try:
                pause = self._work()
            except Exception:  # noqa: BLE001 (logged; the thread must outlive it)
                if self._closed:
                    return
                # Reports and leases depend on this thread: it outlives what it did not expect.
                _log.exception("countersign: the %s thread stumbled and goes on", self.name)
                pause = 1.0
            self._sleep(pause)

    def _work(self) -> float | None:
        """Does what is due; seconds until there is more, None for nothing known of."""
        raise AssertionError("each worker says what it does")


class Heartbeats(_Worker):
    """Extends each lease when a third of it has passed; tells a lease when it was lost."""

    name = "countersign-heartbeats"

    def __init__(self, post: Post) -> None:
        super().__init__()
        self._post = post
        self._due: list[tuple[float, int, Lease]] = []
        self._numbers = itertools.count()
        self._held: set[int] = set()

    def watch(self, lease: Lease) -> None:
        due = time.monotonic() + lease.seconds / 3
        with self._condition:
            self._held.add(id(lease))
            heapq.heappush(self._due, (due, next(self._numbers), lease))
            first = self._due[0][2] is lease
        if first:
            self._wake()

    def unwatch(self, lease: Lease) -> None:
        with self._condition:
            self._held.discard(id(lease))
            # What ended long before it was due would pile up under a busy client.
            if len(self._due) > 2 * len(self._held) + 64:
                self._due = [item for item in self._due if id(item[2]) in self._held]
                heapq.heapify(self._due)

    def _work(self) -> float | None:
        while True:
            lease, pause = self._next()
            if lease is None or self._closed:
                return pause
            seconds = self._beat(lease)
            if seconds is not None:
                with self._condition:
                    if id(lease) in self._held:
                        item = (time.monotonic() + seconds, next(self._numbers), lease)
                        heapq.heappush(self._due, item)

    def _next(self) -> tuple[Lease | None, float | None]:
        with self._condition:
            while self._due:
                due, _, lease = self._due[0]
                pause = due - time.monotonic()
                if id(lease) in self._held and pause > 0:
                    return None, pause
                heapq.heappop(self._due)
                if id(lease) in self._held:
                    return lease, None
            return None, None

    def _beat(self, lease: Lease) -> float | None:
        """Seconds until the next one; None where there is nothing left to extend."""
        path = messages.path_of(lease.idem_key, "/heartbeat")
        reply = self._post(Send("POST", path, messages.heartbeat_body(lease), lease.seconds / 3))
        if reply.ok:
            return lease.seconds / 3
        if reply.passing:
            return max(lease.seconds / 10, 0.1)
        lease.lost = True
        _log.warning(
            "countersign: the lease on %s is lost (%s); what was sent is settled by the console",
            lease.idem_key,
            reply.said(),
        )
        return None


class Relay(_Worker):
    """Delivers what lies in the spool, oldest first, until the console has all of it."""

    name = "countersign-relay"

    def __init__(self, spool: Spool, post: Post) -> None:
        super().__init__()
        self._spool = spool
        self._post = post
        self._one_at_a_time = threading.Lock()
        self._failures = 0

    def wake(self) -> None:
        self._wake()

    def flush(self, seconds: float) -> int:
        """Delivers now, for so long at most; how many reports are left."""
        end = time.monotonic() + seconds
        number = 0
        while left := self.run_once():
            number += 1
            pause = backoff.pause_before(number)
            if time.monotonic() + pause > end:
                return left
            time.sleep(pause)
        return 0

    def run_once(self) -> int:
        """One pass over the spool, stopping where the console is away; how many are left."""
        with self._one_at_a_time:
            names = self._spool.waiting()
            for done, name in enumerate(names):
                report = self._spool.read(name)
                if report is None:
                    continue
                reply = self._deliver(report)
                verdict = settled(reply)
                if verdict is None:
                    return len(names) - done
                if verdict:
                    self._spool.discard(name)
                else:
                    self._spool.refuse(name, reply.said())
                    _log.error("countersign: the console refused a report: %s", reply.said())
            return len(self._spool.waiting())

    def _work(self) -> float | None:
        if self.run_once():
            self._failures += 1
            return backoff.pause_before(self._failures)
        self._failures = 0
        return None

    def _deliver(self, report: Report) -> Reply:
        if report.kind != "disown":
            return self._post(Send("POST", report.path, messages.encode(report.body)))
        # Which attempt the unheard claim became, if it became one.
        found = self._post(Send("GET", report.path))
        if not found.ok or not found.body.get("attempt_number"):
            return found
        body = {
            "attempt_number": found.body["attempt_number"],
            **report.body,
            "outcome": "failed",
            "effect": "none",
            "permanent": False,
            "error": {"type": "not_sent", "message": "The claim's answer was never received."},
        }
        return self._post(Send("POST", f"{report.path}/outcome", messages.encode(body)))
