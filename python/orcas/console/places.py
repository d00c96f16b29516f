"""Entries of the navigation, and what the modules of pages have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """An entry of the navigation, or a tab of a bucket, for whoever may perform one of its `actions`.

    `path`: below the console, such as `/health`; of a tab, below `/b/BUCKET`. `group`: the heading in the navigation.
    `lists`: the tab is about all objects, so it is for whoever may also list them.
    """

    title: str
    path: str
    group: str = ""
    actions: tuple[str, ...] = ()
    lists: bool = False
