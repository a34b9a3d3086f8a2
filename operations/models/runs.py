from django.db import models
from django.db.models.functions import Now

from operations.ids import handle, uuid7
from operations.models.scoped import Scoped, environment_is_known

RUN_STATUSES = ("running", "finished", "failed", "abandoned")


class Run(Scoped):
    """One run of an agent. `waiting` is derived from its operations and never stored."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run_id = models.TextField(db_collation="C", help_text="The runtime's own name for the run.")
    agent = models.TextField(blank=True, default="")
    agent_version = models.TextField(null=True)
    prompt_version = models.TextField(null=True)
    code_version = models.TextField(null=True)
    trigger = models.TextField(db_collation="C", null=True)
    budget_max_steps = models.PositiveIntegerField(null=True)
    budget_max_spend_minor = models.BigIntegerField(null=True)
    budget_currency = models.TextField(null=True)
    status = models.TextField(default="running")
    runtime = models.UUIDField(null=True, help_text="ApiKey that first named the run.")
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["run_id", "environment", "namespace"], name="run_id_is_unique_in_namespace"
            ),
            models.UniqueConstraint(
                fields=["environment", "namespace", "trigger"],
                condition=models.Q(trigger__isnull=False),
                name="run_trigger_is_unique_in_namespace",
            ),
            models.CheckConstraint(
                condition=models.Q(status__in=RUN_STATUSES), name="run_status_is_known"
            ),
            environment_is_known("run"),
        ]
        indexes = [
            models.Index(fields=["environment", "namespace", "status", "id"], name="run_by_status"),
            # What a restarted agent asks first: which of my runs are unfinished?
            models.Index(
                fields=["environment", "namespace", "agent", "status", "id"], name="run_by_agent"
            ),
        ]

    def __str__(self) -> str:
        return self.run_id

    @property
    def handle(self) -> str:
        return handle("run", self.id)


class Step(models.Model):
    """What the model said at one step, so that a restarted agent need not ask it again."""

    run = models.ForeignKey(Run, models.PROTECT, related_name="steps")
    step = models.IntegerField()
    model_output = models.BinaryField(null=True, help_text="Exact JSON bytes.")
    responded_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "step"], name="step_is_unique_in_run")
        ]

    def __str__(self) -> str:
        return f"{self.run} step {self.step}"
