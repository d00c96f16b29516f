"""The text of a policy in an editor: as it was typed, from a template, and what a check says about it."""

from __future__ import annotations

import dataclasses
from typing import Any

from starlette.requests import Request

from orcas.console.calls import CallError
from orcas.console.documents.policies import IDENTITY, build
from orcas.console.explaining import checked
from orcas.console.rendering import explained, field


@dataclasses.dataclass(frozen=True, slots=True)
class Draft:
    """A text with what the page says about it.

    Args:
        text: the policy.
        findings: what the check warns of.
        problem: why it is not valid or was not saved.
        fine: whether it was checked, and nothing is wrong.
        unsaved: whether it comes from a template.
        status: of the answer.
    """

    text: str = ""
    findings: list[str] = dataclasses.field(default_factory=list)
    problem: str = ""
    fine: bool = False
    unsaved: bool = False
    status: int = 200

    def refused(self, what: str, error: CallError) -> Draft:
        """The draft after the server has refused to save it. `what`: what was not done."""
        return dataclasses.replace(self, problem=f"{what} {explained(error)}".strip(), status=error.status)

    def context(self) -> dict[str, Any]:
        """Names for templates: `text`, `findings`, `problem`, `fine` and `unsaved`."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "status"}


def typed(request: Request) -> str:
    """The text in the form, with the line ends that were typed."""
    return field(request, "document").replace("\r\n", "\n")


def templates() -> list[tuple[str, str]]:
    """The templates with their titles."""
    return [(name, template.title) for name, template in IDENTITY.items()]


def draft_of(request: Request, kind: str = "identity") -> tuple[Draft, bool]:
    """What the form asks for: the draft, and whether it is to be saved, as it is valid and nothing else was asked for.

    `kind`: of the policy, as `orcas.console.explaining.checked` takes it.
    """
    text, wanted = typed(request), field(request, "do")
    if wanted == "template":
        template, bucket = IDENTITY.get(field(request, "template")), field(request, "bucket").strip()
        if template is None or not bucket:
            return Draft(text, problem="Choose a template, and write the name of a bucket.", status=400), False
        return Draft(build(template, bucket, field(request, "prefix")), unsaved=True), False
    findings, problem = checked(text, kind)
    if wanted == "check" or problem:
        return Draft(text, findings, problem, not problem and not findings, status=400 if problem else 200), False
    return Draft(text, findings), True
