"""Stages the site of the documents: `.ci/run site` runs this, then Zensical.

The pages of mkdocs.yml, and the files that they link to, are copied into FOLDER/pages under the paths that they have in
the repository. FOLDER/mkdocs.yml is mkdocs.yml with the version and the words that searches leave out. A page that is in
no menu, or a link to a file that does not exist, is an error. Zensical checks the links between pages.
"""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
# Not in the menu: rendered notebooks and records of decisions have pages that list them.
LISTED_ELSEWHERE = ("docs/adr/", "docs/notebooks/")
# Not in the search: they would come before pages that answer what users ask.
UNSEARCHED = (
    "docs/adr/", "docs/notebooks/", "CHANGELOG.md", "docs/format.md", "docs/walkthrough", "docs/architecture/",
    "docs/reliability/", "docs/performance/", "docs/benchmarks/commits.md", "docs/benchmarks/figures.md",
    "docs/s3/ceph.md", "docs/s3/suites.md",
)  # fmt: skip
# Words that users have and a section does not, in a comment below its title: they are found, and not on the page.
WORDS = re.compile(r"^<!-- search:\s(.+?)\s-->$", re.MULTILINE | re.DOTALL)
# Words that say nothing of what somebody looks for: the search would want all of them on the page.
COMMON = re.findall(
    r"\w+",
    """
    a about also an and another any are as at be been but by can could did do does example examples for from get give
    had happens has have how i if in into is it its me my need of on or our should some that the their there this to
    use used using want was we what when where which who why will with would you your
""",
)
# Code with hyphens in a row of a table: a browser would break it there.
NAME = re.compile(r"(?<![`\\])(`[^\s`|]*-[^\s`|]*`)(?!`)")
FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(<?([^)#\s>]+)[^)]*\)|\b(?:src|srcset|href)=\"([^\"#]+)[^\"]*\"")


def in_menu(entries: list[Any]) -> Iterator[str]:
    """The pages of a menu, from first to last."""
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from in_menu(value) if isinstance(value, list) else [value]


def linked(page: Path) -> Iterator[Path]:
    """The files that a page links to, relative to the repository."""
    for found in LINK.finditer(FENCED.sub("", page.read_text(encoding="utf-8"))):
        target = found[1] or found[2]
        if not re.match(r"[a-z]+:|/", target):
            yield (page.parent / target).resolve().relative_to(ROOT)


def pages(menu: list[str]) -> set[Path]:
    """All pages: those of the menu, and those listed elsewhere."""
    found = {Path(name) for name in menu}
    own = {path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")}
    lost = {path for path in own - found if not path.as_posix().startswith(LISTED_ELSEWHERE)}
    if lost:
        sys.exit(f"No menu of mkdocs.yml has {', '.join(sorted(map(str, lost)))}.")
    return found | own


def main(folder: Path) -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    staged, config = folder / "pages", yaml.safe_load(text)
    shutil.rmtree(folder, ignore_errors=True)
    wanted = pages(list(in_menu(config["nav"])))
    files = wanted | {Path(name) for name in config["extra_css"]}
    for page in wanted:
        for target in linked(ROOT / page):
            if not (ROOT / target).exists():
                sys.exit(f"{page} links to {target}, which does not exist.")
            files |= {target} if (ROOT / target).is_file() else set()
    for name in files:
        (staged / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, staged / name)
        if name.suffix == ".md":
            text_of_page = WORDS.sub(r"<p hidden>\1</p>", (staged / name).read_text(encoding="utf-8"))
            text_of_page = re.sub(
                r"^\|.*", lambda row: NAME.sub(r"\1{ .name }", row[0]), text_of_page, flags=re.MULTILINE
            )
            if name.as_posix().startswith(UNSEARCHED):
                text_of_page = f"---\nsearch:\n  exclude: true\n---\n\n{text_of_page}"
            (staged / name).write_text(text_of_page, encoding="utf-8")
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    version = cargo["workspace"]["package"]["version"]
    either = "|".join(f"[{word[0].upper()}{word[0].lower()}]{word[1:]}" for word in COMMON)
    text = text.replace("COMMON_WORDS", either)
    (folder / "mkdocs.yml").write_text(f"{text}\nsite_dir: {version}\ncopyright: Orcas {version}\n", encoding="utf-8")
    sys.stdout.write(f"{folder / version}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
