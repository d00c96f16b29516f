"""XML documents and header lines as trees: read strictly, compared, and written with line breaks for people to read.

Namespaces are left out: the documents of S3 have one. White space between elements means nothing, within a value it counts.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
_DEPTH_MAX: Final = 16
_REFERENCES: Final = {"\r": "&#13;", "\t": "&#9;"}


@dataclass
class Tree:
    """An element: a value, or children."""

    name: str
    text: str = ""
    children: list[Tree] = field(default_factory=list)

    def get(self, name: str) -> Tree | None:
        """The first child of this name."""
        return next((child for child in self.children if child.name == name), None)

    def all(self, name: str) -> list[Tree]:
        """The children of this name."""
        return [child for child in self.children if child.name == name]

    def value(self, *path: str) -> str:
        """The text at the end of a path; empty if there is no such element."""
        found: Tree | None = self
        for name in path:
            found = None if found is None else found.get(name)
        return "" if found is None else found.text

    def find(self, path: str) -> list[Tree]:
        """The elements at the end of a path, such as `Rule/Filter`, all of each name."""
        found = [self]
        for name in path.split("/"):
            found = [child for each in found for child in each.all(name)]
        return found

    def at(self, names: list[str]) -> Tree:
        """The element below these names; those that are missing are added."""
        tree = self
        for name in names:
            if (found := tree.get(name)) is None:
                found = Tree(name)
                tree.children.append(found)
            tree = found
        return tree


def parse(text: str | bytes) -> Tree:
    """The root of a document.

    Raises:
        ValueError: it is no XML, or has a document type, which no document of S3 has.
    """
    if b"<!DOCTYPE" in (text.encode() if isinstance(text, str) else text):
        raise ValueError("the document has a document type")
    try:
        root = ET.fromstring(text)  # noqa: S314 - without a document type there are no entities
    except ET.ParseError as error:
        raise ValueError(str(error)) from None
    return _tree(root, 0)


def _tree(element: ET.Element, depth: int) -> Tree:
    if depth > _DEPTH_MAX:
        raise ValueError("the elements of the document are nested too deeply")
    children = [_tree(child, depth + 1) for child in element]
    return Tree(element.tag.rpartition("}")[2], "" if children else element.text or "", children)


def element(name: str, *content: Tree | str) -> Tree:
    """An element of these children, or of one text."""
    if len(content) == 1 and isinstance(content[0], str):
        return Tree(name, content[0])
    return Tree(name, "", [child for child in content if isinstance(child, Tree)])


def parse_lines(text: str) -> Tree:
    """Lines of NAME: VALUE as an element without a name.

    Raises:
        ValueError: a line is none.
    """
    tree = Tree("")
    for line in filter(str.strip, text.split("\n")):
        name, colon, value = line.partition(":")
        if not colon or not (line.isascii() and line.strip().isprintable()):
            raise ValueError(f"Write each setting as NAME: VALUE on a line of its own, not {line.strip()!r}.")
        tree.children.append(Tree(name.strip().lower(), value.strip()))
    return tree


def render_lines(tree: Tree) -> str:
    """The reverse."""
    return "".join(f"{child.name}: {child.text}\n" for child in tree.children)


def render(root: Tree) -> str:
    """The document with line breaks. `parse` gives the same tree again."""
    return "".join(f"{line}\n" for line in _lines(root, 0))


def _lines(tree: Tree, depth: int) -> Iterator[str]:
    pad = "  " * depth
    opening = f'{tree.name} xmlns="{NAMESPACE}"' if depth == 0 else tree.name
    if tree.children:
        yield f"{pad}<{opening}>"
        for child in tree.children:
            yield from _lines(child, depth + 1)
        yield f"{pad}</{tree.name}>"
    elif tree.text:
        yield f"{pad}<{opening}>{escape(tree.text, _REFERENCES)}</{tree.name}>"
    else:
        yield f"{pad}<{opening}/>"
