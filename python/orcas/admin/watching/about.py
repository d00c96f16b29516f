"""The parts that run: versions, the licences of all parts, and the settings with the source of each value. Secrets are
masked."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any, Final

from orcas.settings.config import SETTINGS, Settings, variable_name
from orcas.version import DISTRIBUTION

MASK: Final = "***"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA: Final = re.compile(r"""\bextra\s*==""")
_LICENCE: Final = "License :: OSI Approved :: "
# Characters of a licence: some packages put its whole text there.
_LICENCE_MAX: Final = 60
_UNKNOWN: Final = "not stated"


def settings_table(settings: Settings, sources: Mapping[str, str]) -> list[dict[str, Any]]:
    """All settings: name, variable, value, source and meaning. Unknown sources are the program."""
    rows = []
    defaults = {entry.name: entry.default for entry in dataclasses.fields(settings)}
    for name, setting in SETTINGS.items():
        value = getattr(settings, name)
        if setting.secret:
            value = None if value is None else MASK
        elif not isinstance(value, (bool, int, float, type(None))):
            value = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        rows.append(
            {
                "name": name, "variable": variable_name(name) if setting.variable else None, "value": value,
                "source": sources.get(name) or ("program" if getattr(settings, name) != defaults.get(name) else "default"),
                "unit": setting.unit or None,
                "meaning": setting.doc.replace("`", ""),
            }
        )  # fmt: skip
    return rows


@functools.cache
def parts() -> list[dict[str, str]]:
    """All parts of Orcas: kind (`python` or `rust`), name, version and licence. Reads files the first time."""
    return [*_packages(), *_crates()]


def _packages() -> list[dict[str, str]]:
    """Orcas and the packages that it needs, as far as they are installed."""
    found: dict[str, dict[str, str]] = {}
    waiting = [DISTRIBUTION]
    while waiting:
        name = waiting.pop()
        if _normal(name) in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[_normal(name)] = {
            "kind": "python",
            "name": package.name,
            "version": package.version,
            "licence": _licence(package),
        }
        for requirement in package.requires or ():
            needed = _NAME.match(requirement)
            if needed is not None and not _EXTRA.search(requirement):
                waiting.append(needed[0])
    return [found[name] for name in sorted(found)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _licence(package: Distribution) -> str:
    facts = package.metadata
    if expressions := facts.get_all("License-Expression"):
        return str(expressions[0])
    classes = [text.removeprefix(_LICENCE) for text in facts.get_all("Classifier") or () if text.startswith(_LICENCE)]
    text = ", ".join(classes) or "".join(facts.get_all("License") or ()).strip().partition("\n")[0]
    return text[:_LICENCE_MAX] or _UNKNOWN


def _crates() -> list[dict[str, str]]:
    """The crates in the extension, from the bill of materials of the wheel, if it has one."""
    try:
        files = distribution(DISTRIBUTION).files or ()
    except PackageNotFoundError:
        return []
    rows = []
    for path in files:
        if path.name.endswith(".cyclonedx.json") and path.parent.name == "sboms":
            for component in json.loads(path.read_text(encoding="utf-8")).get("components", ()):
                said = [entry.get("expression") or entry.get("license", {}).get("id") or ""
                        for entry in component.get("licenses", ())]  # fmt: skip
                licence = ", ".join(text for text in said if text) or _UNKNOWN
                rows.append(
                    {
                        "kind": "rust",
                        "name": component["name"],
                        "version": component.get("version", ""),
                        "licence": licence,
                    }
                )
    return sorted(rows, key=lambda row: row["name"])
