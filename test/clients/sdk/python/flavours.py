"""One set of cases for both clients: each method is called by name, blocking or on an event loop."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import httpx

from agentd_client import AgentClient, AgentError, AsyncAgentClient, RetryPolicy

#: So that tests wait for nothing.
FAST = RetryPolicy(first_delay=0.001, max_delay=0.002)


class Blocking:
    """Mixed into a TestCase."""

    def http_client(self, trusting: ssl.SSLContext) -> httpx.Client:
        return httpx.Client(verify=trusting, limits=httpx.Limits(max_keepalive_connections=0))

    def call(self, options: dict[str, Any], name: str, *args: Any, **named: Any) -> Any:
        client = AgentClient(**{"retry": FAST, "timeout": 30.0, **options})
        return getattr(client, name)(*args, **named)

    def collect(self, options: dict[str, Any], name: str, *args: Any, **named: Any) -> tuple[list[Any], Any]:
        """The events of a stream, and the error that ended it, if one did. Leaves it after the event `until`."""
        until = named.pop("until", None)
        client = AgentClient(**{"retry": FAST, "timeout": 30.0, **options})
        events: list[Any] = []
        try:
            with getattr(client, name)(*args, **named) as stream:
                for event in stream:
                    events.append(event)
                    if until is not None and event.get("event") == until:
                        break
        except AgentError as error:
            return events, error
        return events, None


class OnLoop:
    """The same on asyncio. Debug mode tells of everything that was never awaited or closed."""

    def http_client(self, trusting: ssl.SSLContext) -> httpx.AsyncClient:
        return httpx.AsyncClient(verify=trusting, limits=httpx.Limits(max_keepalive_connections=0))

    def call(self, options: dict[str, Any], name: str, *args: Any, **named: Any) -> Any:
        client = AsyncAgentClient(**{"retry": FAST, "timeout": 30.0, **options})
        return asyncio.run(getattr(client, name)(*args, **named), debug=True)

    def collect(self, options: dict[str, Any], name: str, *args: Any, **named: Any) -> tuple[list[Any], Any]:
        client = AsyncAgentClient(**{"retry": FAST, "timeout": 30.0, **options})
        until = named.pop("until", None)

        async def read() -> tuple[list[Any], Any]:
            events: list[Any] = []
            try:
                async with getattr(client, name)(*args, **named) as stream:
                    async for event in stream:
                        events.append(event)
                        if until is not None and event.get("event") == until:
                            break
            except AgentError as error:
                return events, error
            return events, None

        return asyncio.run(read(), debug=True)
