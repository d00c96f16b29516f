"""Asks the search index of the built site what operators ask: `.ci/run site` runs this last.

Each question has to find a page that answers it among the first results; an address stands for all that begin with it.
Pages are ranked by the words that they have (BM25, words of titles count as three), which is simpler than what the
browser does, so that the test is about the pages.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from pathlib import Path

FIRST = 4
QUESTIONS = {
    "nginx proxy tls": "docs/deployment/proxy",
    "tls certificate": "docs/deployment/tls",
    "add second user": "docs/how-to/second-user",
    "read-only key": "docs/how-to/second-user",
    "public bucket": "docs/how-to/public-bucket",
    "cors browser": "docs/how-to/public-bucket",
    "quota of a bucket": "docs/usage/quotas",
    "prometheus grafana": "docs/deployment/monitoring",
    "access log": "docs/operations/access-log",
    "backup of a running server": "docs/how-to/backup",
    "restore drill": "docs/how-to/backup",
    "upgrade": "docs/upgrade",
    "disk full": "docs/operations/full-disk",
    "lines of the log": "docs/operations/log",
    "encryption at rest": "docs/encryption",
    "rotate keys of the keyring": "docs/encryption/keys",
    "systemd service": "docs/deployment/systemd",
    "size a machine memory disk": "docs/how-to/sizing",
    "durability modes power cut": "docs/durability",
    "get space back reclaim": "docs/how-to/reclaim",
    "verify backup without restoring": "docs/how-to/verify",
    "wrong signature": "docs/operations/signatures",
    "kubernetes helm": "docs/deployment/kubernetes",
    "docker container image": "docs/deployment/containers",
    "pandas polars duckdb": "docs/how-to/use-with",
}


def words(text: str) -> list[str]:
    """Words without their endings, roughly."""
    plain = re.sub(r"<[^>]*>|&\w+;", " ", text).lower()
    return [re.sub(r"(?<=\w{3})(ies|es|s|ing|ed|e|ion)$", "", word) for word in re.findall(r"\w+", plain)]


def pages(site: Path) -> dict[str, Counter[str]]:
    """The words of each page, by its address."""
    found: dict[str, Counter[str]] = {}
    for item in json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]:
        page = item["location"].partition("#")[0].strip("/")
        count = found.setdefault(page, Counter())
        count.update(words(item["text"]))
        count.update(words(item["title"]) * 3)
    return found


def ranked(question: str, found: dict[str, Counter[str]]) -> list[str]:
    """The pages, best first."""
    lengths = {page: sum(count.values()) for page, count in found.items()}
    mean = sum(lengths.values()) / len(lengths)
    scores: Counter[str] = Counter()
    for word in set(words(question)):
        having = [page for page, count in found.items() if count[word]]
        weight = math.log(1 + (len(found) - len(having) + 0.5) / (len(having) + 0.5))
        for page in having:
            times = found[page][word]
            scores[page] += weight * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * lengths[page] / mean))
    return [page for page, _ in scores.most_common()]


def main(site: Path) -> None:
    found = pages(site)
    for question, page in QUESTIONS.items():
        first = ranked(question, found)[:FIRST]
        if not any(one.startswith(page) for one in first):
            sys.exit(f"A search for {question!r} does not find {page}, but {', '.join(first)}.")
    sys.stdout.write(f"{len(QUESTIONS)} questions are answered by a page that is found\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
