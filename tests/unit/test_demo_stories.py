"""The demo's stories: the same seed tells the same, everything is told once, and soon."""

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from countersign import canonicalize, derive_key
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from approvals import rules
from crashlab.demo_agents import legacy, reviewer
from crashlab.demo_agents.agent import _OVERTURE_SECONDS
from crashlab.demo_agents.mishaps import AT_PROVIDER
from crashlab.demo_agents.stories import REPERTOIRE, Story, story_of

CATALOGUE = Path(__file__).resolve().parents[2] / "docs" / "demo-catalogue.yaml"
DEATHS = {"killed_before_send", "killed_after_effect", "sent_twice"}


def overture(agent: str, seed: int = 7) -> list[Story]:
    return [story_of(agent, number, seed) for number in range(len(REPERTOIRE[agent][0]))]


@pytest.mark.parametrize("agent", REPERTOIRE)
def test_a_seed_tells_the_same_story_again(agent: str) -> None:
    assert [story_of(agent, n, 7) for n in range(40)] == [story_of(agent, n, 7) for n in range(40)]
    if REPERTOIRE[agent][0]:
        assert overture(agent, 7) != overture(agent, 8)


@pytest.mark.parametrize("agent", REPERTOIRE)
def test_every_call_can_be_claimed(agent: str) -> None:
    for number in range(60):
        story = story_of(agent, number, 7)
        for step, call in enumerate(story.steps, 1):
            canonicalize(call.args)
            canonicalize(call.said(step))
            assert call.mishap is None or call.mishap in AT_PROVIDER.keys() | DEATHS
            assert derive_key(story.run_id, step, f"call_{step}")


def test_all_is_seen_within_two_minutes() -> None:
    for agent in REPERTOIRE:
        assert len(overture(agent)) * _OVERTURE_SECONDS <= 90
    told = {story.name for agent in REPERTOIRE for story in overture(agent)}
    assert told >= {
        "killed_after_effect",
        "redeployed",
        "timeout_after_success",
        "lost_response",
        "duplicate_trigger",
        "reworded",
        "needs_a_person",
        "robot_denies",
        "nobody_decides",
        "over_budget",
    }


def test_only_the_doubled_trigger_is_doubled() -> None:
    triggers = [story_of("renewals", number, 7).trigger for number in range(40)]
    assert len(triggers) - len(set(triggers)) == 1


def test_the_catalogue_knows_every_tool_and_its_policies_are_sound() -> None:
    document: Any = yaml.safe_load(CATALOGUE.read_text())
    known = {tool["name"] for tool in document["tools"]}
    told = {
        call.tool
        for agent in REPERTOIRE
        for number in range(60)
        for call in story_of(agent, number, 7).steps
    }
    assert told <= known
    assert len(rules.read_all(document["policies"])) == len(document["policies"])


def test_an_older_runtime_reports_every_ending() -> None:
    records = [record for number in range(9) for record in legacy.batch_of(number, 7)]
    assert {record["type"] for record in records} >= {
        "RUN_STARTED",
        "TOOL_INVOKED",
        "TOOL_COMMITTED",
        "TOOL_FAILED",
        "RUN_FINISHED",
    }
    assert any(record.get("tool_call_id") == "" for record in records)
    assert any("args_raw" in record for record in records)


def test_the_robots_signature_is_one_that_ssh_keygen_accepts(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    line = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    message = base64.b64encode(b"exactly these bytes")
    (tmp_path / "allowed").write_text(f"robot@example.com {line.decode()}\n")
    (tmp_path / "sig").write_text(reviewer.sshsig(key, message))
    identity = ["-I", "robot@example.com", "-n", "decision.v1@countersign"]
    files = ["-f", str(tmp_path / "allowed"), "-s", str(tmp_path / "sig")]
    done = subprocess.run(
        ["ssh-keygen", "-Y", "verify", *identity, *files],
        input=message,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
