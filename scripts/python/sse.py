"""Server-sent events (WHATWG HTML, 9.2): bytes in, frames out. Does no input or output of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import AgentProtocolError

#: A frame that grows beyond this is refused: no server of this API sends such.
MAX_FRAME_BYTES = 32 * 1024 * 1024

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True)
class SseFrame:
    """One event. `id` is the last id the stream has given, which may be from an earlier frame."""

    data: str
    event: str
    id: str | None


class SseParser:
    """Takes the bytes of one connection, cut anywhere. A frame that never ends is never given."""

    def __init__(self) -> None:
        #: Seconds to wait before connecting again, where the server said so.
        self.retry: float | None = None
        #: The newest comment line.
        self.comment: str | None = None
        self._partial = bytearray()
        self._after_cr = False
        self._first_line = True
        self._size = 0
        self._data: list[str] = []
        self._event = ""
        self._id: str | None = None

    def feed(self, chunk: bytes) -> list[SseFrame]:
        """The frames that `chunk` completes."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        first, *rest = _LINE_END.split(chunk)
        self._partial += first
        frames: list[SseFrame] = []
        for following in rest:
            frame = self._take_line(bytes(self._partial))
            if frame is not None:
                frames.append(frame)
            self._partial = bytearray(following)
        if self._size + len(self._partial) > MAX_FRAME_BYTES:
            raise AgentProtocolError(f"an event of the stream is larger than {MAX_FRAME_BYTES} bytes")
        return frames

    def _take_line(self, line: bytes) -> SseFrame | None:
        text = line.decode("utf-8", "replace")
        if self._first_line:
            self._first_line = False
            text = text.removeprefix("\ufeff")
        if text == "":
            return self._dispatch()
        field, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(line)
        elif field == "event":
            self._event = value
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit():
            self.retry = int(value) / 1000
        elif field == "":
            self.comment = value
        return None

    def _dispatch(self) -> SseFrame | None:
        data, event = self._data, self._event
        self._data, self._event, self._size = [], "", 0
        return SseFrame("\n".join(data), event or "message", self._id) if data else None
