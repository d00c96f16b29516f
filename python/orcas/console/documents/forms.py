"""Forms that stand for documents: tables of fields, each of which names the element that has its value.

A document is shown as a form only if the form, sent back unchanged by a browser, makes the same document. Any other one can
be edited as text alone, so a form never simplifies what it cannot express. What a document may say, the server decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from orcas.console.documents.trees import Tree, element, parse, parse_lines, render, render_lines

# What a flag has that is set.
ON: Final = "on"
# Groups of one form. A document with more is text.
GROUPS_MAX: Final = 100
_GROUP: Final = re.compile(r"rule\.([0-9]{1,4})\.([a-z_-]+)", re.ASCII)
_UNITS: Final = {"": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,19})\s*([kmgt]ib|)", re.ASCII | re.IGNORECASE)
_MIDNIGHT: Final = "T00:00:00.000Z"

Values = dict[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and the path of its element below the document or the group.

    `lines`: a text area, an element for each line; `pairs`: the same of KEY=VALUE; `size`: bytes, which may have a unit;
    `flag`: a check box, whose element says `says[0]` if it is set, and `says[1]`, if that is not empty, otherwise.
    """

    name: str
    path: str
    label: str
    kind: Literal["text", "number", "size", "date", "lines", "pairs", "flag", "choice"] = "text"
    choices: tuple[tuple[str, str], ...] = ()
    hint: str = ""
    says: tuple[str, str] = ("true", "false")


@dataclass
class Filled:
    """A form that is filled in: its own fields, and those of each group."""

    fixed: Values = field(default_factory=dict)
    rules: list[Values] = field(default_factory=list)


def _same(tree: Tree) -> Tree:
    return tree


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of document. `root`: its element; empty for header lines. `rules`: the path of a group that may be repeated.

    `plain` brings elements into the shape that the paths name, and `shaped` is its reverse. `always`: what a group has
    even if no field says anything of it.
    """

    root: str
    fixed: tuple[Field, ...] = ()
    rules: str = ""
    rule: tuple[Field, ...] = ()
    # What a group is called, as in "Add a rule".
    rule_name: str = "rule"
    new_rule: Mapping[str, str] = field(default_factory=dict)
    always: str = ""
    plain: Callable[[Tree], Tree] = _same
    shaped: Callable[[Tree], Tree] = _same

    def _tree(self, document: str) -> Tree:
        """The document in the shape of the paths.

        Raises:
            ValueError: it is none of this kind.
        """
        if not self.root:
            return parse_lines(document)
        tree = parse(document)
        if tree.name != self.root:
            raise ValueError(f"the document is no {self.root}")
        return self.plain(tree)

    def fill(self, document: str | None) -> Filled | None:
        """The document as a form; None if it can only be edited as text. Without a document, the form is empty."""
        try:
            tree = Tree(self.root) if document is None else self._tree(document)
            groups = tree.find(self.rules) if self.rules else []
            filled = Filled(_read(self.fixed, tree), [_read(self.rule, group) for group in groups])
            if document is None:
                return filled
            again = self.write(self.shown(filled))
            same = _ordered(self._tree(again or self.empty)) == _ordered(tree)
        except ValueError:
            return None
        return filled if same and len(groups) <= GROUPS_MAX else None

    @property
    def empty(self) -> str:
        """A document that says nothing."""
        return render(Tree(self.root)) if self.root else ""

    def write(self, filled: Filled) -> str | None:
        """The document that a form makes; None if it says nothing."""
        if not filled.rules and not any(filled.fixed.values()):
            return None
        tree = Tree(self.root)
        _write(self.fixed, filled.fixed, tree)
        for values in filled.rules:
            *above, last = self.rules.split("/")
            group = Tree(last)
            if self.always:
                group.children.append(Tree(self.always))
            _write(self.rule, values, group)
            tree.at(above).children.append(group)
        return render(self.shaped(tree)) if self.root else render_lines(tree)

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

    def columns(self, filled: Filled) -> list[Field]:
        """The fields of which some group says something, for a table of the groups."""
        return [each for each in self.rule if any(rule[each.name] for rule in filled.rules)]


def _read(fields: tuple[Field, ...], tree: Tree) -> Values:
    values = {}
    for each in fields:
        found = tree.find(each.path)
        texts = [child.text for child in found]
        if each.kind == "flag":
            values[each.name] = ON if each.says[0] in texts else ""
        elif each.kind == "pairs":
            values[each.name] = "\n".join(f"{child.value('Key')}={child.value('Value')}" for child in found)
        elif each.kind == "lines":
            # Check boxes of the same element have the others.
            said = {other.says[0] for other in fields if other.kind == "flag" and other.path == each.path}
            values[each.name] = "\n".join(text for text in texts if text not in said)
        else:
            text = texts[0] if texts else ""
            values[each.name] = text.removesuffix(_MIDNIGHT) if each.kind == "date" else text
    return values


def _write(fields: tuple[Field, ...], values: Values, tree: Tree) -> None:
    for each in fields:
        *above, last = each.path.split("/")
        written = _elements(each, last, values[each.name])
        if written:
            tree.at(above).children += written


def _elements(of: Field, name: str, value: str) -> list[Tree]:
    if of.kind == "flag":
        said = of.says[0] if value else of.says[1]
        return [Tree(name, said)] if said else []
    if of.kind == "lines":
        return [Tree(name, line) for line in _lines(value)]
    if of.kind == "pairs":
        pairs = [line.partition("=") for line in _lines(value)]
        return [element(name, element("Key", key), element("Value", text)) for key, _, text in pairs]
    if of.kind == "size" and (found := _SIZE.fullmatch(value.strip())):
        value = str(int(found[1]) * _UNITS[found[2].lower()])
    elif of.kind == "date" and value:
        value += _MIDNIGHT
    return [Tree(name, value)] if value else []


def _sent(of: Field, values: Values) -> str:
    value = values[of.name]
    if of.kind in ("lines", "pairs"):
        return value.replace("\r\n", "\n").replace("\r", "\n")
    if of.kind == "choice" and of.choices:
        return value if any(value == choice for choice, _ in of.choices) else ""
    # A browser removes line ends from a field of one line.
    return value.replace("\r", "").replace("\n", "")


def _typed(of: Field, value: str) -> str:
    if of.kind in ("lines", "pairs"):
        return value.replace("\r\n", "\n")
    if of.kind == "flag":
        return ON if value == ON else ""
    return value


def _lines(value: str) -> list[str]:
    return [line for line in value.split("\n") if line.strip()]


def _ordered(tree: Tree) -> Tree:
    """A tree whose children are in one order, where that means nothing: the order of groups counts, and is kept."""
    children = sorted((_ordered(child) for child in tree.children), key=lambda child: (child.name, child.text))
    return Tree(tree.name, tree.text, children)
