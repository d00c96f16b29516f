"""Forms that stand for documents: fields, groups of fields that may be repeated, and what somebody typed into them.

A document is shown as a form only if the form, sent back unchanged by a browser, makes the same document. Any other one can
be edited as text alone, so a form never simplifies what it cannot express.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from orcas.console.documents.trees import Tree, parse, render

# What a flag has that is set.
ON: Final = "on"
# Groups of one form. A document with more is text.
GROUPS_MAX: Final = 100
_GROUP: Final = re.compile(r"rule\.([0-9]{1,4})\.([a-z_-]+)", re.ASCII)
_UNITS: Final = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,19})\s*([kmgt]ib|)", re.ASCII | re.IGNORECASE)
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)

Values = dict[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """A field. `lines`: a text area, one value a line; `flag`: a check box; `choice`: values and what they are called."""

    name: str
    label: str
    kind: Literal["text", "number", "date", "lines", "flag", "choice"] = "text"
    choices: tuple[tuple[str, str], ...] = ()
    hint: str = ""


@dataclass
class Filled:
    """A form that is filled in: its own fields, and those of each group."""

    fixed: Values = field(default_factory=dict)
    rules: list[Values] = field(default_factory=list)


class FieldError(ValueError):
    """A field has no valid value. `group` is its place among the groups, from 0."""

    def __init__(self, name: str, message: str, group: int | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.group = group


class InexpressibleError(ValueError):
    """The form has no fields for what a document says."""


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of document.

    `read` fills the form, and raises InexpressibleError for what it has no fields for; `write` is its reverse, and gives
    None for a form that says nothing. `normal` makes documents equal that mean the same.
    """

    fixed: tuple[Field, ...]
    read: Callable[[str], Filled]
    write: Callable[[Filled], str | None]
    rule: tuple[Field, ...] = ()
    # What a group is called, as in "Add a rule".
    rule_name: str = ""
    new_rule: Mapping[str, str] = field(default_factory=dict)
    normal: Callable[[str], object] = str

    def fill(self, document: str | None) -> Filled | None:
        """The document as a form; None if it can only be edited as text. Without a document, the form is empty."""
        try:
            filled = self._whole(self.read(document or ""))
            if document is None:
                return filled
            again = self.write(self.shown(filled))
            same = again is not None and self.normal(again) == self.normal(document)
        except ValueError:
            return None
        return filled if same and len(filled.rules) <= GROUPS_MAX else None

    def _whole(self, filled: Filled) -> Filled:
        """With all fields, those that the document says nothing about as well."""
        fixed = {each.name: filled.fixed.get(each.name, "") for each in self.fixed} | filled.fixed
        return Filled(fixed, [{each.name: rule.get(each.name, "") for each in self.rule} for rule in filled.rules])

    def shown(self, filled: Filled) -> Filled:
        """What a browser sends if nobody changes the form."""
        return Filled(
            {each.name: _sent(each, filled.fixed) for each in self.fixed},
            [{each.name: _sent(each, rule) for each in self.rule} for rule in filled.rules],
        )

    def take(self, posted: Mapping[str, str]) -> Filled:
        """What a browser has sent: `fixed.NAME` and `rule.0.NAME`. Fields that the form does not have are left out."""
        filled = Filled({each.name: _typed(each, posted.get(f"fixed.{each.name}", "")) for each in self.fixed})
        places = {int(found[1]) for name in posted if (found := _GROUP.fullmatch(name))}
        for place in sorted(places)[:GROUPS_MAX]:
            filled.rules.append(
                {each.name: _typed(each, posted.get(f"rule.{place}.{each.name}", "")) for each in self.rule}
            )
        return filled


def xml_form(
    root: str,
    read: Callable[[Tree], Filled],
    write: Callable[[Filled], Tree | None],
    fixed: tuple[Field, ...] = (),
    rule: tuple[Field, ...] = (),
    *,
    rule_name: str = "rule",
    new_rule: Mapping[str, str] | None = None,
    normal: Callable[[Tree], Tree] = lambda tree: tree,
) -> Form:
    """A form of an XML document with this root."""

    def read_text(text: str) -> Filled:
        tree = parse(text) if text else Tree(root)
        if tree.name != root:
            raise InexpressibleError(f"the document is no {root}")
        return read(tree)

    def write_text(filled: Filled) -> str | None:
        tree = write(filled)
        return None if tree is None else render(tree)

    def normal_text(text: str) -> Tree:
        return normal(parse(text))

    return Form(fixed, read_text, write_text, rule, rule_name, new_rule or {}, normal_text)


def _sent(of: Field, values: Values) -> str:
    value = values.get(of.name, "")
    if of.kind == "lines":
        return value.replace("\r\n", "\n").replace("\r", "\n")
    if of.kind == "choice":
        return value if any(value == choice for choice, _ in of.choices) else ""
    # A browser removes line ends from a field of one line.
    return value.replace("\r", "").replace("\n", "")


def _typed(of: Field, value: str) -> str:
    if of.kind == "lines":
        return value.replace("\r\n", "\n")
    if of.kind == "flag":
        return ON if value == ON else ""
    return value


def lines(value: str) -> list[str]:
    """The values of a field of the kind `lines`; empty lines mean nothing."""
    return [line for line in value.split("\n") if line.strip()]


def pairs(values: Values, name: str, group: int | None = None) -> list[tuple[str, str]]:
    """The lines of a field as keys and values.

    Raises:
        FieldError: a line has another form than KEY=VALUE.
    """
    found = []
    for line in lines(values.get(name, "")):
        key, equals, value = line.partition("=")
        if not equals or not key:
            raise FieldError(name, f"Write each tag as KEY=VALUE on a line of its own, not {line!r}.", group)
        found.append((key, value))
    return found


def number(values: Values, name: str, group: int | None = None, *, low: int = 0) -> int | None:
    """A whole number; None if the field is empty.

    Raises:
        FieldError: it is none, or lower than `low`.
    """
    text = values.get(name, "").strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text) or int(text) < low:
        raise FieldError(name, f"Write a whole number from {low}, not {text!r}.", group)
    return int(text)


def size(values: Values, name: str, group: int | None = None) -> int | None:
    """A number of bytes, which may have a unit such as MiB; None if the field is empty.

    Raises:
        FieldError: it is none.
    """
    text = values.get(name, "").strip()
    if not text:
        return None
    found = _SIZE.fullmatch(text)
    if found is None:
        raise FieldError(name, f"Write a number of bytes, or one with KiB, MiB, GiB or TiB, not {text!r}.", group)
    return int(found[1]) * _UNITS[found[2].lower()]


def only(tree: Tree, *names: str) -> None:
    """Raise InexpressibleError if an element has other children."""
    for child in tree.children:
        if child.name not in names:
            raise InexpressibleError(f"the form has no field for {child.name}")
