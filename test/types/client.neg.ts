/**
 * What the compiler must refuse of programs that use the client. Checked by `npm run typecheck`: an `@ts-expect-error`
 * over a line that compiles is itself an error. Never run.
 */
import {
  createAgentClient,
  streamChatCompletion,
  streamResponse,
  type ChatCompletion,
  type ContentPart,
} from "../../src/client/http.ts";

const options = { baseUrl: "http://127.0.0.1:1" };
const client = createAgentClient(options);
const messages = [{ role: "user" as const, content: "hi" }];

export const chat = streamChatCompletion(options, {
  messages,
  user: "me",
  stream_options: { include_usage: true },
});
// @ts-expect-error the messages are missing
export const empty = streamChatCompletion(options, {});
// @ts-expect-error a misspelt field
export const misspelt = streamChatCompletion(options, { mesages: 12 });
// @ts-expect-error a misspelt field beside the right one
export const surplus = streamChatCompletion(options, { messages, mesages: 12 });
// @ts-expect-error not a role
export const role = streamChatCompletion(options, { messages: [{ role: "robot", content: "hi" }] });

export const answer = streamResponse(options, { input: "hi" });
// @ts-expect-error a misspelt field
export const wrongResponse = streamResponse(options, { inptu: "hi" });

export const image: ContentPart = { type: "image_url", image_url: { url: "data:" } };
// @ts-expect-error an image has an address
export const noImage: ContentPart = { type: "image_url" };
// @ts-expect-error audio is not supported
export const audio: ContentPart = { type: "input_audio", input_audio: {} };

/** The answer is there: what is not an answer is thrown. */
export const data: Promise<ChatCompletion> = client
  .createChatCompletion({ body: { messages } })
  .then((result) => result.data);
// @ts-expect-error errors are thrown, not returned
export const error = client.listModels().then((result) => result.error);
// @ts-expect-error a choice is required
export const undecided = client.resolveRunApproval({ path: { run_id: "run_1" }, body: {} });
// @ts-expect-error the text is required
export const unsteered = client.steerRun({ path: { run_id: "run_1" }, body: {} });
// @ts-expect-error the stream of a run is a function that resumes
export const events = client.streamRunEvents({ path: { run_id: "run_1" } });
