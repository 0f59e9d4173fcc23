/** A model server in a process of its own, which speaks OpenAI's chat completions stream at once and does nothing else. Leaves by the end of its input. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";
import { toDeltas } from "./provider-deltas.ts";

const chunk = (choices: readonly object[], more: object = {}) =>
  `data: ${JSON.stringify({ id: "chatcmpl-bench", object: "chat.completion.chunk", created: 1_795_238_850, model: "stub", choices, ...more })}\n\n`;
const choice = (delta: object, finish: string | null = null) => ({ index: 0, delta, finish_reason: finish });
const usage = { prompt_tokens: 20, completion_tokens: 50, total_tokens: 70 };

const frames = [
  chunk([choice({ role: "assistant", content: "" })]),
  ...toDeltas().map((content) => chunk([choice({ content })])),
  chunk([choice({}, "stop")]),
  chunk([], { usage }),
  "data: [DONE]\n\n",
];

let calls = 0;
const server = createServer(async (request, response) => {
  if (request.method === "GET") return void response.end(String(calls));
  let body = "";
  request.setEncoding("utf8");
  for await (const piece of request) body += piece;
  if (!body.includes('"stream":true')) return void response.writeHead(400).end();
  calls += 1;
  response.writeHead(200, { "content-type": "text/event-stream" });
  // A chunk of HTTP for each, as providers send them.
  for (const frame of frames) response.write(frame);
  response.end();
});
server.listen(0, "127.0.0.1", () => {
  console.log(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});
process.stdin.resume().once("end", () => process.exit(0));
