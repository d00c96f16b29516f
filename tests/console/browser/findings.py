"""What axe-core finds on a page, in both themes and at three widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from axe_playwright_python.sync_playwright import Axe

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTHS: Final = (320, 768, 1280)
THEMES: Final = ("light", "dark")


# The elements that reach beyond the window, without those that can be scrolled.
_WIDE: Final = """() => [...document.querySelectorAll('body *')]
    .filter(each => each.getBoundingClientRect().right > innerWidth && !each.closest('.scroll'))
    .map(each => `${each.tagName}.${each.className}: ${each.textContent.trim().slice(0, 60)}`)"""


def findings(page: Page) -> list[str]:
    """Each finding, with theme, width and the element. Leaves the page as it was, but for its size."""
    found = []
    for theme in THEMES:
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            for violation in Axe().run(page).response["violations"]:
                places = ", ".join(str(node["target"]) for node in violation["nodes"])
                found.append(f"{theme} {width}: {violation['id']} at {places}")
            if (over := page.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0:
                found.append(f"{theme} {width}: the page is {over} pixels too wide, by {page.evaluate(_WIDE)}")
    return found
