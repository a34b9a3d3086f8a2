"""The signed-in person, typed."""

from django.http import HttpRequest

from approvals.models import User


def person(request: HttpRequest) -> User:
    """Every page but the login is for somebody who has signed in; the middleware sees to it."""
    if not isinstance(request.user, User):
        raise TypeError("this page is not for anonymous visitors")
    return request.user
