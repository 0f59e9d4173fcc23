"""The parts that do no input or output."""

from __future__ import annotations

import time
import typing
import unittest
import unittest.mock
from email.utils import formatdate

import agentd_client
from agentd_client import AgentClient, AsyncAgentClient, RetryPolicy, types
from agentd_client._request import ABSENT, Head, Request, Server, read_answer, segment, to_error, unstreamed
from agentd_client._retry import Retries
from agentd_client.errors import (
    AgentApiError,
    AgentConnectionError,
    AgentProtocolError,
    AgentTimeoutError,
    AuthenticationError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
)
from agentd_client.sse import SseFrame, SseParser


class Package(unittest.TestCase):
    def test_everything_public_is_there(self) -> None:
        for name in agentd_client.__all__:
            self.assertTrue(hasattr(agentd_client, name), name)

    def test_both_clients_have_the_same_documented_methods(self) -> None:
        def public(client: type) -> list[str]:
            return [name for name in vars(client) if not name.startswith("_")]

        self.assertEqual(public(AgentClient), public(AsyncAgentClient))
        self.assertLessEqual({"create_chat_completion", "stream_chat_completion"}, set(public(AgentClient)))
        for name in public(AgentClient):
            self.assertTrue(getattr(AgentClient, name).__doc__, name)
            self.assertTrue(typing.get_type_hints(getattr(AgentClient, name), localns=vars(types)), name)

    def test_types_are_real_at_run_time(self) -> None:
        shapes = [value for value in vars(types).values() if isinstance(value, type)]
        self.assertGreater(len(shapes), 50)
        for shape in shapes:
            typing.get_type_hints(shape)
        self.assertIn("completed", typing.get_args(types.RunStatus))


class Sse(unittest.TestCase):
    TEXT = (
        "\ufeff: connected\n\n"
        'event: a\nid: 1\ndata: {"x":\ndata: "é"}\n\n'
        "event: unused\n\n"
        "retry: 250\r\ndata:second\r\n\r\n"
        "id: bad\0id\rdata\rdata: third\r\r"
        ": stream closed\n\n"
        "data: never whole"
    ).encode()
    FRAMES = [
        SseFrame('{"x":\n"é"}', "a", "1"),
        SseFrame("second", "message", "1"),
        SseFrame("\nthird", "message", "1"),
    ]

    def test_frames_are_the_same_wherever_the_bytes_are_cut(self) -> None:
        for size in range(1, len(self.TEXT) + 1):
            parser = SseParser()
            pieces = [self.TEXT[start : start + size] for start in range(0, len(self.TEXT), size)]
            frames = [frame for piece in pieces for frame in parser.feed(piece)]
            self.assertEqual(frames, self.FRAMES, size)
            self.assertEqual((parser.retry, parser.comment), (0.25, "stream closed"))

    def test_a_frame_without_end_is_refused(self) -> None:
        for piece in (b"x" * (1 << 23), b"data: " + b"x" * (1 << 23) + b"\n"):
            parser = SseParser()
            with self.assertRaises(AgentProtocolError):
                for _ in range(8):
                    parser.feed(piece)


class Requests(unittest.TestCase):
    def test_addresses(self) -> None:
        server = Server("http://[::1]:8642/base/", "key")
        request = Request("GET", "/v1/x", query={"a": None, "b": True, "c": [1, 2], "d": "ä &", "e": 1.5})
        self.assertEqual(server.target(request), "/base/v1/x?b=true&c=1&c=2&d=%C3%A4%20%26&e=1.5")
        self.assertEqual(server.origin, "http://[::1]:8642")
        for suffix in ("", "/", "/v1", "/v1/"):
            self.assertEqual(Server("https://example.org/x" + suffix, None).target(Request("GET", "/v1/y")), "/x/v1/y")

    def test_the_key_comes_from_the_argument_or_the_environment(self) -> None:
        def sent(api_key: str | None) -> str | None:
            return Server("http://x", api_key).header_fields(Request("GET", "/")).get("authorization")

        with unittest.mock.patch.dict("os.environ", {"API_SERVER_KEY": "from-environment"}):
            self.assertEqual([sent(None), sent("mine"), sent("")], ["Bearer from-environment", "Bearer mine", None])
        with unittest.mock.patch.dict("os.environ", clear=True):
            self.assertIsNone(sent(None))

    def test_bad_addresses_are_refused(self) -> None:
        for url in ("", "127.0.0.1:8642", "ftp://x", "http://", "http://u:p@x", "http://x?y", "http://x:99999"):
            with self.assertRaises(ValueError):
                Server(url, None)

    def test_the_key_is_in_no_text(self) -> None:
        for client in (AgentClient, AsyncAgentClient):
            self.assertNotIn("secret-key", repr(client("http://127.0.0.1:1", "secret-key")))
        with self.assertRaises(ValueError) as caught:
            Server("http://x", "secret-key\n").header_fields(Request("GET", "/"))
        self.assertNotIn("secret-key", str(caught.exception))

    def test_path_parameters_cannot_leave_their_place(self) -> None:
        self.assertEqual(segment("a/b?c#d%"), "a%2Fb%3Fc%23d%25")
        for value in ("", ".", ".."):
            with self.assertRaises(ValueError):
                segment(value)

    def test_headers_cannot_be_injected(self) -> None:
        for value in ("a\r\nb: c", "a\n", "a\0", "\u20ac"):
            with self.assertRaises(ValueError):
                Request("GET", "/", headers={"X-A": value}).header_fields()
        with self.assertRaises(ValueError):
            Request("GET", "/", extra_headers={"a\r\nb": "c"}).header_fields()

    def test_bodies(self) -> None:
        self.assertIsNone(Request("POST", "/").content())
        self.assertEqual(Request("POST", "/", body=None).content(), b"null")
        self.assertEqual(Request("POST", "/", body={"a": "ä"}).content(), '{"a":"ä"}'.encode())
        self.assertEqual(Request("POST", "/", body=b"raw").content(), b"raw")
        self.assertNotIn("content-type", Server("http://x", None).header_fields(Request("POST", "/", body=ABSENT)))
        with self.assertRaises(ValueError):
            Request("POST", "/", body=float("nan")).content()

    def test_a_body_that_asks_for_a_stream_is_refused_where_none_can_come(self) -> None:
        self.assertEqual(unstreamed({"stream": False}), {"stream": False})
        with self.assertRaises(ValueError):
            unstreamed({"stream": True})


class Answers(unittest.TestCase):
    def test_by_what_was_asked_for(self) -> None:
        head = Head(200, {})
        self.assertEqual(read_answer(Request("GET", "/"), head, b'{"a":1}'), {"a": 1})
        self.assertEqual(read_answer(Request("GET", "/", accept="text/plain"), head, b"a 1\n"), "a 1\n")
        self.assertEqual(read_answer(Request("GET", "/", accept="image/png"), head, b"\x89"), b"\x89")
        self.assertIsNone(read_answer(Request("DELETE", "/", accept=""), head, b""))
        self.assertIsNone(read_answer(Request("DELETE", "/"), Head(204, {}), b""))
        with self.assertRaises(AgentProtocolError):
            read_answer(Request("GET", "/"), head, b"<html>")

    def test_errors_have_everything_the_envelope_says(self) -> None:
        headers = {"x-request-id": "req_1", "x-agent-run-id": "run_1", "retry-after": "7", "x-should-retry": "false"}
        body = b'{"error":{"message":"m","type":"t","param":"p","code":"c","details":{"a":1}}}'
        error = to_error(Head(429, headers), body)
        self.assertIsInstance(error, RateLimitError)
        self.assertEqual((error.status, error.code, error.type, error.param), (429, "c", "t", "p"))
        self.assertEqual((error.message, error.request_id, error.run_id), ("m", "req_1", "run_1"))
        self.assertEqual((error.retry_after, error.should_retry, error.details), (7.0, False, {"a": 1}))

    def test_classes_of_errors(self) -> None:
        classes = {
            401: AuthenticationError,
            403: PermissionDeniedError,
            404: NotFoundError,
            409: ConflictError,
            410: NotFoundError,
            500: ServerError,
            503: ServerError,
        }
        for status, expected in classes.items():
            self.assertIs(type(to_error(Head(status, {}), b"")), expected)
        for status in (302, 400, 413, 422):
            self.assertIs(type(to_error(Head(status, {}), b"[1]")), AgentApiError)

    def test_retry_after_may_be_a_date(self) -> None:
        later = to_error(Head(503, {"retry-after": formatdate(time.time() + 30, usegmt=True)}), b"")
        self.assertTrue(25 < (later.retry_after or 0) <= 30)
        self.assertIsNone(to_error(Head(503, {"retry-after": "soon"}), b"").retry_after)


class Retrying(unittest.TestCase):
    POLICY = RetryPolicy(max_retries=2, first_delay=1.0, max_delay=3.0, max_retry_after=10.0)
    GET = Request("GET", "/")

    def waits(self, request: Request, error: Exception) -> int:
        """How often the request would be sent again."""
        retries = Retries(self.POLICY, request)
        for count in range(10):
            try:
                retries.after(error)  # type: ignore[arg-type]
            except type(error):
                return count
        return 10

    def test_only_what_may_be_repeated(self) -> None:
        lost = AgentConnectionError("x")
        self.assertEqual(self.waits(self.GET, lost), 2)
        self.assertEqual(self.waits(Request("POST", "/"), lost), 0)
        self.assertEqual(self.waits(Request("DELETE", "/"), lost), 0)
        self.assertEqual(self.waits(Request("POST", "/", headers={"Idempotency-Key": None}), lost), 0)
        self.assertEqual(self.waits(Request("POST", "/", headers={"Idempotency-Key": "k"}), lost), 2)
        self.assertEqual(self.waits(Request("POST", "/", extra_headers={"idempotency-key": "k"}), lost), 2)

    def test_only_what_may_pass(self) -> None:
        def error(status: int, **headers: str) -> AgentApiError:
            return to_error(Head(status, {name.replace("_", "-"): value for name, value in headers.items()}), b"")

        for status in (408, 429, 500, 502, 503, 504):
            self.assertEqual(self.waits(self.GET, error(status)), 2, status)
        for status in (302, 400, 401, 403, 404, 405, 409, 410, 413):
            self.assertEqual(self.waits(self.GET, error(status)), 0, status)
        self.assertEqual(self.waits(self.GET, error(502, x_should_retry="false")), 0)
        self.assertEqual(self.waits(self.GET, error(409, x_should_retry="true")), 2)
        self.assertEqual(self.waits(self.GET, error(503, retry_after="11")), 0)
        self.assertEqual(self.waits(self.GET, AgentTimeoutError("x")), 2)
        self.assertEqual(self.waits(self.GET, AgentProtocolError("x")), 0)

    def test_waits_grow_to_a_bound_and_are_no_shorter_than_asked(self) -> None:
        for failures, longest in ((1, 1.0), (2, 2.0), (3, 3.0), (500, 3.0)):
            self.assertTrue(longest * 0.75 <= self.POLICY.delay(failures) <= longest)
        self.assertEqual(self.POLICY.delay(1, 9.0), 9.0)


if __name__ == "__main__":
    unittest.main()
