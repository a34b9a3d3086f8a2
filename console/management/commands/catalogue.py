"""`manage.py catalogue apply|diff|export`: tools and policies as one YAML file, versioned."""

import getpass
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from approvals import policies, reconsider
from approvals.errors import Refused
from operations import catalogue_files
from operations.catalogue_files import InvalidCatalogue

SECTIONS = ("tools", "policies")


class Command(BaseCommand):
    """A section that the file has replaces that section whole; one it lacks is left as it is."""

    help = "Publish tools and policies from a file, or write out the published ones."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the verbs."""
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb, meaning in (
            ("apply", "publish FILE as a new version and print what changed"),
            ("diff", "print what apply would change"),
        ):
            one = verbs.add_parser(verb, help=meaning)
            one.add_argument("file", help="a YAML file, or - for standard input")
        verbs.add_parser("export", help="print the published catalogue")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do one verb."""
        if options["verb"] == "export":
            self.stdout.write(_as_yaml(_published()), ending="")
            return
        document = _read(options["file"])
        try:
            with transaction.atomic():
                lines = self._publish(document, only_show=options["verb"] == "diff")
        except (InvalidCatalogue, Refused) as error:
            raise CommandError(f"{error} Nothing was published.") from None
        for line in lines:
            self.stdout.write(line)
        if options["verb"] == "apply":
            # Each open approval in a transaction of its own; what is missed here meets the new
            # rule when it is decided or claimed.
            asked_again = reconsider.all_open(actor=_actor())
            if asked_again:
                self.stdout.write(f"{asked_again} open approvals are asked again under new rules.")

    def _publish(self, document: dict[str, Any], *, only_show: bool) -> list[str]:
        tools = catalogue_files.read_tools(document["tools"]) if "tools" in document else None
        lines = catalogue_files.diff(tools) if tools is not None else []
        if "policies" in document:
            lines += policies.diff(document["policies"])
        if not lines or only_show:
            return lines or ["Nothing changed; nothing was published."]
        actor = _actor()
        version = catalogue_files.publish_version(_published() | document, actor)
        if tools is not None:
            catalogue_files.apply(tools, version)
        if "policies" in document:
            policies.apply(document["policies"], version, actor)
        return [*lines, f"Published as catalogue version {version}."]


def _actor() -> str:
    return f"shell:{getpass.getuser()}"


def _published() -> dict[str, Any]:
    return {"tools": catalogue_files.export(), "policies": policies.export()}


def _read(name: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        document = yaml.load(text, Loader=_Strict)  # noqa: S506  # a SafeLoader, made stricter
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} is not YAML: {error}. Nothing was published.") from None
    if not isinstance(document, dict) or not document:
        raise CommandError(f"{name} must be a mapping of {' and '.join(SECTIONS)}.")
    for section in document:
        if section not in SECTIONS:
            raise CommandError(f"{section}: is not known. Sections: {', '.join(SECTIONS)}.")
    return document


class _Strict(yaml.SafeLoader):
    """YAML keeps the last of two equal members; here the second is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key} is written twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _as_yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
