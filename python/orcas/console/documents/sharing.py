"""Cross-origin rules, websites and notifications as forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from orcas.console.documents.forms import ON, Field, FieldError, Filled, Values, lines, number, only, xml_form
from orcas.console.documents.trees import Tree, element, maybe

_METHODS: Final = ("GET", "PUT", "HEAD", "POST", "DELETE")
_PROTOCOLS: Final = (("", "that of the request"), ("http", "http"), ("https", "https"))
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
    only(tree, "IndexDocument", "ErrorDocument", "RedirectAllRequestsTo", "RoutingRules")
    fixed = {
        "index": tree.value("IndexDocument", "Suffix"),
        "error": tree.value("ErrorDocument", "Key"),
        "host": tree.value("RedirectAllRequestsTo", "HostName"),
        "protocol": tree.value("RedirectAllRequestsTo", "Protocol"),
    }
    found = tree.get("RoutingRules")
    rules = [] if found is None else [_read_route(rule) for rule in found.children]
    return Filled(fixed, rules)


def _read_route(rule: Tree) -> Values:
    return {
        "prefix": rule.value("Condition", "KeyPrefixEquals"),
        "status": rule.value("Condition", "HttpErrorCodeReturnedEquals"),
        "host": rule.value("Redirect", "HostName"),
        "protocol": rule.value("Redirect", "Protocol"),
        "new_prefix": rule.value("Redirect", "ReplaceKeyPrefixWith"),
        "new_key": rule.value("Redirect", "ReplaceKeyWith"),
        "code": rule.value("Redirect", "HttpRedirectCode"),
    }


def _write_website(filled: Filled) -> Tree | None:
    fixed = filled.fixed
    if fixed["host"]:
        if fixed["index"] or fixed["error"] or filled.rules:
            raise FieldError("host", "Redirect all requests, or serve pages: leave the fields of the other empty.")
        everything = element(
            "RedirectAllRequestsTo", element("HostName", fixed["host"]), maybe("Protocol", fixed["protocol"])
        )
        return element("WebsiteConfiguration", everything)
    if fixed["protocol"]:
        raise FieldError("host", "Write the host to which all requests are redirected.")
    if not fixed["index"]:
        if fixed["error"] or filled.rules:
            raise FieldError("index", "Write the name of the index document, such as index.html.")
        return None
    error = element("ErrorDocument", element("Key", fixed["error"])) if fixed["error"] else None
    routes = [_route(rule, at) for at, rule in enumerate(filled.rules)]
    index = element("IndexDocument", element("Suffix", fixed["index"]))
    return element("WebsiteConfiguration", index, error, element("RoutingRules", *routes) if routes else None)


def _route(rule: Values, at: int) -> Tree:
    status, code = number(rule, "status", at), number(rule, "code", at)
    condition = [
        None if status is None else element("HttpErrorCodeReturnedEquals", str(status)),
        maybe("KeyPrefixEquals", rule["prefix"]),
    ]
    redirect = [
        maybe("HostName", rule["host"]),
        None if code is None else element("HttpRedirectCode", str(code)),
        maybe("Protocol", rule["protocol"]),
        maybe("ReplaceKeyPrefixWith", rule["new_prefix"]),
        maybe("ReplaceKeyWith", rule["new_key"]),
    ]
    if not any(redirect):
        raise FieldError("host", "Say where the rule leads: a host, another prefix or another key.", at)
    return element("RoutingRule", element("Condition", *condition) if any(condition) else None,
                   element("Redirect", *redirect))  # fmt: skip


WEBSITE: Final = xml_form(
    "WebsiteConfiguration",
    _read_website,
    _write_website,
    (
        Field("index", "Index document", hint="Such as index.html: what a path that ends with / shows."),
        Field("error", "Error document", hint="Optional. A key, such as error.html."),
        Field("host", "Or redirect all requests to the host", hint="Such as www.example.org."),
        Field("protocol", "Protocol of that redirection", "choice", _PROTOCOLS),
    ),
    (
        Field("prefix", "If the key begins with"),
        Field("status", "If the answer would be the error", "number", hint="Such as 404."),
        Field("host", "Redirect to the host"),
        Field("protocol", "Protocol", "choice", _PROTOCOLS),
        Field("new_prefix", "Put this in place of the prefix"),
        Field("new_key", "Or of the whole key"),
        Field("code", "Status of the redirection", "number", hint="301 if it is empty."),
    ),
    rule_name="redirection",
    normal=lambda tree: _sorted_routes(tree),
)


def _sorted_routes(tree: Tree) -> Tree:
    """The order of elements means nothing, but for that of rules."""
    rules = tree.get("RoutingRules")
    for rule in [] if rules is None else rules.children:
        for part in rule.children:
            part.children.sort(key=lambda child: child.name)
    return tree


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
