"""The operation: one intended side effect, one idempotency key for ever.

The wide row carries no index on anything that changes, so that its updates stay HOT;
`Standing` is the narrow table that queues and state lists read, kept by a trigger
(`operations/sql/guards.sql`), with a row for everything that is not COMMITTED.
"""

from django.db import models
from django.db.models.functions import Now

from operations import states
from operations.ids import handle, uuid7
from operations.models.catalogue import TOOL_CLASSES
from operations.models.runs import Run
from operations.models.scoped import Scoped, environment_is_known

RELEASE_REASONS = ("safe", "replay", "absent", "signed")
GATES = ("none", "waiting", "granted", "refused", "revoked")


class Operation(Scoped):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    idem_key = models.TextField(db_collation="C")
    derived_key = models.TextField(
        db_collation="C",
        help_text="Digest of (run, step, call, position); is idem_key unless the runtime has one.",
    )
    run = models.ForeignKey(Run, models.PROTECT, related_name="operations", db_index=False)
    step = models.IntegerField()
    tool_call_id = models.TextField()
    position = models.IntegerField(null=True)
    id_missing = models.BooleanField(default=False)

    tool = models.TextField(db_collation="C")
    tool_version = models.PositiveIntegerField(null=True, help_text="None: not in the catalogue.")
    tool_class = models.TextField(default="unsafe")
    catalogue_version = models.PositiveIntegerField(default=0)
    args_fingerprint = models.TextField(null=True)
    goal = models.TextField(null=True)
    amount_minor = models.BigIntegerField(null=True)
    currency = models.TextField(null=True)
    executor = models.TextField(default="self")
    compensates = models.ForeignKey(
        "self", models.PROTECT, null=True, related_name="compensations", db_index=False
    )
    compensation_slot = models.UUIDField(
        null=True,
        help_text="The original's id while this compensation holds its place; null once FAILED.",
    )
    superseded_by = models.ForeignKey(
        "self", models.PROTECT, null=True, related_name="supersedes", db_index=False
    )
    mode = models.TextField(default="claim", help_text="claim, or report: told after the fact.")

    state = models.TextField(default=states.PENDING)
    version = models.IntegerField(default=1)
    failure = models.TextField(null=True)
    closed = models.BooleanField(default=False, help_text="The intent is no longer wanted.")
    closed_as = models.TextField(
        null=True, help_text="What it fails with once a closed intent had no effect."
    )
    waiting_on = models.TextField(null=True)
    waiting_until = models.DateTimeField(null=True)

    release_reason = models.TextField(
        null=True,
        help_text="Why it may run again (safe, replay, absent, signed); null once claimed.",
    )

    # The gate: what approvals decided, on the row that claim, consume and sending lock.
    gate = models.TextField(default="none")
    gate_ref = models.TextField(null=True, help_text="Handle of the approval request.")
    gate_expires_at = models.DateTimeField(null=True)
    gate_used = models.BooleanField(default=False)

    attempt_number = models.IntegerField(default=0, help_text="Newest attempt; the fencing token.")
    attempts = models.IntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    first_sent_at = models.DateTimeField(null=True)
    key_expires_at = models.DateTimeField(null=True)

    provider_ref = models.TextField(null=True)
    effect_status = models.TextField(null=True)
    verdict = models.JSONField(null=True)
    flags = models.JSONField(default=list, help_text="Hints such as id_reused, version_changed.")
    replays = models.IntegerField(default=0, help_text="Answers given from the recorded result.")
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["idem_key", "environment", "namespace"],
                name="operation_idem_key_is_unique",
            ),
            models.UniqueConstraint(
                fields=["derived_key", "environment", "namespace"],
                name="operation_call_is_unique",
            ),
            # Not `compensates` where the state is not FAILED: a state in an index's predicate
            # would end HOT updates for every operation.
            models.UniqueConstraint(
                fields=["compensation_slot"],
                condition=models.Q(compensation_slot__isnull=False),
                name="operation_has_one_live_compensation",
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=states.STATES), name="operation_state_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(failure=None) | models.Q(failure__in=states.FAILURES),
                name="operation_failure_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(closed_as=None) | models.Q(closed_as__in=states.FAILURES),
                name="operation_closed_as_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(waiting_on=None) | models.Q(waiting_on__in=states.WAITING_ON),
                name="operation_waiting_on_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=[states.COMMITTED, states.FAILED])
                ^ models.Q(waiting_on__isnull=False),
                name="operation_waits_on_something_until_terminal",
            ),
            models.CheckConstraint(
                condition=models.Q(release_reason=None)
                | models.Q(release_reason__in=RELEASE_REASONS),
                name="operation_release_reason_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(gate__in=GATES), name="operation_gate_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(tool_class__in=TOOL_CLASSES),
                name="operation_tool_class_is_known",
            ),
            models.CheckConstraint(
                condition=models.Q(state=states.INVOKED) ^ models.Q(lease_expires_at__isnull=True),
                name="operation_has_a_lease_while_invoked",
            ),
            environment_is_known("operation"),
        ]
        indexes = [
            models.Index(fields=["run", "step", "id"], name="operation_by_run"),
            models.Index(fields=["environment", "namespace", "id"], name="operation_by_age"),
            models.Index(
                fields=["environment", "namespace", "tool", "id"], name="operation_by_tool"
            ),
            models.Index(
                fields=["environment", "namespace", "provider_ref"],
                condition=models.Q(provider_ref__isnull=False),
                name="operation_by_provider_ref",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.idem_key[:12]}"

    @property
    def handle(self) -> str:
        return handle("op", self.id)


class Standing(models.Model):
    """Narrow projection of every operation that is not COMMITTED. Written by a trigger only."""

    operation = models.OneToOneField(
        Operation, models.CASCADE, primary_key=True, related_name="standing", db_constraint=False
    )
    environment = models.TextField(db_collation="C")
    namespace = models.TextField(db_collation="C")
    state = models.TextField()
    tool = models.TextField(db_collation="C")
    waiting_on = models.TextField(null=True)
    gate = models.TextField()
    due_at = models.DateTimeField(
        null=True, help_text="Lease end while INVOKED, else waiting_until."
    )
    since = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(
                fields=["environment", "namespace", "state", "operation"], name="standing_by_state"
            ),
            models.Index(
                fields=["due_at"],
                condition=models.Q(state=states.INVOKED),
                name="standing_by_lease_end",
            ),
            models.Index(
                fields=["operation"],
                condition=models.Q(state=states.UNKNOWN),
                name="standing_unknown",
            ),
            models.Index(
                fields=["due_at"],
                condition=models.Q(state=states.PENDING, waiting_on="runtime")
                & models.Q(due_at__isnull=False),
                name="standing_by_window_end",
            ),
            models.Index(
                fields=["operation"],
                condition=models.Q(waiting_on="sealing"),
                name="standing_waits_for_sealing",
            ),
            # Not for those who wait for the runtime or a lease: every claim would write here.
            models.Index(
                fields=["environment", "namespace", "waiting_on", "state", "operation"],
                condition=models.Q(waiting_on__in=states.WAITING_ON_OTHERS),
                name="standing_by_waiting_on",
            ),
            models.Index(
                fields=["environment", "namespace", "gate", "state", "operation"],
                condition=models.Q(gate__in=states.SHUT_GATES),
                name="standing_by_gate",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} {self.operation_id}"


class Waiter(models.Model):
    """Somebody is long-polling this operation: only then does the trigger send a NOTIFY."""

    operation = models.ForeignKey(Operation, models.CASCADE, db_constraint=False, db_index=False)
    process = models.TextField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "process"], name="waiter_is_unique_per_process"
            )
        ]

    def __str__(self) -> str:
        return f"{self.process} waits for {self.operation_id}"
