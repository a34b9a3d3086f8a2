"""Group commit: plain first claims and plain successes of many callers in one trip and one commit.

Most of what a call costs is its share of a round trip, a thread's wake-up and an fsync; a group
pays them once. Three statements at most carry any number of members, each statement says for
itself what is plain, and a member that is not keeps `answer` None: nothing was done for it, and it
is to be decided alone, under locks. If the database refuses one member the whole group is undone,
and each of them is to be decided alone.

A group names each key, each call and each run once: what two members would do to each other cannot
be seen within one statement.
"""

from typing import Any

import psycopg

from operations import first_claims, outcomes, rows
from operations.first_claims import PlainClaim
from operations.outcomes import PlainOutcome

Member = PlainClaim | PlainOutcome


class Group:
    """Members that are carried out together."""

    def __init__(self, *members: Member) -> None:
        self.claims: list[PlainClaim] = []
        self.successes: list[PlainOutcome] = []
        self._named: set[tuple[str, ...]] = set()
        for member in members:
            self.add(member)

    def add(self, member: Member) -> bool:
        """Take a member in; False where another names the same key, call or run."""
        names = member.names
        if not self._named.isdisjoint(names):
            return False
        self._named |= names
        if isinstance(member, PlainClaim):
            self.claims.append(member)
        else:
            self.successes.append(member)
        return True

    def carry_out(self) -> None:
        """Answer every member that is plain, in one commit; raises what the database said."""
        if self.claims or self.successes:
            rows.alone(self._carry_out)

    def _carry_out(self, cur: Any) -> None:
        connection = cur.connection
        with psycopg.Cursor(connection) as granter, psycopg.Cursor(connection) as reporter:
            with connection.pipeline():
                if self.claims:
                    first_claims.record(cur, self.claims)
                    first_claims.grant(granter, self.claims)
                if self.successes:
                    outcomes.commit(reporter, self.successes)
            # Read after the pipeline is through: reading inside it would wait for each answer.
            if self.claims:
                first_claims.take(cur, granter, self.claims)
            if self.successes:
                outcomes.take(reporter, self.successes)
