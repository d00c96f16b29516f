"""`orcas probe`: whether the conditional writes of an S3 store can be relied on."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from orcas.cli.objects.copies import interruptible
from orcas.cli.options import AsJson, Data
from orcas.cli.output import print_found, waiting
from orcas.cli.store.upkeep import settings_of
from orcas.errors import OrcasError, UsageError
from orcas.process.failures import EXIT_NOT_KEPT

Endpoints = Annotated[
    list[str] | None,
    typer.Option("--endpoint", metavar="URL", help="URL of an S3 server; keys are in the AWS_* variables; repeatable."),
]


def probe(
    place: Annotated[str, typer.Argument(metavar="s3://BUCKET/PREFIX", help="Where it may write and delete.")],
    data: Data = None,
    endpoint: Endpoints = None,
    as_json: AsJson = False,
) -> None:
    """Check whether the conditional writes of an S3 server can be relied on, and whether reads and lists see writes.

    A few small objects below a random name are written, by up to 16 writers at once, and removed in the end. Checks end
    after five minutes. Give every endpoint by which the store is used.

    Exit code 3: a check does not hold. Exit code 1: one could not be told. That all hold is no proof.

    Examples:

        orcas probe s3://photos

        orcas probe s3://logs/probes/ --endpoint https://a.example.org --endpoint https://b.example.org
    """
    from orcas.settings.clients import s3_endpoint
    from orcas.tools.probe import BROKEN, OPEN, WRITERS, Probe
    from orcas.tools.reach import reached
    from orcas.tools.transfers.places import place_of

    found = place_of(place)
    if endpoint and len(endpoint) > WRITERS:
        raise UsageError(f"--endpoint must be given {WRITERS} times at most: leave some out.")
    settings, named = settings_of(data), s3_endpoint() if data is None else None
    with interruptible(), contextlib.ExitStack() as stack:
        probing = Probe([stack.enter_context(reached(settings, url)) for url in endpoint or (named,)], found)
        stack.callback(probing.clean)
        with waiting(shown=not as_json) as advance:
            findings = probing.run(advance)
        document = {"place": str(probing.place), "checks": findings, "requests": probing.requests}
        rows = [finding.values() for finding in findings]
        print_found(document, as_json, ("Check", "Verdict", "What it means"), rows)
    verdicts = [finding["verdict"] for finding in findings]
    if BROKEN in verdicts:
        raise typer.Exit(EXIT_NOT_KEPT)
    if OPEN in verdicts:
        raise OrcasError(f"Checks that could not be told: {verdicts.count(OPEN)}: remove the cause, and run it again.")


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(probe)
