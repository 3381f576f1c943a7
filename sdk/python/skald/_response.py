"""What the guard for requests answers, and what a request says of that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, MutableMapping, Sequence

from ._text import dump

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass
class Response:
    status: int
    content_type: str
    headers: list[list[str]]
    body: bytes
    problem: str | None = None

    async def send(self, send: Send) -> None:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers]
        if self.content_type:
            headers.append((b"content-type", self.content_type.encode("latin-1")))
        if self.status not in (204, 304):
            headers.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def problem(name: str | None, status: int, title: str, detail: str) -> Response:
    body = dump({"type": f"/problems/{name}" if name else "about:blank", "title": title, "status": status, "detail": detail})
    return Response(status, "application/problem+json", [["Retry-After", "1"]] if status == 503 else [], body, name)


def wait_preference(headers: Sequence[tuple[bytes, bytes]]) -> int | None:
    for name, value in headers:
        if name.lower() == b"prefer" and (found := re.search(rb'(?:^|,)\s*wait\s*=\s*"?(\d{1,9})"?\s*(?:[;,]|$)', value, re.IGNORECASE)):
            return int(found[1])
    return None
