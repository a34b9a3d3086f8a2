"""What each kind of incident means, and what somebody should do about it."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class IncidentWords:
    """`severe` incidents mean that an effect may be wrong or doubled."""

    title: str
    means: str
    do: str
    severe: bool = False


INCIDENTS: Final[dict[str, IncidentWords]] = {
    "args_conflict": IncidentWords(
        "Same key, other arguments",
        "A runtime came back with a known key and different arguments. Nothing was overwritten "
        "and the second call was refused.",
        "Compare the two in the agent's own log: a key must come from the run and step, never "
        "from the model's words.",
    ),
    "duplicate_effect": IncidentWords(
        "The effect took place twice",
        "Two attempts, or two objects at the provider, carry this one key.",
        "Say which one stands, and compensate the others.",
        severe=True,
    ),
    "late_effect": IncidentWords(
        "An effect arrived late",
        "It was taken for absent, refused or failed, and evidence now shows that it happened.",
        "Check whether the run has gone on as if it had not; compensate if need be.",
        severe=True,
    ),
    "effect_mismatch": IncidentWords(
        "The effect is not what was asked for",
        "The provider's object has another amount, currency or content than the call.",
        "Compare both on the operation's page before anything is settled.",
        severe=True,
    ),
    "executed_without_approval": IncidentWords(
        "Executed without approval",
        "A gated call was carried out although nobody had approved it.",
        "Find the runtime that sent it and revoke its key until it asks first.",
        severe=True,
    ),
    "executed_after_denial": IncidentWords(
        "Executed after a denial",
        "The call was carried out although it had been denied, had expired or was revoked.",
        "Treat it as an intrusion until the runtime is understood.",
        severe=True,
    ),
    "replayed_too_often": IncidentWords(
        "Answered from the store too often",
        "The same key and arguments were asked for again and again, and the recorded result was "
        "given each time.",
        "See whether the agent is stuck, or mints the same call id for new work: then nothing new "
        "is done.",
    ),
    "permanent_failure": IncidentWords(
        "Failed for good",
        "The provider or the runtime says that this call can never succeed.",
        "Read the error, mend the cause, and let the agent plan anew.",
    ),
    "attempts_exhausted": IncidentWords(
        "All attempts used up",
        "The call failed as often as its tool allows.",
        "Look for an outage, then let the agent make a new call.",
    ),
    "goal_exhausted": IncidentWords(
        "The goal failed too often",
        "The agent kept trying the same goal with new calls.",
        "Decide whether the goal is still wanted before the agent goes on.",
    ),
    "budget_exceeded": IncidentWords(
        "The run's budget is used up",
        "A call would have passed the run's limit of steps or spending; it was refused.",
        "Check what the run has spent, then start another with a budget that fits.",
    ),
    "version_changed": IncidentWords(
        "The agent changed inside a run",
        "Agent, prompt or code have another version than the run began with.",
        "Finish running runs before you deploy, or accept that their replays may differ.",
    ),
    "possible_duplicate": IncidentWords(
        "Perhaps twice",
        "It is committed, and an earlier attempt is still in doubt.",
        "The provider is asked again; look at its answer before closing this.",
        severe=True,
    ),
    "record_id_reused": IncidentWords(
        "A record id was used twice",
        "A runtime sent two different records under one id; both are kept.",
        "Mend the sender: ids of records must be unique in its namespace.",
    ),
}


def words_for(kind: str) -> IncidentWords:
    """The kind in words; an unknown kind is shown by its own name."""
    return INCIDENTS.get(kind, IncidentWords(kind.replace("_", " ").capitalize(), "", ""))
