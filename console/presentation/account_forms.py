"""A provider's schema as a form: what stands in it, and what somebody typed as a configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from reconcilers.providers.base import BadConfig, ConfigField

#: Prefix of the form's members, so that no field of a provider's is taken for one of ours.
PREFIX: Final = "field-"
_LONGEST: Final = 20_000
_PARSED: Final = (dict, list)
_ALIASES: Final = (yaml.AliasEvent,)


@dataclass(frozen=True, kw_only=True)
class FormField:
    """One line of the form. `kind`: text, number, secret, long, choice or yes_no.

    `masked` shows that a secret is there, `again` that one was typed and is gone; `value` is
    never one.
    """

    name: str
    label: str
    help: str
    kind: str
    required: bool
    value: str = ""
    masked: str = ""
    again: bool = False
    choices: tuple[str, ...] = ()
    problem: str = ""

    @property
    def html_id(self) -> str:
        return f"{PREFIX}{self.name}"


def fields_of(
    schema: tuple[ConfigField, ...],
    *,
    config: Mapping[str, Any],
    masked: Mapping[str, str],
    typed: Mapping[str, str] | None = None,
    problem: str = "",
) -> list[FormField]:
    """The form as it is shown first (from `config`), or again (from what was `typed`)."""
    about, _, says = problem.partition(": ")
    return [
        FormField(
            name=field.name,
            label=field.name.replace("_", " "),
            help=field.help,
            kind=_kind(field),
            required=_is_needed(field, masked, typed),
            value=_value(field, config, typed),
            masked=masked.get(field.name, "") if field.secret else "",
            again=_was_typed(field, typed),
            choices=_choices(field),
            problem=says if about == field.name else "",
        )
        for field in schema
    ]


def document_of(schema: tuple[ConfigField, ...], typed: Mapping[str, str]) -> dict[str, Any]:
    """The configuration that was typed; raises BadConfig with the field, and never the value."""
    document: dict[str, Any] = {}
    for field in schema:
        text = typed.get(f"{PREFIX}{field.name}", "")
        if not field.long and not field.secret:
            text = text.strip()
        if not text:
            continue
        if len(text) > _LONGEST:
            raise BadConfig(f"{field.name}: expected at most {_LONGEST} characters")
        document[field.name] = _read(field, text)
    return document


def changes_of(schema: tuple[ConfigField, ...], typed: Mapping[str, str]) -> dict[str, Any]:
    """What was typed over a configuration: None takes a member away.

    A secret that is left empty stays, unless it is to be forgotten; so does whose account it is.
    """
    given = document_of(schema, typed)
    changes: dict[str, Any] = {}
    for field in schema:
        stays = field.secret or field.name == "account"
        forgotten = field.secret and f"forget-{field.name}" in typed
        if field.name in given or forgotten or not stays:
            changes[field.name] = given.get(field.name)
    return changes


def _read(field: ConfigField, text: str) -> Any:
    try:
        if field.type is bool:
            return {"yes": True, "no": False}[text]
        if field.type is int:
            return int(text)
        if field.type is float:
            return float(text)
        if field.type in _PARSED:
            if any(isinstance(event, _ALIASES) for event in yaml.parse(text, yaml.SafeLoader)):
                raise BadConfig(f"{field.name}: expected no aliases")
            return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise BadConfig(f"{field.name}: expected YAML{where}") from None
    except BadConfig:
        raise
    except (ValueError, KeyError):
        raise BadConfig(f"{field.name}: expected {_EXPECTED[field.type]}") from None
    return text.replace("\r\n", "\n")


_EXPECTED: Final = {bool: "yes or no", int: "a whole number", float: "a number"}


def _was_typed(field: ConfigField, typed: Mapping[str, str] | None) -> bool:
    return field.secret and bool(typed and typed.get(f"{PREFIX}{field.name}"))


def _is_needed(
    field: ConfigField, masked: Mapping[str, str], typed: Mapping[str, str] | None
) -> bool:
    """A secret that was typed into a form that is shown again must not be lost in silence."""
    if field.secret and masked.get(field.name):
        return _was_typed(field, typed)
    return field.required or _was_typed(field, typed)


def _kind(field: ConfigField) -> str:
    if field.secret:
        return "secret"
    if field.choices:
        return "choice"
    if field.type is bool:
        return "yes_no"
    if field.type in {int, float}:
        return "number"
    return "long" if field.long or field.type in _PARSED else "text"


def _choices(field: ConfigField) -> tuple[str, ...]:
    return ("yes", "no") if field.type is bool else field.choices


def _value(field: ConfigField, config: Mapping[str, Any], typed: Mapping[str, str] | None) -> str:
    if field.secret:
        return ""
    if typed is not None:
        return typed.get(f"{PREFIX}{field.name}", "")
    value = config.get(field.name, field.default)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, _PARSED):
        return yaml.safe_dump(value, default_flow_style=None, sort_keys=False).strip()
    return str(value)
