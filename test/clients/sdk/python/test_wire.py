"""Both clients against bytes that real servers and proxies send, and against connections that break."""

from __future__ import annotations

import asyncio
import gc
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
from typing import Any

from agentd_client import (
    AgentApiError,
    AgentClient,
    AgentConnectionError,
    AgentProtocolError,
    AgentTimeoutError,
    AsyncAgentClient,
    NotFoundError,
    RetryPolicy,
    ServerError,
    StreamCutError,
)
from flavours import FAST, Blocking, OnLoop
from wire import WireServer, answer, chunk, stream

OK = answer("200 OK", b'{"status":"ok"}')
ASK: Any = {"messages": [{"role": "user", "content": "hi"}]}


def event(seq: int, kind: str = "message.delta") -> str:
    return f'event: {kind}\nid: {seq}\ndata: {{"event":"{kind}","seq":{seq}}}\n\n'


def seqs(events: list[Any]) -> list[int]:
    return [each["seq"] for each in events]


class Cases:
    def get(self: Any, *answers: bytes | None, **options: Any) -> tuple[Any, list[str]]:
        """What `get_health` gives, or the error, and what the server was asked."""
        pieces = options.pop("pieces", 1 << 20)
        with WireServer(answers, pieces) as server:
            try:
                return self.call({"base_url": server.url, **options}, "get_health"), server.requests
            except AgentConnectionError as error:
                return error, server.requests
            except (AgentApiError, AgentProtocolError) as error:
                return error, server.requests

    def follow(self: Any, *answers: bytes | None, **named: Any) -> tuple[list[int], Any, list[str]]:
        options = named.pop("options", {})
        with WireServer(answers) as server:
            events, error = self.collect({"base_url": server.url, **options}, "stream_run_events", "run_1", **named)
            return seqs(events), error, server.requests

    def ask(self: Any, *answers: bytes | None, **named: Any) -> tuple[list[Any], Any, list[str]]:
        with WireServer(answers) as server:
            events, error = self.collect({"base_url": server.url}, "stream_chat_completion", ASK, **named)
            return events, error, server.requests

    # Answers.

    def test_bodies_are_read_however_they_are_framed(self: Any) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
        body = b'{"status":"ok"}'
        framed = {
            "length": OK,
            "close": head + b"\r\n" + body,
            "chunks": head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(body[:4]) + chunk(body[4:]) + b"0\r\n\r\n",
            "extension, trailer": head + b"transfer-encoding: chunked\r\n\r\nF;a=b\r\n" + body + b"\r\n0\r\nx: y\r\n\r\n",
            "informational": b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
            "http 1.0": OK.replace(b"HTTP/1.1", b"HTTP/1.0"),
        }
        for name, bytes_ in framed.items():
            for pieces in (1, 1 << 20):
                with self.subTest(name, pieces=pieces):
                    self.assertEqual(self.get(bytes_, pieces=pieces)[0], {"status": "ok"})

    def test_broken_answers_are_no_answers(self: Any) -> None:
        head = b"HTTP/1.1 200 OK\r\n"
        once = {"retry": RetryPolicy(max_retries=0)}
        for bytes_, expected in (
            (b"", AgentConnectionError),
            (b"HTTP/1.1 200 OK\r\ncontent-le", (AgentConnectionError, AgentProtocolError)),
            (head + b"content-length: 9\r\n\r\n{}", AgentConnectionError),
            (head + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n", AgentConnectionError),
            (head + b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", (AgentConnectionError, AgentProtocolError)),
            (b"SSH-2.0-x\r\n\r\n", AgentProtocolError),
            (head + b"x: " + b"y" * 70_000 + b"\r\n\r\n", AgentProtocolError),
            (head + b"content-length: 6\r\n\r\n<html>", AgentProtocolError),
        ):
            with self.subTest(bytes_[:60]):
                self.assertIsInstance(self.get(bytes_, **once)[0], expected)

    def test_a_get_is_tried_again_until_it_succeeds_or_the_bound_is_reached(self: Any) -> None:
        busy = answer("503 Unavailable", b'{"error":{"message":"no","code":"server_draining"}}')
        result, requests = self.get(None, busy, OK)
        self.assertEqual((result, len(requests)), ({"status": "ok"}, 3))
        error, requests = self.get(busy, busy, busy, OK)
        self.assertIsInstance(error, ServerError)
        self.assertEqual((error.code, len(requests)), ("server_draining", 3))

    def test_retry_after_is_waited_for(self: Any) -> None:
        began = time.monotonic()
        result, _ = self.get(answer("429 Busy", b"{}", retry_after="1"), OK)
        self.assertEqual(result, {"status": "ok"})
        self.assertGreaterEqual(time.monotonic() - began, 1.0)

    def test_x_should_retry_false_ends_it(self: Any) -> None:
        error, requests = self.get(answer("502 Bad", b"{}", x_should_retry="false"), OK)
        self.assertEqual((error.status, len(requests)), (502, 1))

    def test_a_redirect_is_not_followed(self: Any) -> None:
        error, requests = self.get(answer("302 Found", b"", location="http://127.0.0.1:1/"), OK)
        self.assertEqual((error.status, len(requests)), (302, 1))

    def test_a_post_is_sent_once(self: Any) -> None:
        for lost in (None, answer("503 Unavailable", b"{}", retry_after="0")):
            with WireServer([lost, OK]) as server:
                with self.assertRaises((AgentConnectionError, ServerError)):
                    self.call({"base_url": server.url}, "create_chat_completion", ASK)
                self.assertEqual(len(server.requests), 1)

    def test_a_post_with_an_idempotency_key_is_sent_again(self: Any) -> None:
        with WireServer([None, OK]) as server:
            self.call({"base_url": server.url}, "create_chat_completion", ASK, idempotency_key="k")
            self.assertEqual(len(server.requests), 2)
            self.assertEqual(server.requests[0], server.requests[1])

    def test_what_is_sent(self: Any) -> None:
        with WireServer([OK]) as server:
            options = {"base_url": server.url + "/base", "api_key": "the-key"}
            self.call(options, "create_chat_completion", ASK, agent_model="m", extra_headers={"X-Mine": "1"})
            head, _, body = server.requests[0].partition("\r\n\r\n")
            line, *fields = head.split("\r\n")
            headers = dict(field.lower().split(": ", 1) for field in fields)
            self.assertEqual(len(headers), len(fields), "no header twice")
            self.assertEqual(line, "POST /base/v1/chat/completions HTTP/1.1")
            self.assertEqual(headers["authorization"], "bearer the-key")
            self.assertEqual((headers["x-agent-model"], headers["x-mine"]), ("m", "1"))
            self.assertEqual((headers["content-type"], headers["accept"]), ("application/json",) * 2)
            self.assertEqual(headers["host"], server.url.removeprefix("http://"))
            self.assertEqual(headers["content-length"], str(len(body)))
            self.assertNotIn("x-agent-session-id", headers)

    def test_silence_is_a_timeout(self: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            with self.assertRaises(AgentTimeoutError):
                self.call({"base_url": url, "retry": RetryPolicy(max_retries=0)}, "get_health", timeout=0.05)

    def test_nobody_listens(self: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with self.assertRaises(AgentConnectionError):
            self.call({"base_url": url}, "get_health")

    def test_tls_with_a_certificate_that_is_trusted_and_one_that_is_not(self: Any) -> None:
        openssl = shutil.which("openssl")
        if openssl is None:
            self.skipTest("there is no openssl to make a certificate with")
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
            name = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
            make = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            subprocess.run([*make, *name, "-keyout", key, "-out", certificate], check=True, capture_output=True)
            server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server_side.load_cert_chain(certificate, key)
            trusting = ssl.create_default_context(cafile=certificate)
            once = RetryPolicy(max_retries=0)
            with WireServer([OK, stream(event(1, "run.completed"))], tls=server_side) as server:
                with self.assertRaisesRegex(AgentConnectionError, "(?i)certificate"):
                    self.call({"base_url": server.url, "retry": once}, "get_health")
                # Each call is on an event loop of its own, so each has a client of its own.
                options = {"base_url": server.url, "http_client": self.http_client(trusting)}
                self.assertEqual(self.call(options, "get_health"), {"status": "ok"})
                options["http_client"] = self.http_client(trusting)
                events, error = self.collect(options, "stream_run_events", "run_1")
                self.assertEqual((seqs(events), error), ([1], None))

    # Streams that follow.

    def test_a_cut_stream_goes_on_after_the_last_whole_event(self: Any) -> None:
        events, error, requests = self.follow(
            stream(": connected\n\n", event(1), event(2), event(3)[:20], end=False),
            None,
            answer("503 Unavailable", b"{}"),
            stream(": connected\n\n", event(3), end=False),
            stream(event(4, "run.completed"), ": stream closed\n\n"),
        )
        self.assertIsNone(error)
        self.assertEqual(events, [1, 2, 3, 4])
        cursors = [[line for line in request.split("\r\n") if "last-event-id" in line.lower()] for request in requests]
        expected = [[], ["last-event-id: 2"], ["last-event-id: 2"], ["last-event-id: 2"], ["last-event-id: 3"]]
        self.assertEqual(cursors, expected)

    def test_a_stream_that_a_proxy_ends_in_order_is_cut_too(self: Any) -> None:
        events, error, requests = self.follow(stream(event(1)), stream(event(2, "run.failed")))
        self.assertEqual((events, error, len(requests)), ([1, 2], None, 2))

    def test_nothing_is_read_after_the_final_event(self: Any) -> None:
        events, error, _ = self.follow(stream(event(1, "run.cancelled"), event(2), end=False))
        self.assertEqual((events, error), ([1], None))

    def test_a_stream_with_nothing_left_to_say_ends(self: Any) -> None:
        events, error, requests = self.follow(stream(": connected\n\n", ": stream closed\n\n"), after="9")
        self.assertEqual((events, error, len(requests)), ([], None, 1))

    def test_a_final_answer_ends_the_tries(self: Any) -> None:
        gone = answer("410 Gone", b'{"error":{"message":"old","code":"run_events_expired"}}')
        events, error, requests = self.follow(stream(event(1), end=False), gone, stream(event(2)))
        self.assertEqual((events, error.code, len(requests)), ([1], "run_events_expired", 2))
        self.assertIsInstance(error, NotFoundError)

    def test_the_tries_are_bounded_but_events_give_new_ones(self: Any) -> None:
        policy = RetryPolicy(max_reconnects=2, first_delay=0.001, max_delay=0.001)
        cuts = [stream(event(seq), end=False, x_agent_run_id="run_1") for seq in range(1, 6)]
        events, error, requests = self.follow(*cuts, None, None, None, options={"retry": policy})
        self.assertEqual((events, len(requests)), ([1, 2, 3, 4, 5], 7))
        self.assertIsInstance(error, StreamCutError)
        self.assertEqual((error.run_id, error.last_event_id, error.last_event["seq"]), ("run_1", "5", 5))

    def test_a_first_connection_that_fails_is_tried_as_any_get(self: Any) -> None:
        events, error, requests = self.follow(None, None, stream(event(1, "run.completed")))
        self.assertEqual((events, error, len(requests)), ([1], None, 3))
        _, error, requests = self.follow(answer("404 No", b"{}"), stream(event(1)))
        self.assertEqual((error.status, len(requests)), (404, 1))

    def test_a_silent_stream_is_cut(self: Any) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            once = RetryPolicy(max_retries=0, max_reconnects=0)
            # The silence before the answer may be long, the one inside of the stream may not.
            options = {"base_url": url, "timeout": 3600.0, "stream_timeout": 0.05, "retry": once}

            def serve() -> None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(stream(event(1), end=False))
                    # Held open until the client leaves.
                    while connection.recv(65536):
                        pass
                listener.close()

            thread = threading.Thread(target=serve)
            thread.start()
            events, error = self.collect(options, "stream_run_events", "run_1")
            thread.join()
        self.assertEqual(seqs(events), [1])
        self.assertIsInstance(error, StreamCutError)
        self.assertIsInstance(error.__cause__, AgentTimeoutError)

    def test_a_response_goes_on_by_its_sequence_number(self: Any) -> None:
        def part(number: int, kind: str = "response.output_text.delta") -> str:
            return f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":{number}}}\n\n'

        with WireServer(
            [stream(part(0), part(1), end=False), stream(part(2), "data: [DONE]\n\n")]
        ) as server:
            events, error = self.collect({"base_url": server.url}, "follow_response", "resp_1")
            self.assertIsNone(error)
            self.assertEqual([each["sequence_number"] for each in events], [0, 1, 2])
            paths = [request.split(" ")[1] for request in server.requests]
            expected = "/v1/responses/resp_1?stream=true"
            self.assertEqual(paths, [expected, f"{expected}&starting_after=1"])

    # Streams that begin work.

    def test_a_cut_chat_stream_is_never_asked_for_again(self: Any) -> None:
        frame = 'data: {"choices":[]}\n\n'
        for key in (None, "k"):
            events, error, requests = self.ask(
                stream(frame, end=False, x_agent_run_id="run_7", x_agent_session_id="s_1"),
                stream(frame, "data: [DONE]\n\n"),
                idempotency_key=key,
            )
            self.assertEqual((len(events), len(requests)), (1, 1))
            self.assertIsInstance(error, StreamCutError)
            self.assertEqual((error.run_id, error.session_id), ("run_7", "s_1"))

    def test_a_chat_stream_without_its_mark_of_the_end_was_cut(self: Any) -> None:
        _, error, _ = self.ask(stream('data: {"choices":[]}\n\n'))
        self.assertIsInstance(error, StreamCutError)
        events, error, _ = self.ask(stream('data: {"choices":[]}\n\n', "data: [DONE]\n\n", end=False))
        self.assertEqual((len(events), error), (1, None))

    def test_an_error_inside_a_stream_is_raised(self: Any) -> None:
        frame = 'data: {"error":{"message":"m","code":"provider_error","type":"server_error","param":null}}\n\n'
        events, error, _ = self.ask(stream('data: {"choices":[]}\n\n', frame, "data: [DONE]\n\n"))
        self.assertEqual((len(events), error.status, error.code), (1, 0, "provider_error"))

    def test_an_answer_that_is_no_stream_is_refused(self: Any) -> None:
        _, error, requests = self.ask(OK, OK)
        self.assertIsInstance(error, AgentProtocolError)
        self.assertEqual(len(requests), 1)


class BlockingWire(Blocking, Cases, unittest.TestCase):
    def test_entering_a_stream_opens_it_and_leaving_ends_it(self) -> None:
        with WireServer([stream(event(1), event(2), end=False, x_agent_run_id="run_1")]) as server:
            with AgentClient(server.url, retry=FAST).stream_run_events("run_1") as events:
                self.assertEqual(events.run_id, "run_1")
                self.assertEqual(events.header("Content-Type"), "text/event-stream; charset=utf-8")
                self.assertEqual(next(events)["seq"], 1)
            self.assertEqual(list(events), [])
            self.assertEqual(len(server.requests), 1)

    def test_a_loop_that_is_broken_off_leaves_nothing_open(self) -> None:
        with WireServer([stream(event(1), event(2), end=False)]) as server:
            for each in AgentClient(server.url, retry=FAST).stream_run_events("run_1"):
                self.assertEqual(each["seq"], 1)
                break
            gc.collect()

    def test_a_stream_that_is_never_read_sends_nothing(self) -> None:
        AgentClient("http://127.0.0.1:1").stream_run_events("run_1").close()


class OnLoopWire(OnLoop, Cases, unittest.TestCase):
    def test_entering_a_stream_opens_it_and_leaving_ends_it(self) -> None:
        async def read(url: str) -> list[int]:
            async with AsyncAgentClient(url, retry=FAST).stream_run_events("run_1") as events:
                self.assertEqual(events.run_id, "run_1")
                first = await events.__anext__()
            return [first["seq"], *[each["seq"] async for each in events]]

        with WireServer([stream(event(1), event(2), end=False, x_agent_run_id="run_1")]) as server:
            self.assertEqual(asyncio.run(read(server.url), debug=True), [1])
            self.assertEqual(len(server.requests), 1)

    def test_a_loop_that_is_broken_off_closes_its_connection(self) -> None:
        async def read_one(url: str) -> None:
            async for each in AsyncAgentClient(url, retry=FAST).stream_run_events("run_1"):
                self.assertEqual(each["seq"], 1)
                break

        async def serve(listener: socket.socket, url: str) -> bytes:
            loop = asyncio.get_running_loop()
            task = asyncio.create_task(read_one(url))
            connection, _ = await loop.sock_accept(listener)
            with connection:
                await loop.sock_recv(connection, 65536)
                await loop.sock_sendall(connection, stream(event(1), event(2), end=False))
                await task
                return await loop.sock_recv(connection, 65536)

        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self.assertEqual(asyncio.run(serve(listener, url), debug=True), b"")

    def test_cancelling_a_task_ends_its_wait_at_once(self) -> None:
        async def cancel(url: str, name: str, *args: Any) -> None:
            client = AsyncAgentClient(url, retry=FAST)

            async def use() -> None:
                result = getattr(client, name)(*args)
                if name.startswith("stream"):
                    async for _ in result:
                        pass
                else:
                    await result

            task = asyncio.create_task(use())
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            with connection:
                await asyncio.get_running_loop().sock_recv(connection, 65536)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                # The connection went with it.
                self.assertEqual(await left(connection), b"")

        async def left(connection: socket.socket) -> bytes:
            try:
                return await asyncio.get_running_loop().sock_recv(connection, 65536)
            except ConnectionResetError:
                return b""

        for name, args in (("get_health", ()), ("stream_run_events", ("run_1",))):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                listener.setblocking(False)
                url = f"http://127.0.0.1:{listener.getsockname()[1]}"
                asyncio.run(cancel(url, name, *args), debug=True)

    def test_many_streams_at_once(self) -> None:
        async def read(client: AsyncAgentClient) -> list[int]:
            return [each["seq"] async for each in client.stream_run_events("run_1")]

        async def all_of(url: str) -> list[list[int]]:
            client = AsyncAgentClient(url, retry=FAST)
            return await asyncio.gather(*[read(client) for _ in range(20)])

        with WireServer([stream(event(1), event(2, "run.completed"))] * 20) as server:
            self.assertEqual(asyncio.run(all_of(server.url)), [[1, 2]] * 20)


if __name__ == "__main__":
    unittest.main()
