"""The declaration of a setting, and the functions that parse values: each raises TypeError, whose message says what was
expected."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

# N of scrypt that an operator can choose. With r = 8, the largest needs 1 GiB.
SCRYPT_N: Final = tuple(1 << log2 for log2 in range(15, 21))
# What everybody may do with a bucket, by the names of `mc anonymous set`.
BUCKET_ACCESS: Final = ("download", "upload", "public")
# The longest value that a message repeats.
_SHOWN_MAX: Final = 100
DOMAIN: Final = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything about a setting except its value.

    `low` and `high` are inclusive bounds in `unit`. `variable` is False for a setting that exists only on the command
    line.
    """

    doc: str
    parse: Callable[[object], Any]
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    requirement: str = ""
    secret: bool = False
    variable: bool = True


def setting(default: object, doc: str, parse: Callable[[object], Any], **facts: Any) -> Any:
    """A field with its default and everything else about it."""
    return field(
        default=default, metadata={"setting": Setting(doc, parse, **facts)}, repr=not facts.get("secret", False)
    )


def text(value: object) -> str:
    """The text as it is."""
    if not isinstance(value, str):
        raise TypeError("text")
    return value


def integer(value: object) -> int:
    """A whole number of at most 18 digits."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError("a whole number")
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        raise TypeError("a whole number")
    return int(value)


def number(value: object) -> float:
    """A decimal number without an exponent."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str) or not re.fullmatch(r"[+-]?[0-9]{1,12}(\.[0-9]{1,9})?", value):
        raise TypeError("a number")
    return float(value)


def number_wanted(error: Mapping[str, Any], low: float | None = None, high: float | None = None) -> str | None:
    """What a number must be and is not, from an error of pydantic and what is known of the bounds beside it.

    None: the error is about something else.
    """
    kind, broken = error["type"], error.get("ctx", {})
    low, high = broken.get("ge", low), broken.get("le", high)
    if kind.startswith("int_"):
        wanted = "a whole number"
    elif kind.startswith("float_") or kind in ("finite_number", "greater_than_equal", "less_than_equal"):
        wanted = "a number"
    else:
        return None
    if low is not None and high is not None:
        wanted += f" from {low} to {high}"
    elif low is not None or high is not None:
        wanted += f" of at least {low}" if low is not None else f" of at most {high}"
    given = error["input"]
    return wanted + (
        f", not {given!r}" if isinstance(given, (str, int, float)) and len(str(given)) <= _SHOWN_MAX else ""
    )


def boolean(value: object) -> bool:
    """A truth value: any of the usual words, such as `yes` or `off`."""
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else ""
    if word in {"true", "1", "yes", "on"}:
        return True
    if word in {"false", "0", "no", "off"}:
        return False
    raise TypeError("true or false")


def directory(value: object) -> Path:
    """A path, with `~` expanded."""
    path = value if isinstance(value, Path) else Path(text(value))
    try:
        return path.expanduser()
    except RuntimeError:
        raise TypeError("a path whose ~ stands for a known home directory") from None


def paths(value: object) -> tuple[Path, ...]:
    """Paths, with `~` expanded: a list, or one text with commas between them."""
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) and word.strip() for word in words):
        raise TypeError("a list of paths")
    return tuple(directory(word.strip()) for word in words)


def names(value: object) -> tuple[str, ...]:
    """Each once: a list, or one text with spaces or commas between them."""
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise TypeError("a list of names")
    return tuple(dict.fromkeys(words))


def buckets(value: object) -> tuple[str, ...]:
    """Names of buckets, alone or with the access of everybody behind a colon: a list, or one text as of `names`."""
    try:
        found = names(value)
    except TypeError:
        found = (":",)
    if (
        any(access not in ("", *BUCKET_ACCESS) for _, _, access in (word.partition(":") for word in found))
        or ":" in found
    ):
        raise TypeError("a list of buckets, alone or with :download, :upload or :public behind the name")
    return found


def domains(value: object) -> tuple[str, ...]:
    """Host names, in lower case and each once: a list, or one text with spaces or commas between them."""
    try:
        found = tuple(dict.fromkeys(word.lower().rstrip(".") for word in names(value)))
    except TypeError:
        found = ("",)
    if not all(DOMAIN.fullmatch(name) for name in found):
        raise TypeError("a list of host names")
    return found


def certified_names(value: object) -> tuple[str, ...]:
    """Host names that a CA can check by connecting to them: neither wildcards nor addresses."""
    try:
        found = domains(value)
    except TypeError:
        found = ()
    if not found or any(name.rpartition(".")[2].isdigit() for name in found):
        raise TypeError("a list of host names, such as s3.example.com, without wildcards and addresses")
    return found


def networks(value: object) -> tuple[str, ...]:
    """Addresses and networks in CIDR notation, each once: a list, or one text with spaces or commas between them."""
    try:
        return tuple(dict.fromkeys(str(ipaddress.ip_network(word)) for word in names(value)))
    except (TypeError, ValueError):
        raise TypeError("a list of addresses and networks, such as 10.0.0.0/8") from None
