"""Columns, named constraints, and nothing else: what happens to the rows is in the services."""

from operations.models.access import ApiKey
from operations.models.attempts import Attempt
from operations.models.catalogue import CatalogueVersion, Tool
from operations.models.events import Event, SealedEvent, SequencerState
from operations.models.incidents import Incident
from operations.models.intents import Operation, Standing, Waiter
from operations.models.ledger import Checkpoint, LedgerNode, Log
from operations.models.payloads import Payload
from operations.models.reports import InboxItem, Record
from operations.models.runs import Run, Step

__all__ = [
    "ApiKey",
    "Attempt",
    "CatalogueVersion",
    "Checkpoint",
    "Event",
    "InboxItem",
    "Incident",
    "LedgerNode",
    "Log",
    "Operation",
    "Payload",
    "Record",
    "Run",
    "SealedEvent",
    "SequencerState",
    "Standing",
    "Step",
    "Tool",
    "Waiter",
]
