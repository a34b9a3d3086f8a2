"""The pair every row of an agent belongs to: what is outside it does not exist for its key."""

from django.db import models

ENVIRONMENTS = ("live", "test")


class Scoped(models.Model):
    environment = models.TextField(db_collation="C")
    namespace = models.TextField(db_collation="C", default="default")

    class Meta:
        abstract = True


def environment_is_known(table: str) -> models.CheckConstraint:
    return models.CheckConstraint(
        condition=models.Q(environment__in=ENVIRONMENTS), name=f"{table}_environment_is_known"
    )
