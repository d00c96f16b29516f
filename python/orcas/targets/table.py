"""A table of a file in TOML, from which values are taken one by one and checked. No message shows a secret."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from orcas.errors import ConfigurationError

_TEXT_LEN_MAX: Final = 2_048
_LIST_LEN_MAX: Final = 32


class Table:
    """The rest of a table that is being read. `where` begins each message."""

    def __init__(self, where: str, values: dict[str, Any]) -> None:
        self._where = where
        self._values = dict(values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def left(self) -> str | None:
        """A name that nothing has taken."""
        return min(self._values, default=None)

    def rest(self) -> dict[str, Any]:
        """All that nothing has taken, which is taken now."""
        values, self._values = self._values, {}
        return values

    def wrong(self, what: str) -> ConfigurationError:
        """The error for a mistake in it."""
        return ConfigurationError(f"{self._where} {what}.")

    def flag(self, name: str) -> bool:
        """A boolean; false by default."""
        value = self._values.pop(name, False)
        if not isinstance(value, bool):
            raise self.wrong(f"must have true or false for {name}")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        """A number from 1 on."""
        value = self._values.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self.wrong(f"must have {name} from 1 to {most}")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> Any:
        """One of these words; None without it."""
        value = self._values.pop(name, None)
        if value is not None and value not in choices:
            raise self.wrong(f"has the {name} {value!r}: it may be {', '.join(choices[:-1])} or {choices[-1]}")
        return value

    def text(self, name: str) -> str | None:
        """Characters that can be seen; None without it."""
        value = self._values.pop(name, None)
        if value is not None and not (isinstance(value, str) and 0 < len(value) <= _TEXT_LEN_MAX):
            raise self.wrong(f"needs a {name} of at most {_TEXT_LEN_MAX} ASCII characters")
        return value

    def matching(self, name: str, pattern: re.Pattern[str], wanted: str) -> str:
        """What the whole pattern matches. Must be there."""
        value = self._values.pop(name, None)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise self.wrong(f"needs a {name}: {wanted}")
        return value

    def texts(self, name: str, wanted: str, allows: Callable[[str], bool], *, least: int = 1) -> tuple[str, ...]:
        """A list of at least `least`, of ASCII that `allows` does not refuse. Must be there."""
        values = self._values.pop(name, None)
        if not isinstance(values, list) or not least <= len(values) <= _LIST_LEN_MAX:
            raise self.wrong(f"needs {name}, a list of {least} to {_LIST_LEN_MAX}, each {wanted}")
        for value in values:
            try:
                good = isinstance(value, str) and re.fullmatch(r"[!-~]{1,255}", value) and allows(value)
            except ValueError:
                good = False
            if not good:
                # It may have a password in it.
                raise self.wrong(f"needs {name}, each {wanted}")
        return tuple(values)

    def tables(self, name: str) -> list[Table]:
        """A list of tables. Must be there."""
        values = self._values.pop(name, None)
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.wrong(f"needs {name}, a list of tables")
        return [Table(self._where, value) for value in values]

    def path(self, name: str) -> Path | None:
        """A file; None without it."""
        value = self.text(name)
        return None if value is None else Path(value).expanduser()

    def secret(self, name: str) -> str | None:
        """A value, or what the file has that `{name}_file` names, without blanks around it; None without both."""
        value, file = self._values.pop(name, None), self._values.pop(f"{name}_file", None)
        if value is not None and file is not None:
            raise self.wrong(f"needs either {name} or {name}_file")
        if file is not None:
            try:
                value = Path(str(file)).expanduser().read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise self.wrong(
                    f"names a {name}_file that cannot be read: {getattr(error, 'strerror', error)}"
                ) from None
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(f"has a {name} that is empty or no text")
        return value.strip()
