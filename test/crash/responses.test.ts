import assert from "node:assert/strict";
import { test } from "node:test";
import type { ResponseObject, ResponseStreamEvent } from "../../generated/http/client/types.gen.ts";
import { createGatewayPlace } from "../harness/gateway.ts";
import { checkStream, eventsOf, objectOf, outputText } from "../harness/responses.ts";
import { readFrames } from "../harness/sse.ts";

test("SIGKILL in the middle of a streamed response: after the start its stream continues from the last event seen", async () => {
  await using place = await createGatewayPlace();
  const first = await place.start();
  const headers = { authorization: `Bearer ${await place.key()}`, "content-type": "application/json" };
  const create = (url: string, body: object) =>
    fetch(`${url}/v1/responses`, {
      method: "POST",
      headers,
      body: JSON.stringify({ background: true, ...body }),
    });

  const seen: ResponseStreamEvent[] = [];
  const answer = await create(first.url, { input: "run: sleep 30", stream: true });
  const id = `resp_${answer.headers.get("x-agent-run-id")!.slice("run_".length)}`;
  const queued = await objectOf(await create(first.url, { input: "and?", previous_response_id: id }));
  assert.equal(queued.status, "queued");
  const readAll = async () => {
    for await (const { data } of readFrames(answer)) {
      if (data === undefined) continue;
      seen.push(JSON.parse(data) as ResponseStreamEvent);
      if (seen.at(-1)?.type === "response.mcp_call_arguments.done") await first.kill("SIGKILL");
    }
  };
  await assert.rejects(readAll, (error) => !(error instanceof SyntaxError), "it is cut before its `[DONE]`");

  const second = await place.start();
  const get = (path: string) => fetch(`${second.url}/v1/responses/${path}`, { headers });
  const rest = await eventsOf(await get(`${id}?stream=true&starting_after=${seen.length - 1}`));
  const whole = await eventsOf(await get(`${id}?stream=true`));
  assert.deepEqual([...seen, ...rest], whole);
  const final = checkStream(whole);
  assert.equal(final.status, "failed");
  assert.ok(final.error);
  const call = final.output.find((item) => item.type === "mcp_call");
  assert.ok(call?.status === "incomplete" || call?.status === "failed");
  assert.deepEqual(await objectOf(await get(id)), final);

  const next: ResponseObject = checkStream(await eventsOf(await get(`${queued.id}?stream=true`)));
  assert.equal(next.status, "completed");
  assert.notEqual(outputText(next), "");
  assert.equal(await second.kill("SIGTERM"), 0, second.stderr());
});
