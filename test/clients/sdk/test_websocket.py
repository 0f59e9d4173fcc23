"""The web socket of the gateway client, against what a server must not send. No package but ours is needed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import unittest
from typing import Any

from agentd_client._websocket import (
    Close,
    HandshakeRefused,
    MessageReader,
    Ping,
    WebSocketClosed,
    encode_frame,
    open_web_socket,
)

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MUST_NOT = {
    "a masked frame": (b"\x81\x81\0\0\0\0a", 1002),
    "a reserved bit": (b"\xc1\x01a", 1002),
    "an unknown opcode": (b"\x83\x01a", 1002),
    "a fragmented ping": (b"\x09\x01a", 1002),
    "a long ping": (b"\x89\x7e\x00\x7e", 1002),
    "a continuation of nothing": (b"\x80\x01a", 1002),
    "a message inside another": (b"\x01\x01a\x81\x01b", 1002),
    "a binary message": (b"\x82\x01a", 1003),
    "text that is not UTF-8": (b"\x81\x01\xff", 1007),
    "a message beyond the limit": (b"\x81\x7e\x00\xc8", 1009),
    "fragments beyond the limit": (b"\x01\x50" + b"a" * 80 + b"\x80\x50" + b"a" * 80, 1009),
    "a length that no memory can do": (b"\x81\x7f" + b"\xff" * 8, 1009),
}


class Reading(unittest.TestCase):
    def test_fragments_with_a_ping_between_are_one_message_however_they_are_cut(self) -> None:
        data = b"\x01\x02he\x89\x02hi\x00\x01l\x80\x02lo\x81\x04\xc3\xa4\xc3\xb6\x88\x05\x11\x31key"
        for size in (1, 2, 3, len(data)):
            reader = MessageReader(100)
            got: list[Any] = []
            for at in range(0, len(data), size):
                got += reader.feed(data[at : at + size])
            self.assertEqual(got, [Ping(b"hi"), "hello", "äö", Close(4401, "key")])

    def test_what_a_server_must_not_send_has_its_close_code(self) -> None:
        for name, (data, code) in MUST_NOT.items():
            with self.subTest(name), self.assertRaises(WebSocketClosed) as raised:
                MessageReader(100).feed(data)
            self.assertEqual(raised.exception.code, code, name)

    def test_frames_are_masked_at_every_length(self) -> None:
        for size, head in ((0, 2), (125, 2), (126, 4), (65535, 4), (65536, 10)):
            payload = bytes(at % 251 for at in range(size))
            frame = encode_frame(1, payload, b"abcd")
            self.assertTrue(frame[1] & 0x80)
            self.assertEqual(frame[head : head + 4], b"abcd")
            masked = frame[head + 4 :]
            self.assertEqual(bytes(b ^ b"abcd"[at % 4] for at, b in enumerate(masked)), payload)


async def serve(accept: str | None, talk: bytes) -> tuple[asyncio.Server, str, list[bytes]]:
    got: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key"))
        value = accept or base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: keep-alive, Upgrade"]
        writer.write("\r\n".join([*lines, f"Sec-WebSocket-Accept: {value}", "", ""]).encode() + talk)
        got.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/api/ws", got


class OnTheWire(unittest.IsolatedAsyncioTestCase):
    async def test_a_server_that_must_not_is_told_why(self) -> None:
        server, url, got = await serve(None, b"\x82\x01a")
        async with server:
            socket = await open_web_socket(url, None, 100)
            with self.assertRaises(WebSocketClosed) as raised:
                await socket.read()
            self.assertEqual(raised.exception.code, 1003)
            while not got:
                await asyncio.sleep(0)
            socket.abort()
        self.assertEqual(got[0][0], 0x88)
        self.assertEqual(bytes(b ^ got[0][2 + at] for at, b in enumerate(got[0][6:8])), (1003).to_bytes(2, "big"))

    async def test_an_answer_that_opens_no_socket_is_refused(self) -> None:
        server, url, _ = await serve("wrong", b"")
        async with server:
            with self.assertRaises(HandshakeRefused):
                await open_web_socket(url, None, 100)


if __name__ == "__main__":
    unittest.main()
