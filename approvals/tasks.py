"""Celery's hints. The tables are the truth: a task that is lost or run twice changes nothing."""

from celery import shared_task

from approvals import expiry


@shared_task
def expire_due() -> dict[str, int]:
    """End approval requests whose time is over."""
    return expiry.expire_due()
