"""What others have said, as PostgreSQL and a log take it."""

from __future__ import annotations

import json
import traceback
from datetime import datetime
from typing import Any, Mapping

CONTROL = {one: f"\\x{one:02x}" for one in (*range(32), *range(127, 160))}


def text(value: Any) -> str:
    """What a text column takes: of bytes, what is no UTF-8 as \\xNN."""
    try:
        said = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    except BaseException as error:  # noqa: BLE001 - an exception of the step's whose own text is a fault
        said = f"its text can't be had: {type(error).__name__}"
    return said.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def headers(given: Mapping[Any, Any]) -> dict[str, str]:
    """As text. What has no text form is left out: then take() says which header is missing."""
    made = {}
    for name, value in given.items():
        if isinstance(value, datetime):
            value = int(value.timestamp())
        if isinstance(value, (str, int, bytes)):
            made[text(name)] = text(value).lower() if isinstance(value, bool) else text(value)
    return made


def dump(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def line(value: Any) -> str:
    """For a log: what strangers have sent begins no line of it."""
    return text(value).translate(CONTROL)


class Trace:
    """An error's traceback for a log, likewise: its frames are lines, and the text of each exception is one."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __str__(self) -> str:
        whole = traceback.TracebackException(type(self.error), self.error, self.error.__traceback__)
        found = [whole]
        for one in found:  # and its causes
            said = line("".join(one.format_exception_only()).rstrip("\n")) + "\n"
            one.format_exception_only = lambda *_, said=said, **__: iter([said])  # type: ignore[method-assign, assignment]
            found += [other for other in (one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())) if other]
        return "".join(whole.format()).rstrip("\n")
