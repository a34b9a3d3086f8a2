"""Signing in: clear errors, a pause after too many, and never away from this site."""

import pytest
from django.core.cache import cache
from django.test import Client

from console import throttle
from tests.support import seed

pytestmark = pytest.mark.django_db
RIGHT = {"email": "reviewer@example.com", "password": seed.PASSWORD}


@pytest.fixture(autouse=True)
def reviewer() -> None:
    cache.clear()
    seed.people()


def post(form: dict[str, str]) -> tuple[int, str]:
    answer = Client().post("/login/", form)
    return answer.status_code, answer.content.decode()


def test_the_right_password_leads_to_the_first_steps_or_to_the_overview() -> None:
    for role, lands in (("reviewer", "/welcome/"), ("viewer", "/")):
        answer = Client().post("/login/", RIGHT | {"email": f"{role}@example.com"})
        assert (answer.status_code, answer["Location"]) == (302, lands)


def test_a_wrong_password_and_an_unknown_address_read_the_same() -> None:
    wrong = post(RIGHT | {"password": "another password"})
    unknown = post({"email": "nobody@example.com", "password": "another password"})
    assert wrong[0] == unknown[0] == 422
    for _, html in (wrong, unknown):
        assert "do not belong together" in html


def test_a_missing_field_is_named() -> None:
    status, html = post({"email": "", "password": ""})
    assert status == 422
    assert "Enter your e-mail address." in html
    assert "Enter your password." in html


def test_too_many_wrong_passwords_make_even_the_right_one_wait() -> None:
    for _ in range(throttle.MOST_PER_ACCOUNT):
        post(RIGHT | {"password": "another password"})
    status, html = post(RIGHT)
    assert status == 429
    assert "Too many wrong passwords" in html
    other = post({"email": "operator@example.com", "password": seed.PASSWORD})
    assert other[0] == 302


def test_the_pause_holds_where_the_cache_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(cache, "get", gone)
    monkeypatch.setattr(cache, "set", gone)
    throttle._own.clear()
    for _ in range(throttle.MOST_PER_ACCOUNT):
        post(RIGHT | {"password": "another password"})
    assert post(RIGHT)[0] == 429
    throttle._own.clear()


@pytest.mark.parametrize(
    ("wanted", "lands"),
    [
        ("/ops/?q=state:unknown", "/ops/?q=state:unknown"),
        ("https://evil.example/", "/welcome/"),
        ("//evil.example/", "/welcome/"),
        ("javascript:alert(1)", "/welcome/"),
        ("/\\evil.example", "/welcome/"),
    ],
)
def test_next_stays_on_this_site(wanted: str, lands: str) -> None:
    answer = Client().post("/login/", RIGHT | {"next": wanted})
    assert answer["Location"] == lands


def test_signing_out_ends_the_session() -> None:
    client = Client()
    client.post("/login/", RIGHT)
    assert client.get("/").status_code == 200
    assert client.post("/logout/").status_code == 302
    assert client.get("/").status_code == 302


def test_an_inactive_account_cannot_sign_in() -> None:
    from approvals.models import User

    User.objects.filter(email="reviewer@example.com").update(is_active=False)
    assert post(RIGHT)[0] == 422
