"""The base of the bodies of requests to the admin API, and those of several routes. Must not know what is done with them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

# Only with a bound does pydantic refuse text that is no Unicode (lone surrogates), which Rust cannot take. It is longer
# than every name, so that a name that is too long is refused with the rule for names.
_TEXT_MAX: Final = 1024
Name = Annotated[str, Field(max_length=_TEXT_MAX)]


class Order(BaseModel):
    """A body whose values are of the types of JSON as they stand: `"1"` and `true` are no numbers, `1` is no truth."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CheckBody(Order):
    """How a check is done. `bytes_per_sec` 0 sets no bound."""

    read_content: bool = True
    threads: int = Field(default=2, ge=1, le=64)
    bytes_per_sec: int = Field(default=0, ge=0, le=1 << 40)
