"""AWS's policy evaluation in Python: what the Rust crate `access` is compared with.

Written from AWS's documentation alone, for clarity and not for speed. Each rule names its page of the IAM User Guide.
Request and answer have the shape of `_core.simulate`. Documents are taken as valid: refusing them is another matter.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from enum import IntEnum
from typing import Any, NamedTuple

Json = dict[str, Any]


class Pick(NamedTuple):
    """A statement that may be named as the reason. Both are None where there is none."""

    policy: str | None
    statement: int | None


NOBODY = Pick(None, None)


def evaluate(request: Json) -> Json:
    decision, picks = authorize(request)
    pick = picks[0]
    sid = None
    if pick.policy is not None and pick.statement is not None:
        sid = statements(policies(request)[pick.policy])[pick.statement].get("Sid")
    return {"decision": decision, "policy": pick.policy, "statement": pick.statement, "sid": sid}


def policies(request: Json) -> dict[str, Json]:
    """All policies of a request, under the names that answers have for them."""
    found = {f"identity:{at}": document for at, document in enumerate(request.get("identity") or [])}
    named = {"boundary": "boundary", "session": "session", "resource": "resource_policy"}
    return found | {name: request[field] for name, field in named.items() if request.get(field) is not None}


def authorize(request: Json) -> tuple[str, list[Pick]]:
    """The access decision, and all statements that may be named for it.

    "How AWS enforcement code logic evaluates requests to allow or deny access", "Policy evaluation for requests within a
    single account", "Cross-account policy evaluation logic", "Permissions boundaries for IAM entities".
    """
    caller = Caller(request)
    # "Deny evaluation": a Deny that applies, in whatever policy, is the final decision.
    denies = [Pick(name, at) for name in caller.denying for at, _ in applicable(caller, name, "Deny")]
    if denies:
        return "explicitDeny", denies
    by_identity = identity_allows(caller)
    by_resource = resource_allows(caller)
    if caller.kind == "anonymous":
        # "All principals": "using a wildcard (*) with an Allow effect grants access to all users, including anonymous".
        allows = [pick for pick, _ in by_resource]
    elif caller.account == caller.owner:
        # "Evaluating identity-based policies with resource-based policies": one of both suffices.
        limited = limits_allow(caller)
        allows = by_identity if limited else []
        allows += [pick for pick, grant in by_resource if grant_suffices(caller, grant, limited)]
    else:
        # "The request is allowed only if both evaluations return a decision of Allow": in the caller's account its own
        # policies and their limits, in the resource's account the resource's policy, in whatever way it names the caller.
        both = by_identity and by_resource and limits_allow(caller)
        allows = [*by_identity, *(pick for pick, _ in by_resource)] if both else []
    return ("allowed", allows) if allows else ("implicitDeny", [NOBODY])


class Caller:
    """The principal, the policies and the request context of one request."""

    def __init__(self, request: Json) -> None:
        principal = request["principal"]
        self.kind: str = principal["kind"]
        self.arn: str | None = principal.get("arn")
        self.account: str | None = principal.get("account")
        self.owner: str | None = request.get("resource_account") or self.account
        self.policies = policies(request)
        self.action: str = request["action"]
        self.resource: str = request["resource"]
        # "IAM JSON policy elements: Condition": names of context keys are not case-sensitive.
        self.context: dict[str, list[str]] = {}
        for key, values in (self.of_principal(principal) | (request.get("context") or {})).items():
            self.context[key.lower()] = values

    def of_principal(self, principal: Json) -> dict[str, list[str]]:
        """Page "AWS global condition context keys", "Properties of the principal"."""
        keys = {f"aws:PrincipalTag/{key}": [value] for key, value in (principal.get("tags") or {}).items()}
        # "IAM policy elements: Variables and tags", "Principal key values".
        types = {"root": "Account", "user": "User", "role": "AssumedRole", "anonymous": "Anonymous"}
        keys["aws:PrincipalType"] = [types[self.kind]]
        if self.kind == "anonymous" or self.arn is None or self.account is None:
            return keys
        keys["aws:PrincipalAccount"] = [self.account]
        # aws:PrincipalArn: "For IAM roles, the request context returns the ARN of the role, not the ARN of the user that
        # assumed the role".
        keys["aws:PrincipalArn"] = [self.role or self.arn]
        if self.kind == "user":
            keys["aws:username"] = [self.arn.rpartition("/")[2]]
        return keys

    @property
    def denying(self) -> list[str]:
        """The policies whose Deny counts.

        S3's pages "PutBucketPolicy", "GetBucketPolicy" and "DeleteBucketPolicy": "the root principal in a bucket owner's
        AWS account can perform" them "even if their bucket policy explicitly denies the root principal's access".
        """
        actions = ("s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy")
        spared = self.kind == "root" and self.account == self.owner and self.action in actions
        return [name for name in self.policies if not (spared and name == "resource")]

    @property
    def role(self) -> str | None:
        """The ARN of the role whose session this is."""
        if self.kind != "role" or self.arn is None:
            return None
        _, role, _ = self.arn.split(":", 5)[5].split("/")
        return f"arn:aws:iam::{self.account}:role/{role}"

    @property
    def identities(self) -> set[str]:
        """Who this is apart from a member of an account: the user, or the role and its session."""
        return {arn for arn in (self.arn, self.role) if arn and self.kind in ("user", "role")}

    @property
    def accounts(self) -> set[str]:
        """As account: "The account ARN and the shortened account ID behave the same way" ("AWS account principals")."""
        return {self.account, f"arn:aws:iam::{self.account}:root"} if self.account else set()


def statements(document: Json) -> list[Json]:
    """Page "IAM JSON policy elements: Statement": "a single statement or an array of individual statements"."""
    found = document["Statement"]
    return found if isinstance(found, list) else [found]


def listed(value: Any) -> list[Any]:
    """Page "Grammar of the IAM JSON policy language": with one value only, "the brackets are optional"."""
    return value if isinstance(value, list) else [value]


# Which statements apply, and who is granted what.


def applicable(caller: Caller, name: str, effect: str) -> Iterator[tuple[int, Json]]:
    document = caller.policies[name]
    # "IAM JSON policy elements: Version": "variables such as ${aws:username} aren't recognized as variables and are
    # instead treated as literal strings" without this version.
    variables = document.get("Version") == "2012-10-17"
    for at, statement in enumerate(statements(document)):
        if statement["Effect"] == effect and (
            (name != "resource" or principal_matches(caller, statement))
            and action_matches(caller, statement)
            and resource_matches(caller, statement, variables)
            and conditions_hold(caller, statement.get("Condition", {}), variables)
        ):
            yield at, statement


def identity_allows(caller: Caller) -> list[Pick]:
    if caller.kind == "root":
        # "By default, all requests are implicitly denied with the exception of the AWS account root user, which has full
        # access."
        return [NOBODY]
    names = [name for name in caller.policies if name.startswith("identity:")]
    return [Pick(name, at) for name in names for at, _ in applicable(caller, name, "Allow")]


def limits_allow(caller: Caller) -> bool:
    """Boundary and session policies grant nothing: what they do not allow, an identity's policies cannot."""
    names = [name for name in ("boundary", "session") if name in caller.policies]
    return all(any(applicable(caller, name, "Allow")) for name in names)


class Grant(IntEnum):
    """How a statement of the resource's policy names the caller, from what helps least."""

    NONE = 0
    ACCOUNT = 1
    LIMITED = 2
    DIRECT = 3


def resource_allows(caller: Caller) -> list[tuple[Pick, Grant]]:
    if "resource" not in caller.policies:
        return []
    found = applicable(caller, "resource", "Allow")
    return [(Pick("resource", at), grant_of(caller, statement["Principal"])) for at, statement in found]


def grant_of(caller: Caller, principal: Any) -> Grant:
    """Page "AWS JSON policy elements: Principal"."""
    named = principals(principal)
    session_of_user = caller.kind == "user" and "session" in caller.policies
    if "*" in named or (caller.arn in named and not session_of_user):
        return Grant.DIRECT
    if caller.identities & named:
        return Grant.LIMITED
    return Grant.ACCOUNT if caller.accounts & named else Grant.NONE


def grant_suffices(caller: Caller, grant: Grant, limited: bool) -> bool:
    """Whether an Allow of the resource's policy, in the caller's account, allows without one of the caller's policies.

    "How AWS enforcement code logic evaluates requests", "Resource-based policies": granted to the user, the session, or
    everyone, it does so whatever boundary and session policy say; granted to a role, it is "limited by an implicit deny
    in a permissions boundary or session policy"; so is what is granted to a user, for a session with a policy of its own
    ("AWS STS federated user principal"). An account's ARN "delegates authority to the account", whose own policies must
    then allow ("AWS account principals").
    """
    if grant is Grant.DIRECT:
        return True
    return grant is Grant.LIMITED and limited


def principals(element: Any) -> set[str]:
    """Page "AWS JSON policy elements: Principal": "*" and {"AWS": "*"} are equivalent. Services never call this store."""
    if isinstance(element, str):
        return {element}
    return set(listed(element.get("AWS", [])))


def principal_matches(caller: Caller, statement: Json) -> bool:
    if "Principal" in statement:
        return grant_of(caller, statement["Principal"]) is not Grant.NONE
    # "AWS JSON policy elements: NotPrincipal": "will always deny any IAM principal that has a permissions boundary policy
    # attached", and "you must also specify the account ARN of the not-denied principal", of a session the role's, too.
    named = principals(statement["NotPrincipal"])
    if "boundary" in caller.policies:
        return True
    return not ("*" in named or (caller.accounts & named and caller.identities <= named))


def action_matches(caller: Caller, statement: Json) -> bool:
    """Page "IAM JSON policy elements: Action": "The prefix and the action name are case insensitive"."""
    patterns = listed(statement.get("Action", statement.get("NotAction")))
    found = any(like(plain(pattern.lower()), caller.action.lower()) for pattern in patterns)
    return found if "Action" in statement else not found


def resource_matches(caller: Caller, statement: Json, variables: bool) -> bool:
    """Pages "IAM JSON policy elements: Resource" and "NotResource".

    "Policy variables with no value": such a pattern "will not match any resource", in both elements. * runs over "/",
    and at the end of a segment it "can expand to match beyond the colon boundaries".
    """
    patterns = listed(statement.get("Resource", statement.get("NotResource")))
    found = any(like(expand(caller, pattern, variables), caller.resource) for pattern in patterns)
    return found if "Resource" in statement else not found


# Patterns. A pattern is a list of characters and wildcards, or None if a variable in it has no value.


class Wildcard(IntEnum):
    ONE = 1
    MANY = 2


Pattern = list["str | Wildcard"]
WILDCARDS = {"*": Wildcard.MANY, "?": Wildcard.ONE}
VARIABLE = re.compile(r"\$\{(?P<name>[^},]+)(?:, '(?P<default>[^']*)')?\}")


def plain(text: str) -> Pattern:
    return [WILDCARDS.get(character, character) for character in text]


def expand(caller: Caller, text: str, variables: bool) -> Pattern | None:
    """Page "IAM policy elements: Variables and tags".

    A variable is a context key with a single value, which is put in as it is; without one it has its default, or no
    value at all. ${*}, ${?} and ${$} are those characters.
    """
    if not variables:
        return plain(text)
    pattern: Pattern = []
    at = 0
    for found in VARIABLE.finditer(text):
        pattern += plain(text[at : found.start()])
        at = found.end()
        name, default = found["name"], found["default"]
        values = caller.context.get(name.lower(), [])
        if name in ("*", "?", "$"):
            pattern.append(name)
        elif len(values) == 1:
            pattern += values[0]
        elif default is not None:
            pattern += default
        else:
            return None
    return pattern + plain(text[at:])


def like(pattern: Pattern | None, text: str) -> bool:
    """* is "any combination of characters", also none, ? is "any single character"."""
    if pattern is None:
        return False
    expressions = {Wildcard.MANY: ".*", Wildcard.ONE: "."}
    parts = [expressions[part] if isinstance(part, Wildcard) else re.escape(part) for part in pattern]
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def literal(pattern: Pattern | None) -> str | None:
    """The text of a pattern whose wildcards mean themselves."""
    if pattern is None:
        return None
    characters = {wildcard: character for character, wildcard in WILDCARDS.items()}
    return "".join(characters[part] if isinstance(part, Wildcard) else part for part in pattern)


# Conditions.

OPERATOR = re.compile(r"(?:(?P<set>ForAllValues|ForAnyValue):)?(?P<name>[A-Za-z]+?)(?P<if_exists>IfExists)?")


def conditions_hold(caller: Caller, block: Json, variables: bool) -> bool:
    """Page "Conditions with multiple context keys or values": operators, and the keys of one, are joined by AND."""
    return all(
        condition_holds(caller, operator, key, listed(values), variables)
        for operator, keys in block.items()
        for key, values in keys.items()
    )


def condition_holds(caller: Caller, operator: str, key: str, expected: list[Any], variables: bool) -> bool:
    """Pages "IAM JSON policy elements: Condition operators" and "Single-valued vs. multivalued context keys"."""
    parts = OPERATOR.fullmatch(operator)
    assert parts is not None, operator
    found = caller.context.get(key.lower(), [])
    texts = [text_of(value) for value in expected]
    if parts["name"] == "Null":
        # "true (the key doesn't exist — it is null) or false (the key exists and its value is not null)"; "Condition":
        # an empty string is null.
        return any(text == ("true" if is_null(found) else "false") for text in texts)
    if not found and parts["if_exists"]:
        return True  # "If the key is not present, evaluate the condition element as true."
    if parts["set"] and is_null(found):
        # ForAllValues "returns true if there are no context keys in the request or if the context key value resolves to
        # a null dataset, such as an empty string"; ForAnyValue then "returns false".
        return parts["set"] == "ForAllValues"
    negated = "Not" in parts["name"]
    if not found:
        # "If the key that you specify in a policy condition is not present in the request context, the values do not
        # match and the condition is false. If the policy condition requires that the key is not matched [...] true."
        return negated
    matches = OPERATORS[parts["name"].replace("Not", "", 1)]
    try:
        # Values of a policy are joined by OR, of a negated operator by NOR: each value of the request is negated alone.
        results = [any(matches(caller, value, text, variables) for text in texts) != negated for value in found]
    except ValueError:
        # "Actions, resources, and condition keys for AWS services": "If you use an incorrect operator, then the match
        # always fails and the policy statement never applies."
        return False
    return any(results) if parts["set"] == "ForAnyValue" else all(results)


def is_null(values: list[str]) -> bool:
    return all(value == "" for value in values)


def text_of(value: Any) -> str:
    """As in "The policy language and JSON": "Quotation marks are optional for numeric and Boolean values"."""
    return str(value).lower() if isinstance(value, bool) else str(value)


Matcher = Callable[[Caller, str, str, bool], bool]


def string_equals(caller: Caller, found: str, expected: str, variables: bool) -> bool:
    return literal(expand(caller, expected, variables)) == found


def string_equals_ignore_case(caller: Caller, found: str, expected: str, variables: bool) -> bool:
    text = literal(expand(caller, expected, variables))
    return text is not None and text.lower() == found.lower()


def string_like(caller: Caller, found: str, expected: str, variables: bool) -> bool:
    return like(expand(caller, expected, variables), found)


def arn_like(caller: Caller, found: str, expected: str, variables: bool) -> bool:
    """As in the table: "Each of the six colon-delimited components of the ARN is checked separately"."""
    if found.count(":") < 5:
        raise ValueError(found)
    pattern = expand(caller, expected, variables)
    if pattern is None:
        return False
    components: list[Pattern] = [[]]
    for part in pattern:
        if part == ":" and len(components) < 6:
            components.append([])
        else:
            components[-1].append(part)
    return len(components) == 6 and all(map(like, components, found.split(":", 5)))


def numeric(compare: Callable[[Decimal, Decimal], bool]) -> Matcher:
    """Compares "an integer or decimal value"."""

    def number(text: str) -> Decimal:
        try:
            return Decimal(text)
        except InvalidOperation:
            raise ValueError(text) from None

    return lambda _, found, expected, __: compare(number(found), number(expected))


def date(compare: Callable[[dt.datetime, dt.datetime], bool]) -> Matcher:
    return lambda _, found, expected, __: compare(instant(found), instant(expected))


ISO_8601 = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?(?:T(\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?(Z|[+-]\d\d:\d\d))?")


def instant(text: str) -> dt.datetime:
    """Reads "one of the W3C implementations of the ISO 8601 date formats or in epoch (UNIX) time"."""
    if re.fullmatch(r"-?\d{5,}(\.\d+)?", text):
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=float(text))
    match = ISO_8601.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(part) if part else 0 for part in match.groups()[:6])
    moment = dt.datetime(year, month or 1, day or 1, hour, minute, second, tzinfo=dt.UTC)
    moment += dt.timedelta(seconds=float(match[7] or 0))
    if match[8] in (None, "Z"):
        return moment
    offset = dt.timedelta(hours=int(match[8][1:3]), minutes=int(match[8][4:]))
    return moment - offset if match[8][0] == "+" else moment + offset


def boolean(_: Caller, found: str, expected: str, __: bool) -> bool:
    if found.lower() not in ("true", "false"):
        raise ValueError(found)
    return found.lower() == expected.lower()


def binary(_: Caller, found: str, expected: str, __: bool) -> bool:
    """Compares "byte for byte against a base-64 encoded representation": both sides are, in the page's table."""
    try:
        return base64.b64decode(found, validate=True) == base64.b64decode(expected, validate=True)
    except binascii.Error:
        return False


def ip_address(_: Caller, found: str, expected: str, __: bool) -> bool:
    """Takes "standard CIDR format" and "without the associated routing prefix" the one address."""
    address = ipaddress.ip_address(found)
    network = ipaddress.ip_network(expected, strict=False)
    return address.version == network.version and address in network


OPERATORS: dict[str, Matcher] = {
    "StringEquals": string_equals,
    "StringEqualsIgnoreCase": string_equals_ignore_case,
    "StringLike": string_like,
    "ArnEquals": arn_like,
    "ArnLike": arn_like,
    "NumericEquals": numeric(lambda found, expected: found == expected),
    "NumericLessThan": numeric(lambda found, expected: found < expected),
    "NumericLessThanEquals": numeric(lambda found, expected: found <= expected),
    "NumericGreaterThan": numeric(lambda found, expected: found > expected),
    "NumericGreaterThanEquals": numeric(lambda found, expected: found >= expected),
    "DateEquals": date(lambda found, expected: found == expected),
    "DateLessThan": date(lambda found, expected: found < expected),
    "DateLessThanEquals": date(lambda found, expected: found <= expected),
    "DateGreaterThan": date(lambda found, expected: found > expected),
    "DateGreaterThanEquals": date(lambda found, expected: found >= expected),
    "Bool": boolean,
    "BinaryEquals": binary,
    "IpAddress": ip_address,
}
