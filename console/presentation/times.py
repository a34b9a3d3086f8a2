"""Instants and spans as people read them: in the viewer's zone, with its offset and an age."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


@dataclass(frozen=True)
class Instant:
    """One moment, ready to print. `machine` is UTC for the `datetime` attribute."""

    machine: str
    day: str
    clock: str
    zone: str
    utc: str
    age: str
    today: bool

    @property
    def full(self) -> str:
        """`2026-11-30 14:02:07 CET (+01:00)`."""
        return f"{self.day} {self.clock} {self.zone}"

    @property
    def short(self) -> str:
        """`14:02:07 CET`, with the day where it is not today's."""
        zone = self.zone.partition(" ")[0]
        return f"{self.clock} {zone}" if self.today else f"{self.day} {self.clock} {zone}"


def zone_of(name: str) -> tzinfo:
    """The zone by its IANA name; UTC when there is no such zone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def instant(moment: datetime, zone: tzinfo, *, now: datetime) -> Instant:
    """Say when it was (or will be), in the zone, and how long ago."""
    local = moment.astimezone(zone)
    in_utc = moment.astimezone(UTC)
    return Instant(
        machine=in_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        day=local.strftime("%Y-%m-%d"),
        clock=local.strftime("%H:%M:%S"),
        zone=_zone_label(local),
        utc=in_utc.strftime("%Y-%m-%d %H:%M:%S UTC"),
        age=age(moment, now=now),
        today=local.date() == now.astimezone(zone).date(),
    )


def _zone_label(local: datetime) -> str:
    offset = local.strftime("%z")
    name = local.tzname() or ""
    if name == "UTC":
        return "UTC"
    spelled = f"{offset[:3]}:{offset[3:]}"
    return f"{name} ({spelled})" if name and name[0].isalpha() else spelled


def age(moment: datetime, *, now: datetime) -> str:
    """`6 min ago`, `in 19 min`; `just now` within five seconds."""
    gap = now - moment
    if abs(gap) < timedelta(seconds=5):
        return "just now"
    words = span(abs(gap))
    return f"{words} ago" if gap > timedelta(0) else f"in {words}"


def span(length: timedelta) -> str:
    """A length of time in its largest unit, the next one too where it matters."""
    seconds = int(length.total_seconds())
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 10 and seconds:
        return f"{minutes} min {seconds} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours and days < 7 else f"{days} d"


def short_span(length: timedelta) -> str:
    """The same in one unit, for narrow columns: `42 min`, `3 h`, `2 d`."""
    return " ".join(span(length).split(" ")[:2])
