"""The database's clock, which is the only one that decides."""

from datetime import datetime

from django.db import connection


def now() -> datetime:
    """Now, as Postgres has it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row = cursor.fetchone()
    moment: datetime = row[0]
    return moment
