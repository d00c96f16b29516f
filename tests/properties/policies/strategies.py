"""Random requests with random policies, dense with what implementers get wrong.

A request is drawn first, and then policies out of what it contains, so that most statements nearly match. Left out is what
AWS's documentation does not decide: several values without a set operator, a NotPrincipal that names only a part of the
caller, values of another type than the operator's. A number makes an example: hypothesis needs 35 µs for each of 130 draws.
"""

from __future__ import annotations

from random import Random
from typing import Any

from .asking import ANONYMOUS, Json, root, session, user

OURS, THEIRS = "111122223333", "444455556666"
CALLERS = (
    user("Ana"),
    user("Ana") | {"tags": {"team": "red", "Level": "3"}},
    user("staff/Bob"),
    user("staff/Bob") | {"tags": {"team": "*"}},
    session("reader", "s-1"),
    session("reader", "s-1") | {"tags": {"team": "blue"}},
    user("Ana", THEIRS),
    session("reader", "s-1", THEIRS),
    root(),
    root(THEIRS),
    ANONYMOUS,
)
BUCKET = "arn:aws:s3:::bkt"
KEYS = ("/Ana/x.txt", "/red/12:30", "/a*b?c", "/$1(2)$", "/${aws:username}/é", "/Bob/a\nb", "/", "/blue//s-1")
BUCKET_ACTIONS = ("s3:ListBucket", "s3:PutBucketPolicy", "s3:GetBucketPolicy")
OBJECT_ACTIONS = ("s3:GetObject", "s3:PutObject", "s3:GetObjectVersion", "s3:DeleteObject")

# Values that a request may have of a key, the first ones often.
STRINGS = {
    "s3:ExistingObjectTag/team": ("red", "Red", "blue", "a*", "a?c"),
    "aws:UserAgent": ("curl/8.1", "CURL/8.1", "Ana", "$x"),
    "s3:prefix": ("Ana/", "", "Ana/x", "red/*", "${aws:username}/"),
    "s3:RequestObjectTag/Owner": ("Ana", "Bob", "ana", "É"),
}
TOPICS = (f"arn:aws:sns:eu-1:{OURS}:a:b/c", f"arn:aws:sns:eu-1:{OURS}:t", f"arn:aws:sns:us-1:{OURS}:a:b/c")
ARNS = {"aws:SourceArn": (*TOPICS, "arn:aws:s3:::bkt"), "aws:ResourceArn": TOPICS}
# Known from the caller.
CALLER = {"aws:PrincipalArn": (f"arn:aws:iam::{OURS}:role/reader", *(by["arn"] for by in CALLERS if by["arn"]))}
NUMBERS = {"s3:max-keys": ("10", "9", "11", "10.0", "-1"), "s3:signatureAge": ("10", "0", "0.5", "10.00")}
DATES = {
    "aws:CurrentTime": ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5Z", "2026-01-02T00:00:00Z"),
    "aws:EpochTime": ("1767323045", "1767312000"),
}
BOOLEANS = {"aws:SecureTransport": ("true", "false")}
ADDRESSES = {"aws:SourceIp": ("192.0.2.7", "192.0.3.1", "10.0.0.1", "2001:db8::7", "2001:db8:0:1::")}
BYTES = {"aws:RequestTag/bytes": ("AAEC", "/+8=", "QQ==")}
SETS = {"aws:TagKeys": ("a", "b", "A", "a*"), "s3:RequestObjectTagKeys": ("Owner", "Team")}
SINGLE: dict[str, tuple[str, ...]] = STRINGS | ARNS | NUMBERS | DATES | BOOLEANS | ADDRESSES | BYTES

ORDERS = ("Equals", "NotEquals", "LessThan", "LessThanEquals", "GreaterThan", "GreaterThanEquals")
STRING_OPERATORS = ("Equals", "NotEquals", "Like", "NotLike", "EqualsIgnoreCase", "NotEqualsIgnoreCase")
# Names of operators, and what else a policy may compare with than patterns.
KINDS: tuple[tuple[dict[str, tuple[str, ...]], tuple[str, ...], tuple[Any, ...]], ...] = (
    (STRINGS | SETS, tuple(f"String{name}" for name in STRING_OPERATORS), ()),
    (ARNS | CALLER, ("ArnEquals", "ArnLike", "ArnNotEquals", "ArnNotLike"), ()),
    (NUMBERS, tuple(f"Numeric{name}" for name in ORDERS), ("10", 10, "10.00", "0", 0.5)),
    (
        DATES,
        tuple(f"Date{name}" for name in ORDERS),
        (
            "2026-01-02T03:04:05Z",
            "2026-01-02T04:04:05+01:00",
            "2026-01-02T03:04Z",
            "2026-01-02",
            "2026-01",
            "1767323045",
            1767323045,
        ),
    ),
    (BOOLEANS, ("Bool",), ("true", "false", True, False)),
    (
        ADDRESSES,
        ("IpAddress", "NotIpAddress"),
        (
            "192.0.2.0/24",
            "192.0.2.7",
            "192.0.0.0/15",
            "0.0.0.0/0",
            "10.0.0.1/32",
            "2001:DB8::/32",
            "2001:db8::7",
            "::/0",
        ),
    ),
    (BYTES, ("BinaryEquals",), ("AAEC", "/+8=", "QQ==", "QUI=")),
)
KIND_OF = {key: kind for kind in KINDS for key in kind[0]}
MODIFIERS = (
    "{}",
    "{}",
    "{}IfExists",
    "ForAllValues:{}",
    "ForAnyValue:{}",
    "ForAllValues:{}IfExists",
    "ForAnyValue:{}IfExists",
)
OF_SETS = tuple(modifier for modifier in MODIFIERS if ":" in modifier)


# Weights by repetition.
VERSIONS = ("2012-10-17",) * 8 + ("2008-10-17", None)
EFFECTS = ("Allow",) * 5 + ("Deny",) * 2
NEGATED = ("",) * 5 + ("Not",)
CONDITIONS = (0, 0, 0, 1, 1, 1, 1, 2)
SEVERAL = (1, 1, 1, 1, 2, 2, 3)
OFTEN = (True, True, False)
SELDOM = (False, False, True)


def requests(seed: int) -> list[Json]:
    """A request, and the same of another caller."""
    random = Random(seed)
    caller, other = random.choice(CALLERS), random.choice(CALLERS)
    key = random.choice(("", *KEYS))
    action = random.choice(OBJECT_ACTIONS if key else BUCKET_ACTIONS)
    context = {name: [random.choice(values)] for name, values in SINGLE.items() if random.choice(OFTEN)}
    for name, values in SETS.items():
        if random.choice(OFTEN):
            context[name] = random.choice(([], [""], [values[0]], [values[1]], [*values[:2]], [*values]))
    facts = Facts(random, caller, action, key, context)
    of_caller = {
        "identity": [facts.policy() for _ in range(random.choice((0, 1, 1, 2)))],
        "boundary": facts.policy() if random.choice(SELDOM) else None,
        "session": facts.policy() if random.choice(SELDOM) else None,
    }
    shared = {
        "resource_policy": facts.policy(of_bucket=True) if random.choice(OFTEN) else None,
        "resource_account": random.choice((OURS, OURS, OURS, OURS, THEIRS)),
        "action": action,
        "resource": BUCKET + key,
        "context": context,
    }
    none: Json = {"identity": [], "boundary": None, "session": None}
    return [
        {"principal": by} | (none if by["kind"] in ("root", "anonymous") else of_caller) | shared
        for by in (caller, other)
    ]


class Facts:
    """What a request contains, and policies that come near it."""

    def __init__(self, random: Random, caller: Json, action: str, key: str, context: dict[str, list[str]]) -> None:
        self.random = random
        self.caller = caller
        self.action = action
        self.key = key
        self.context = context
        # Names of variables by their values.
        self.variables = {values[0]: name for name, values in context.items() if name in STRINGS and values[0]}
        if caller["kind"] == "user":
            self.variables[caller["arn"].rpartition("/")[2]] = "AWS:username"
        for name, value in caller["tags"].items():
            self.variables[value] = f"aws:PrincipalTag/{name}"

    def policy(self, *, of_bucket: bool = False) -> Json:
        statements = [self.statement(of_bucket=of_bucket) for _ in range(self.random.choice((1, 2, 2, 3)))]
        version = self.random.choice(VERSIONS)
        found: Json = {"Version": version} if version else {}
        return found | {"Statement": statements[0] if len(statements) == 1 else statements}

    def statement(self, *, of_bucket: bool) -> Json:
        choice = self.random.choice
        found: Json = {"Effect": choice(EFFECTS)}
        if choice(OFTEN):
            found["Sid"] = f"S{self.random.randrange(10**9)}"
        if of_bucket:
            found |= self.principal(found["Effect"])
        found[f"{choice(NEGATED)}Action"] = self.some(self.actions())
        found[f"{choice(NEGATED)}Resource"] = self.some(self.resources(of_bucket=of_bucket))
        for _ in range(choice(CONDITIONS)):
            operator, key, values = self.condition()
            found.setdefault("Condition", {}).setdefault(operator, {})[key] = values
        return found

    def some(self, choices: tuple[Any, ...]) -> Any:
        """One value, with or without a list, or several."""
        values = self.random.choices(choices, k=self.random.choice(SEVERAL))
        return values[0] if len(values) == 1 and self.random.choice(OFTEN) else values

    def principal(self, effect: str) -> Json:
        account, arn, kind = self.caller["account"] or OURS, self.caller["arn"], self.caller["kind"]
        whole = [account, f"arn:aws:iam::{account}:root"]
        names = [arn] if kind in ("user", "role") else []
        if kind == "role":
            names.append(f"arn:aws:iam::{account}:role/reader")
        others = (f"arn:aws:iam::{THEIRS}:user/Eve", "999999999999", f"arn:aws:iam::{OURS}:role/writer")
        if effect == "Deny" and self.random.choice(SELDOM):
            spared = self.random.choice(([*names, whole[0]], [*names, whole[1]], [others[0]]))
            return {"NotPrincipal": {"AWS": [*spared, *others[1:]]}}
        value = self.some(("*", *names, *names, *whole, *others))
        return {"Principal": "*" if value == "*" and self.random.choice(OFTEN) else {"AWS": value}}

    def actions(self) -> tuple[str, ...]:
        name = self.action.removeprefix("s3:")
        near = (self.action, self.action.lower(), f"S3:{name}", f"s3:{name[:3]}*", f"s3:*{name[3:]}", f"s3:?{name[1:]}")
        return (*near, "s3:*", "*", "s3:RestoreObject" if self.key else "s3:GetBucketLocation")

    def resources(self, *, of_bucket: bool) -> tuple[str, ...]:
        of_key = tuple(BUCKET + (pattern or "/") for pattern in self.patterns(self.key)) if self.key else (BUCKET,)
        if of_bucket:
            return (*of_key, f"{BUCKET}/*" if self.key else f"{BUCKET}*")
        return (*of_key, "*", "arn:aws:s3:::*", "arn:aws:s3:::b?t*", "arn:*:s3:::bkt*", f"{BUCKET}/*", BUCKET)

    def patterns(self, text: str) -> tuple[str, ...]:
        """The text as literal as possible, with wildcards, variables and defaults in it, and what nearly matches."""
        literal = "".join(f"${{{character}}}" if character in "*?$" else character for character in text)
        at = self.random.randrange(1, max(len(text), 2))
        if "${" in text[: at + 1]:
            at = 1  # Not in the middle of a variable.
        start, end = text[:at], text[at:]
        found = [literal, literal, text, f"{start}*", f"{start}*{end}", f"{start}?{end[1:]}", f"{start}?{end}"]
        found += [f"{start}{end[1:]}*", f"{text[:1]}*{text[-1:]}", f"{text[:1]}**?*"]
        found += [text.swapcase(), f"{text}?", text[:-1]]
        # Characters that would match as wildcards.
        found += [f"{start}{text}{end[1:]}" for text in ("${*}", "${?}", "${aws:PrincipalTag/team, '*'}")]
        for value, name in self.variables.items():
            if value in text:
                found += [text.replace(value, f"${{{name}}}")] * 2
        for value in ("Ana", "red", "blue", "a*"):
            if value in text:
                found.append(text.replace(value, f"${{aws:PrincipalTag/none, '{value}'}}"))
                found.append(text.replace(value, f"${{aws:PrincipalTag/team, '{value}'}}"))
                found.append(text.replace(value, "${aws:PrincipalTag/team}"))
        return tuple(found)

    def condition(self) -> tuple[str, str, Any]:
        choice = self.random.choice
        key = choice((*self.context, *KIND_OF))
        values, operators, constants = KIND_OF[key]
        name = choice((key, key, key.lower(), key.upper())) if "/" not in key else key
        if choice(SELDOM) and choice(SELDOM):
            return "Null", name, choice(("true", "false", True, False))
        # What the request has of the key, and what it might have.
        texts: tuple[str, ...] = (*self.context.get(key, [])[:2], *values[key])
        if constants:
            expected = self.some((*texts, *constants) if values in (NUMBERS, DATES) else constants)
        else:
            expected = self.some((*self.of_text(choice(texts), values), *texts))
        return choice(OF_SETS if key in SETS else MODIFIERS).format(choice(operators)), name, expected

    def of_text(self, text: str, kind: dict[str, Any]) -> tuple[str, ...]:
        if "aws:SourceArn" not in kind:
            return self.patterns(text) if text else ("", "*", "?")
        head, tail = text.rsplit(":", 1)
        parts = text.split(":", 5)
        whole = (
            text,
            text,
            f"{head}:*",
            f"{head}:{tail[:-1]}?",
            f"{head}:{tail.upper()}",
            f"{text}x",
            f"{head}:${{aws:username}}",
        )
        # One wildcard for two parts: StringLike matches, ArnLike does not.
        several = (f"{':'.join(parts[:3])}:*:{parts[5]}",) * 4 if ":" in parts[5] else ()
        return (
            *whole,
            *several,
            *(":".join("*" if at == free else part for at, part in enumerate(parts)) for free in range(1, 6)),
        )
