"""Cross-origin rules, websites and notifications as forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from orcas.console.documents.forms import ON, Field, FieldError, Filled, Values, lines, number, only, xml_form
from orcas.console.documents.trees import Tree, element, maybe

_METHODS: Final = ("GET", "PUT", "HEAD", "POST", "DELETE")
# Groups of events that have check boxes, with the names of these.
EVENTS: Final = {
    "created": ("s3:ObjectCreated:*", "Objects are stored"),
    "removed": ("s3:ObjectRemoved:*", "Objects are deleted"),
    "expired": ("s3:LifecycleExpiration:*", "Lifecycle rules remove objects"),
    "tagged": ("s3:ObjectTagging:*", "Tags change"),
}
_KINDS: Final = {"sns": ("TopicConfiguration", "Topic"), "sqs": ("QueueConfiguration", "Queue"),
                 "lambda": ("CloudFunctionConfiguration", "CloudFunction")}  # fmt: skip


def _read_cors(tree: Tree) -> Filled:
    only(tree, "CORSRule")
    return Filled(
        rules=[
            {
                "id": rule.value("ID"),
                "origins": "\n".join(rule.values("AllowedOrigin")),
                **{method.lower(): ON if method in rule.values("AllowedMethod") else "" for method in _METHODS},
                "headers": "\n".join(rule.values("AllowedHeader")),
                "exposed": "\n".join(rule.values("ExposeHeader")),
                "max_age": rule.value("MaxAgeSeconds"),
            }
            for rule in tree.children
        ]
    )


def _write_cors(filled: Filled) -> Tree | None:
    rules = []
    for at, rule in enumerate(filled.rules):
        methods = [method for method in _METHODS if rule[method.lower()]]
        if not methods:
            raise FieldError("get", "Choose at least one method.", at)
        origins = lines(rule["origins"])
        if not origins:
            raise FieldError("origins", "Write at least one origin, such as https://example.org.", at)
        age = number(rule, "max_age", at)
        rules.append(
            element(
                "CORSRule",
                maybe("ID", rule["id"]),
                *(element("AllowedHeader", name) for name in lines(rule["headers"])),
                *(element("AllowedMethod", method) for method in methods),
                *(element("AllowedOrigin", origin) for origin in origins),
                *(element("ExposeHeader", name) for name in lines(rule["exposed"])),
                None if age is None else element("MaxAgeSeconds", str(age)),
            )
        )
    return element("CORSConfiguration", *rules) if rules else None


def _unordered(name: str) -> Callable[[Tree], Tree]:
    """Brings the elements of this name in each rule into one order, because their order means nothing."""

    def normal(tree: Tree) -> Tree:
        for rule in tree.children:
            rule.children.sort(key=lambda child: (child.name, child.text if child.name == name else ""))
        return tree

    return normal


CORS: Final = xml_form(
    "CORSConfiguration",
    _read_cors,
    _write_cors,
    rule=(
        Field("id", "Name", hint="Optional."),
        Field("origins", "Origins that may ask", "lines", hint="One a line, such as https://example.org or *."),
        *(Field(method.lower(), method, "flag") for method in _METHODS),
        Field("headers", "Headers that requests may have", "lines", hint="One a line; * for any."),
        Field("exposed", "Headers that pages may read", "lines", hint="One a line, such as ETag."),
        Field("max_age", "Seconds for which browsers keep the answer", "number"),
    ),
    new_rule={"get": ON},
    normal=_unordered("AllowedMethod"),
)


def _read_website(tree: Tree) -> Filled:
    # Redirections are edited as text.
    only(tree, "IndexDocument", "ErrorDocument")
    return Filled({"index": tree.value("IndexDocument", "Suffix"), "error": tree.value("ErrorDocument", "Key")})


def _write_website(filled: Filled) -> Tree | None:
    fixed = filled.fixed
    if not fixed["index"]:
        if fixed["error"]:
            raise FieldError("index", "Write the name of the index document, such as index.html.")
        return None
    error = element("ErrorDocument", element("Key", fixed["error"])) if fixed["error"] else None
    index = element("IndexDocument", element("Suffix", fixed["index"]))
    return element("WebsiteConfiguration", index, error)


WEBSITE: Final = xml_form(
    "WebsiteConfiguration",
    _read_website,
    _write_website,
    (
        Field("index", "Index document", hint="Such as index.html: what a path that ends with / shows."),
        Field("error", "Error document", hint="Optional. A key, such as error.html."),
    ),
)


def arn_kind(arn: str) -> tuple[str, str] | None:
    """The elements of a configuration and of its ARN, by the service that the ARN names."""
    parts = arn.split(":")
    return _KINDS.get(parts[2]) if len(parts) > 5 else None


def _read_notifications(tree: Tree) -> Filled:
    only(tree, *(name for name, _ in _KINDS.values()))
    rules = []
    for each in tree.children:
        only(each, "Id", "Topic", "Queue", "CloudFunction", "Event", "Filter")
        arn = next((child.text for child in each.children if child.name in ("Topic", "Queue", "CloudFunction")), "")
        events = each.values("Event")
        filters = (each.get("Filter") or Tree("")).get("S3Key") or Tree("")
        named = {rule.value("Name").lower(): rule.value("Value") for rule in filters.children}
        known = {name: ON if event in events else "" for name, (event, _) in EVENTS.items()}
        others = [event for event in events if event not in {name for name, _ in EVENTS.values()}]
        rules.append(
            {"id": each.value("Id"), "arn": arn, **known, "others": "\n".join(others),
             "prefix": named.get("prefix", ""), "suffix": named.get("suffix", "")}
        )  # fmt: skip
    return Filled(rules=rules)


def _write_notifications(filled: Filled) -> Tree:
    return element("NotificationConfiguration", *(_notification(rule, at) for at, rule in enumerate(filled.rules)))


def _notification(rule: Values, at: int) -> Tree:
    kind = arn_kind(rule["arn"])
    if kind is None:
        raise FieldError("arn", "Write the ARN of a target, such as arn:aws:sqs:::images for the target images.", at)
    events = [event for name, (event, _) in EVENTS.items() if rule[name]] + lines(rule["others"])
    if not events:
        raise FieldError("created", "Choose at least one event.", at)
    filters = [
        element("FilterRule", element("Name", name.capitalize()), element("Value", rule[name]))
        for name in ("prefix", "suffix")
        if rule[name]
    ]
    return element(
        kind[0],
        maybe("Id", rule["id"]),
        element(kind[1], rule["arn"]),
        *(element("Event", event) for event in events),
        element("Filter", element("S3Key", *filters)) if filters else None,
    )


NOTIFICATIONS: Final = xml_form(
    "NotificationConfiguration",
    _read_notifications,
    _write_notifications,
    rule=(
        Field("id", "Name", hint="Optional."),
        Field(
            "arn", "ARN of the target", hint="arn:aws:sqs:::NAME; arn:aws:lambda:::function:NAME gets no test message."
        ),
        *(Field(name, label, "flag") for name, (_, label) in EVENTS.items()),
        Field("others", "Other events", "lines", hint="One a line, such as s3:ObjectCreated:Copy."),
        Field("prefix", "Keys that begin with"),
        Field("suffix", "Keys that end with", hint="Such as .jpg."),
    ),
    rule_name="notification",
    new_rule={"created": ON},
    normal=_unordered("Event"),
)
