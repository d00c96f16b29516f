"""Asks the built site what users ask, in their words: `.ci/run site` runs this last.

Each question of site_questions.toml is to find a page that answers it among the first three that the search of the site
shows. The search is the one that runs in the browser, in Node.js.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

FIRST = 3
# Of the questions, how many have to be found. The words of a question must all be on a page, so a new one may miss it.
SHARE_MIN = 0.95
QUESTIONS = tomllib.loads(Path(__file__).with_name("site_questions.toml").read_text(encoding="utf-8"))


def is_answer(location: str, pages: str | list[str]) -> bool:
    """Whether a page of the site is one of those, or below one of them."""
    name = location or "README"
    return any(name.startswith(page) for page in ([pages] if isinstance(pages, str) else pages))


def main(site: Path) -> None:
    command = ["node", str(Path(__file__).with_suffix(".js")), str(site)]
    try:
        done = subprocess.run(command, input=json.dumps(list(QUESTIONS)), capture_output=True, text=True, check=True)
    except FileNotFoundError:
        sys.exit("The search of the site runs in Node.js: install it.")
    except subprocess.CalledProcessError as failed:
        sys.exit(f"The search of the site does not run: {failed.stderr}")
    found = json.loads(done.stdout)
    missed = [
        question
        for question, pages in QUESTIONS.items()
        if not any(is_answer(location, pages) for location in found[question][:FIRST])
    ]
    for question in missed:
        pages = ", ".join(found[question][:FIRST]) or "nothing"
        sys.stdout.write(f"{question!r} does not find {QUESTIONS[question]}, but {pages}.\n")
    hits = len(QUESTIONS) - len(missed)
    sys.stdout.write(f"{hits} of {len(QUESTIONS)} questions find a page that answers them among the first {FIRST}\n")
    if hits < SHARE_MIN * len(QUESTIONS):
        sys.exit("The search of the site misses too many pages.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
