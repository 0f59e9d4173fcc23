"""Both clients against the real service, whose model and proxies test/compat/python.test.ts sets up."""

from __future__ import annotations

import os
import unittest
from typing import Any

from agentd_client import (
    AgentApiError,
    AgentClient,
    AgentConnectionError,
    AuthenticationError,
    ConflictError,
    NotFoundError,
    PermissionDeniedError,
    StreamCutError,
)
from flavours import FAST, Blocking, OnLoop

HERE = {"base_url": os.environ["AGENTD_URL"], "api_key": os.environ["AGENTD_KEY"]}
READER = {**HERE, "api_key": os.environ["AGENTD_READ_KEY"]}
#: Each breaks every connection off after another number of bytes, which let at least one event of a run pass.
CUTS = [{**HERE, "base_url": url} for url in os.environ["AGENTD_CUT_URLS"].split(",")]
#: The same for events of responses, which are larger.
WIDE_CUTS = [{**HERE, "base_url": url} for url in os.environ["AGENTD_WIDE_CUT_URLS"].split(",")]
ANSWER = os.environ["AGENTD_ANSWER"]


def ask(text: str, **more: Any) -> Any:
    return {"messages": [{"role": "user", "content": text}], **more}


def said(chunks: list[Any]) -> str:
    deltas = [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
    return "".join(deltas)


class Cases:
    def started(self: Any, text: str, **named: Any) -> str:
        accepted = self.call(HERE, "create_run", {"input": text}, **named)
        self.assertEqual(accepted["object"], "agent.run")
        return str(accepted["run_id"])

    def ended(self: Any, run_id: str, status: str) -> Any:
        run = self.call(HERE, "get_run", run_id, wait=30)
        self.assertEqual(run["status"], status, run)
        return run

    # Meta.

    def test_health_models_and_what_the_server_is(self: Any) -> None:
        self.assertEqual(self.call(HERE, "get_health")["status"], "ok")
        self.assertEqual(self.call({**HERE, "api_key": None}, "get_health_v1")["platform"], "agent")
        models = self.call(HERE, "list_models")
        self.assertEqual([model["id"] for model in models["data"]], ["agentd"])
        self.assertEqual(self.call(HERE, "get_model", "agentd")["owned_by"], "agent")
        self.assertEqual(self.call(HERE, "get_open_api")["openapi"], "3.1.1")
        self.assertTrue(self.call(HERE, "get_capabilities")["features"]["run_events_sse"])
        self.assertIn(self.call(HERE, "get_detailed_health", strict=False)["status"], ("ok", "degraded"))

    def test_answers_that_are_text(self: Any) -> None:
        self.assertIn("<html", self.call(HERE, "get_docs").lower())
        self.assertIn("# TYPE", self.call(HERE, "get_metrics"))

    # Chat.

    def test_chat(self: Any) -> None:
        completion = self.call(HERE, "create_chat_completion", ask("hi"))
        self.assertEqual(completion["choices"][0]["message"]["content"], ANSWER)
        self.assertGreater(completion["usage"]["total_tokens"], 0)

    def test_a_chat_stream(self: Any) -> None:
        chunks, error = self.collect(
            HERE, "stream_chat_completion", ask("hi", stream_options={"include_usage": True})
        )
        self.assertIsNone(error)
        self.assertEqual(said(chunks), ANSWER)
        self.assertEqual(chunks[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertGreater(len(chunks), 3)
        self.assertGreater(chunks[-1]["usage"]["total_tokens"], 0)

    def test_a_session_goes_on(self: Any) -> None:
        session = f"py-{type(self).__name__}"
        self.call(HERE, "create_chat_completion", ask("remember"), agent_session_id=session)
        completion = self.call(HERE, "create_chat_completion", ask("count"), agent_session_id=session)
        self.assertEqual(completion["choices"][0]["message"]["content"], "3 messages")

    def test_an_error_inside_a_chat_stream(self: Any) -> None:
        chunks, error = self.collect(HERE, "stream_chat_completion", ask("fail"))
        self.assertEqual(said(chunks), "begun")
        self.assertEqual((error.status, error.code), (0, "provider_error"))

    def test_a_cut_chat_stream_names_its_run_which_can_be_followed(self: Any) -> None:
        body = ask("hi", agent={"on_disconnect": "continue"})
        chunks, error = self.collect(CUTS[0], "stream_chat_completion", body)
        self.assertIsInstance(error, StreamCutError)
        self.assertTrue(ANSWER.startswith(said(chunks)))
        events, error = self.collect(CUTS[0], "stream_run_events", error.run_id)
        self.assertIsNone(error)
        self.assertEqual((events[-1]["event"], events[-1]["output"]), ("run.completed", ANSWER))

    # Errors.

    def test_keys(self: Any) -> None:
        for key, code in ((None, "missing_api_key"), ("wrong-key-wrong-key", "invalid_api_key")):
            with self.assertRaises(AuthenticationError) as caught:
                self.call({**HERE, "api_key": key}, "list_models")
            self.assertEqual((caught.exception.status, caught.exception.code), (401, code))
            self.assertEqual(caught.exception.type, "authentication_error")
            self.assertTrue(caught.exception.request_id)
        _, error = self.collect({**HERE, "api_key": "wrong-key-wrong-key"}, "stream_chat_completion", ask("hi"))
        self.assertIsInstance(error, AuthenticationError)
        with self.assertRaises(PermissionDeniedError) as denied:
            self.call(READER, "create_chat_completion", ask("hi"))
        self.assertEqual(denied.exception.code, "insufficient_scope")

    def test_errors_say_what_and_where(self: Any) -> None:
        with self.assertRaises(NotFoundError) as missing:
            self.call(HERE, "get_run", "run_nope")
        self.assertEqual(missing.exception.code, "run_not_found")
        events, error = self.collect(HERE, "stream_run_events", "run_nope")
        self.assertEqual((events, error.code), ([], "run_not_found"))
        with self.assertRaises(AgentApiError) as refused:
            self.call(HERE, "create_chat_completion", ask("hi", n=2))
        self.assertEqual((refused.exception.status, refused.exception.param), (400, "n"))
        self.assertIn("n", str(refused.exception))
        with self.assertRaises(NotFoundError):
            self.call(HERE, "get_run", "a/b?c#d")

    # Runs.

    def test_a_run_and_its_wait(self: Any) -> None:
        run = self.ended(self.started("hi"), "completed")
        self.assertEqual((run["kind"], run["output"]), ("run", ANSWER))
        listed = self.call(HERE, "list_runs", session_id=run["session_id"], limit=5)
        self.assertEqual([each["run_id"] for each in listed["data"]], [run["run_id"]])

    def test_the_events_of_a_run(self: Any) -> None:
        run_id = self.started("hi")
        events, error = self.collect(HERE, "stream_run_events", run_id)
        self.assertIsNone(error)
        self.assertEqual([event["seq"] for event in events], list(range(1, len(events) + 1)))
        deltas = "".join(event["delta"] for event in events if event["event"] == "message.delta")
        self.assertEqual((deltas, events[-1]["event"]), (ANSWER, "run.completed"))
        later, error = self.collect(HERE, "stream_run_events", run_id, after=str(len(events) - 1))
        self.assertEqual((later, error), (events[-1:], None))
        self.assertEqual(self.collect(HERE, "stream_run_events", run_id, after=str(len(events))), ([], None))
        _, error = self.collect(HERE, "stream_run_events", run_id, last_event_id="99999")
        self.assertEqual(error.code, "invalid_cursor")

    def test_a_cut_stream_of_events_loses_and_repeats_nothing(self: Any) -> None:
        run_id = self.started("hi")
        self.ended(run_id, "completed")
        whole, _ = self.collect(HERE, "stream_run_events", run_id)
        for options in CUTS:
            events, error = self.collect(options, "stream_run_events", run_id)
            self.assertIsNone(error)
            self.assertEqual(events, whole)
            # And while it is at work.
            live, error = self.collect(options, "stream_run_events", self.started("hi"))
            self.assertIsNone(error)
            self.assertEqual([event["seq"] for event in live], list(range(1, len(live) + 1)))
            deltas = "".join(event["delta"] for event in live if event["event"] == "message.delta")
            self.assertEqual((deltas, live[-1]["event"]), (ANSWER, "run.completed"))

    def test_an_approval(self: Any) -> None:
        for choice, outcome in (("once", "it ran"), ("deny", "denied")):
            run_id = self.started("ask me")
            events, error = self.collect(HERE, "stream_run_events", run_id, until="approval.request")
            self.assertIsNone(error)
            question = events[-1]
            self.assertEqual(self.call(HERE, "get_run", run_id)["status"], "waiting_for_approval")
            body = {"choice": choice, "request_id": question["request_id"]}
            answered = self.call(HERE, "resolve_run_approval", run_id, body)
            self.assertEqual((answered["choice"], answered["resolved"]), (choice, 1))
            self.assertIn(outcome, self.ended(run_id, "completed")["output"])
            with self.assertRaises(ConflictError):
                self.call(HERE, "resolve_run_approval", run_id, body)

    def test_steer_and_stop(self: Any) -> None:
        run_id = self.started("hold")
        self.collect(HERE, "stream_run_events", run_id, until="message.delta")
        self.assertTrue(self.call(HERE, "steer_run", run_id, {"input": "faster"})["accepted"])
        stopped = self.call(HERE, "stop_run", run_id, {"reason": "enough"})
        self.assertIn(stopped["status"], ("stopping", "cancelled"))
        self.ended(run_id, "cancelled")
        self.assertEqual(self.call(HERE, "stop_run", run_id)["status"], "cancelled")
        events, _ = self.collect(HERE, "stream_run_events", run_id)
        self.assertEqual(events[-1]["event"], "run.cancelled")

    def test_an_idempotency_key_makes_one_run(self: Any) -> None:
        key = f"key-{type(self).__name__}"
        first = self.call(HERE, "create_run", {"input": "hi"}, idempotency_key=key)
        again = self.call(HERE, "create_run", {"input": "hi"}, idempotency_key=key)
        self.assertEqual((again["run_id"], again["replayed"]), (first["run_id"], True))
        with self.assertRaises(ConflictError) as conflict:
            self.call(HERE, "create_run", {"input": "other"}, idempotency_key=key)
        self.assertEqual(conflict.exception.code, "idempotency_key_conflict")

    # Responses.

    def test_a_response_is_kept_until_it_is_deleted(self: Any) -> None:
        response = self.call(HERE, "create_response", {"input": "hi"})
        self.assertEqual(response["output"][-1]["content"][0]["text"], ANSWER)
        self.assertEqual(self.call(HERE, "get_response", response["id"])["status"], "completed")
        items = self.call(HERE, "list_response_input_items", response["id"], order="asc", limit=1)
        self.assertEqual((items["object"], len(items["data"])), ("list", 1))
        chained = self.call(HERE, "create_response", {"input": "count", "previous_response_id": response["id"]})
        self.assertEqual(chained["output"][-1]["content"][0]["text"], "3 messages")
        self.assertTrue(self.call(HERE, "delete_response", response["id"])["deleted"])
        with self.assertRaises(NotFoundError):
            self.call(HERE, "get_response", response["id"])

    def test_a_response_as_a_stream(self: Any) -> None:
        events, error = self.collect(HERE, "stream_response", {"input": "hi"})
        self.assertIsNone(error)
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("response.created", "response.completed"))
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))

    def test_a_cut_stream_of_a_response_loses_and_repeats_nothing(self: Any) -> None:
        for options in WIDE_CUTS:
            body = {"input": "hi", "background": True}
            events, error = self.collect(options, "stream_response", body)
            self.assertIsInstance(error, StreamCutError)
            response_id = events[0]["response"]["id"]
            rest, error = self.collect(
                options, "follow_response", response_id, starting_after=error.last_event["sequence_number"]
            )
            self.assertIsNone(error)
            numbers = [event["sequence_number"] for event in [*events, *rest]]
            self.assertEqual(numbers, list(range(len(numbers))))
            self.assertEqual(rest[-1]["response"]["output"][-1]["content"][0]["text"], ANSWER)

    def test_a_background_response_can_be_cancelled(self: Any) -> None:
        response = self.call(HERE, "create_response", {"input": "hold", "background": True})
        self.assertIn(response["status"], ("queued", "in_progress"))
        self.assertEqual(self.call(HERE, "cancel_response", response["id"])["status"], "cancelled")


class BlockingLive(Blocking, Cases, unittest.TestCase):
    def test_the_session_of_a_stream_is_known_on_entering_it(self) -> None:
        with AgentClient(**HERE, retry=FAST).stream_chat_completion(ask("hi")) as stream:
            self.assertTrue(stream.run_id)
            self.assertTrue(stream.session_id)
            self.assertEqual(said(list(stream)), ANSWER)


class OnLoopLive(OnLoop, Cases, unittest.TestCase):
    pass


class Stopped(Blocking, unittest.TestCase):
    def test_a_server_that_is_not_there(self) -> None:
        with self.assertRaises(AgentConnectionError):
            self.call({**HERE, "base_url": "http://127.0.0.1:1"}, "get_health")


if __name__ == "__main__":
    unittest.main()
