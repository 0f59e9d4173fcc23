/** The acceptance cases of Open Responses (2026-04-24), each as JSON and as a stream, held to the schemas of the spec. */
import assert from "node:assert/strict";
import type { ResponseObject } from "../../../generated/http/client/types.gen.ts";
import type { Script } from "../../../src/agent/engines/scripted.ts";
import { checkStream, eventsOf, outputText, respond, responseOf } from "../../harness/responses.ts";
import { scenario } from "../../harness/scenario.ts";
import type { TestService } from "../../harness/service.ts";

const PIXEL =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PDF = `data:application/pdf;base64,${btoa("%PDF-1.4\n%%EOF\n")}`;
const weather = {
  type: "function",
  name: "get_weather",
  description: "The weather of a place.",
  parameters: { type: "object", properties: { location: { type: "string" } }, required: ["location"] },
};
const said = (text: string, role = "user") => ({ type: "message", role, content: text });

/** Calls what it is given to call, and else says who said what. */
const script: Script = ({ messages, tools, instructions }) => {
  const last = messages.at(-1);
  const isAsked = tools.includes("get_weather") && last?.role === "user";
  if (isAsked) return { calls: [{ tool: "get_weather", input: { location: "Paris" } }] };
  const heard = messages.map((message) => {
    if (message.role === "assistant") return "assistant";
    const kinds =
      message.role === "user" ? (message.attachments ?? []).map(({ mediaType }) => mediaType) : [];
    return [message.text, ...kinds].join("+");
  });
  return { text: [...(instructions.includes("pirate") ? ["arr"] : []), ...heard].join(" | "), chunkSize: 5 };
};

const cases: readonly (readonly [string, object, (response: ResponseObject) => void])[] = [
  [
    "basic-response",
    { input: [said("Say hello.")] },
    (response) => assert.equal(outputText(response), "Say hello."),
  ],
  [
    "system-prompt",
    { input: [said("You are a pirate.", "system"), said("Say hello.")] },
    (response) => assert.equal(outputText(response), "arr | Say hello."),
  ],
  [
    "tool-calling",
    { input: [said("How is Paris?")], tools: [weather] },
    ({ output }) => {
      const call = output.find((item) => item.type === "function_call");
      assert.equal(call?.name, "get_weather");
      assert.deepEqual(JSON.parse(call!.arguments), { location: "Paris" });
    },
  ],
  [
    "function-call-roundtrip",
    {
      input: [
        said("How is Paris?"),
        { type: "function_call", call_id: "c1", name: "get_weather", arguments: '{"location":"Paris"}' },
        { type: "function_call_output", call_id: "c1", output: "18 degrees" },
      ],
      tools: [weather],
    },
    (response) => assert.equal(outputText(response), "How is Paris? | assistant | 18 degrees"),
  ],
  [
    "image-input",
    {
      input: [
        {
          type: "message",
          role: "user",
          content: [
            { type: "input_text", text: "What is this?" },
            { type: "input_image", image_url: PIXEL },
          ],
        },
      ],
    },
    (response) => assert.equal(outputText(response), "What is this?+image/png"),
  ],
  [
    "file-input",
    {
      input: [
        {
          type: "message",
          role: "user",
          content: [
            { type: "input_text", text: "Sum up." },
            { type: "input_file", filename: "a.pdf", file_data: PDF },
          ],
        },
      ],
    },
    (response) => assert.equal(outputText(response), "Sum up.+application/pdf"),
  ],
  [
    "multi-turn",
    { input: [said("I am Ada."), said("Hello Ada.", "assistant"), said("Who am I?")] },
    (response) => assert.equal(outputText(response), "I am Ada. | assistant | Who am I?"),
  ],
];

for (const [name, body, check] of cases) {
  scenario(
    "createResponse",
    200,
    { title: `Open Responses: ${name}, whole and streamed`, script },
    async (service) => {
      const whole = await responseOf(service, { model: "any", ...body });
      assert.equal(whole.status, "completed");
      check(whole);
      const streamed = await stream(service, body);
      assert.equal(streamed.status, "completed");
      check(streamed);
    },
  );
}

scenario(
  "createResponse",
  200,
  { title: "Open Responses: previous-response-id", script },
  async (service) => {
    const first = await responseOf(service, { input: "I am Ada." });
    const next = { input: "Who am I?", previous_response_id: first.id };
    assert.equal(outputText(await responseOf(service, next)), "I am Ada. | assistant | Who am I?");
    assert.equal(outputText(await stream(service, next)), "I am Ada. | assistant | Who am I?");
  },
);

async function stream(service: TestService, body: object): Promise<ResponseObject> {
  return checkStream(await eventsOf(await respond(service, { model: "any", ...body, stream: true })));
}
