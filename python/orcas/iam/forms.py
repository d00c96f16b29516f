"""Parameters of AWS's query protocol: a form, or a query, whose names say where in a structure each value is. Pure."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import parse_qsl

# Values of one request, and parts of a name.
_FIELDS_MAX: Final = 2_000
_DEPTH_MAX: Final = 8
_NAME: Final = re.compile(r"[A-Za-z0-9]+(\.[A-Za-z0-9]+)*", re.ASCII)
_INDEX: Final = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)


def parse_form(body: bytes) -> dict[str, Any]:
    """The parameters: texts, lists (`Name.member.1`) and structures (`Name.Part`).

    Raises:
        ValueError: it is no such form.
    """
    if not body:
        return {}
    pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=_FIELDS_MAX)
    tree: dict[str, Any] = {}
    for name, value in pairs:
        parts = name.split(".")
        if not _NAME.fullmatch(name) or len(parts) > _DEPTH_MAX:
            raise ValueError("a name of a parameter is malformed")
        node = tree
        for part in parts[:-1]:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise ValueError("a parameter is both a value and a structure")
        if parts[-1] in node:
            raise ValueError("a parameter occurs twice")
        node[parts[-1]] = value
    return {name: _built(value) for name, value in tree.items()}


def _built(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if set(node) != {"member"} or not isinstance(node["member"], dict):
        return {name: _built(value) for name, value in node.items()}
    members = node["member"]
    if not all(_INDEX.fullmatch(index) for index in members):
        raise ValueError("a list has members without numbers")
    return [_built(members[index]) for index in sorted(members, key=int)]
