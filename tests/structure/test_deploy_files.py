"""The deployment's files say what the design promises, and name only what exists."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PRODUCT = ("migrate", "web", "worker", "beat", "sequencer")
ENV_EXAMPLE = (ROOT / ".env.example").read_text()
KNOWN = set(re.findall(r"^#?([A-Z][A-Z0-9_]+)=", ENV_EXAMPLE, re.M))


def dockerfile() -> list[tuple[str, str]]:
    """Instructions as (word, rest), continuation lines joined."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [
        (line.split(None, 1)[0], line.split(None, 1)[1])
        for line in lines
        if line and not line.startswith("#")
    ]


def test_compose_has_every_part_of_the_product():
    assert set(SERVICES) == {"postgres", "redis", *PRODUCT}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_container_is_read_only_unprivileged_and_not_root(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service["user"].startswith("0")


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"migrate"}))
def test_a_lasting_container_has_a_health_check_and_comes_back(name):
    assert SERVICES[name]["healthcheck"]["test"]
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", sorted(set(PRODUCT) - {"migrate"}))
def test_a_process_starts_after_the_one_shot_migration(name):
    wanted = SERVICES[name]["depends_on"]["migrate"]
    assert wanted == {"condition": "service_completed_successfully"}
    assert SERVICES["migrate"]["restart"] == "no"


def test_redis_keeps_what_it_is_given():
    command = SERVICES["redis"]["command"]
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_the_worker_takes_every_queue():
    assert "--queues=reconcile,notify,default" in SERVICES["worker"]["command"]


def test_compose_holds_no_secret():
    secret = re.compile(r"PASSWORD|SECRET|KEYRING|PASSPHRASE|_URL|_AUTH")
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if secret.search(name):
                assert re.search(r"\$\{[A-Z_]+(:\?[^}]*|:-)\}", value), f"{name} is written out"


def test_every_variable_of_compose_is_explained():
    used = set(re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text()))
    assert used <= KNOWN


def test_every_variable_the_settings_read_is_explained_and_the_reverse():
    tree = ast.parse((ROOT / "console" / "settings.py").read_text())
    read = {
        str(call.args[0].value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "env"
        and call.args
        and isinstance(call.args[0], ast.Constant)
    }
    runner = {"DATA_DIR", "COUNTERSIGN_BIND", "WEB_CONCURRENCY", "WORKER_CONCURRENCY"}
    compose = {"POSTGRES_PASSWORD", "REDIS_PASSWORD", "COUNTERSIGN_VERSION"}
    demo = {"COUNTERSIGN_PROVIDER_URL"}
    assert read <= KNOWN
    assert read | runner | compose | demo == KNOWN


def test_commands_name_modules_that_exist():
    for service in SERVICES.values():
        command = service.get("command", [])
        for word in command if isinstance(command, list) else []:
            if named := re.fullmatch(r"(?:--app=)?(console\.[a-z.]+)(?::\w+)?", word):
                assert find_spec(named.group(1))


def test_the_image_ends_as_an_unprivileged_user_and_bakes_nothing_secret_in():
    instructions = dockerfile()
    users = [rest for word, rest in instructions if word == "USER"]
    assert users[-1].split(":")[0] not in {"0", "root"}
    written = " ".join(rest for word, rest in instructions if word in {"ENV", "ARG"})
    assert not re.search(r"PASSWORD|SECRET|KEYRING|_URL", written)
    assert "COUNTERSIGN_MODE=production" in written


def test_the_image_copies_only_what_the_build_context_lets_through():
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line.startswith("!")
    }
    for word, rest in dockerfile():
        if word == "COPY" and not rest.startswith("--from"):
            assert rest.split()[0] in allowed
            assert (ROOT / rest.split()[0]).exists()


def test_the_images_lock_is_a_part_of_the_whole_lock():
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^[a-z0-9-]+==\S+", (ROOT / name).read_text(), re.M | re.I))

    runtime, whole = pins("requirements-runtime.lock"), pins("requirements.lock")
    assert runtime < whole
    assert not {pin for pin in runtime if pin.startswith(("pytest", "playwright", "embedded-"))}
