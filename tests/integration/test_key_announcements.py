"""A new signing key is announced to the person on every page until they answer."""

import pytest
from django.test import Client

from approvals import announcements
from approvals.errors import Refused
from approvals.models import ReviewerKey
from operations.models import Event
from tests.integration.test_signing_pages import signed_in
from tests.support import approving

pytestmark = pytest.mark.django_db

NOTICE = "A new key signs in your name"


def page(client: Client) -> str:
    return client.get("/me/").content.decode()


def test_every_page_says_so_until_the_person_recognises_it() -> None:
    someone = approving.person()
    client = signed_in(someone.user)
    assert NOTICE in page(client)
    assert NOTICE in page(client), "reading a notice is no answer"
    done = client.post("/me/keys/recognise/", {"key_id": someone.key.key_id})
    assert done.status_code == 302
    assert NOTICE not in page(client)
    told = Event.objects.get(type="key.recognised")
    assert (told.actor, told.data["key_id"]) == (f"user:{someone.user.id}", someone.key.key_id)


def test_a_second_answer_adds_nothing() -> None:
    someone = approving.person()
    announcements.recognise(someone.user, someone.key.key_id)
    announcements.recognise(someone.user, someone.key.key_id)
    assert Event.objects.filter(type="key.recognised").count() == 1


def test_nobody_answers_for_somebody_else() -> None:
    someone, other = approving.person(), approving.person()
    with pytest.raises(Refused):
        announcements.recognise(other.user, someone.key.key_id)
    url = "/me/keys/recognise/"
    assert signed_in(other.user).post(url, {"key_id": someone.key.key_id}).status_code == 404
    assert ReviewerKey.objects.get(id=someone.key.id).acknowledged_at is None
    assert signed_in(other.user).get(url).status_code == 405


def test_a_revoked_key_is_no_news() -> None:
    someone = approving.person()
    client = signed_in(someone.user)
    client.post("/me/keys/revoke/", {"key_id": someone.key.key_id, "reason": "lost"})
    assert NOTICE not in page(client)
