"""Drives the client that openapi-python-client makes. Run beside it by scripts/foreign-clients.ts."""

import os

from foreign.api.chat import create_chat_completion
from foreign.api.jobs import create_job, list_jobs
from foreign.api.runs import create_run
from foreign.client import AuthenticatedClient
from foreign.models import (
    ChatCompletion,
    ChatCompletionRequest,
    ChatUserMessage,
    CreateJobBody,
    CreateRunRequest,
    Job,
    JobList,
    JobState,
    RunAccepted,
    TextPart,
)

client = AuthenticatedClient(base_url=os.environ["AGENTD_URL"], token=os.environ["API_SERVER_KEY"])
part = TextPart(type_="text", text=os.environ["AGENTD_PROMPT"])
message = ChatUserMessage(role="user", content=[part])
completion = create_chat_completion.sync(client=client, body=ChatCompletionRequest(messages=[message]))
assert isinstance(completion, ChatCompletion), completion
print(completion.choices[0].message.content)
run = create_run.sync(client=client, body=CreateRunRequest(input_="hello"))
assert isinstance(run, RunAccepted), run
print("created", run.created_at)
job = create_job.sync(client=client, body=CreateJobBody(schedule="every 2h", prompt="hello", name="foreign-py"))
assert isinstance(job, Job), job
jobs = list_jobs.sync(client=client, name=job.name, state=[JobState("scheduled")])
assert isinstance(jobs, JobList), jobs
print("job", job.name, job.state, len(jobs.data))
