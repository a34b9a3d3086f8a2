"""The Celery app: it wakes the sweeps. Work is found in tables; tasks carry ids and hints only.

The schedule is static and lives here. Each entry names a task that looks for due work and does
nothing when there is none, so a beat that was down costs lateness and never loses anything.
"""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

# name of the entry: (task, seconds between two runs)
SWEEPS: dict[str, tuple[str, float]] = {
    "expire approvals": ("approvals.tasks.expire_due", 2.0),
    "wake reconcilers": ("reconcilers.tasks.wake", 1.0),
}

app = Celery("countersign")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.beat_schedule = {
    # An entry that waited longer than its own period is dropped: the next one is already there.
    name: {"task": task, "schedule": seconds, "options": {"expires": max(seconds * 5, 10.0)}}
    for name, (task, seconds) in SWEEPS.items()
}
app.autodiscover_tasks()
