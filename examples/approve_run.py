"""Starts a run, follows it, and answers its question about a command: python examples/approve_run.py [once|deny]"""

import os
import sys

from agentd_client import AgentClient

client = AgentClient(os.environ.get("AGENTD_URL", "http://127.0.0.1:8642"))  # the key comes from API_SERVER_KEY
choice = "once" if sys.argv[1:] == ["once"] else "deny"
run = client.create_run({"input": "run: rm -r old-build"})

# If the connection is cut, the loop continues after the last event.
for event in client.stream_run_events(run["run_id"]):
    if event["event"] == "message.delta":
        print(event["delta"], end="", flush=True)
    if event["event"] == "approval.request":
        print(f"\n? {event['description']} -> {choice}")
        client.resolve_run_approval(run["run_id"], {"choice": choice, "request_id": event["request_id"]})
print(f"\n{client.get_run(run['run_id'])['status']}")
