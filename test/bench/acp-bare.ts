/** An ACP agent with nothing in it but the SDK: what agentd is measured by. `model` forwards a model's stream, line by line. */
import { randomUUID } from "node:crypto";
import process from "node:process";
import { Readable, Writable } from "node:stream";
import { agent, ndJsonStream, PROTOCOL_VERSION, type AgentContext } from "@agentclientprotocol/sdk/unstable";

export async function serveBare(modelUrl: string | undefined): Promise<void> {
  const input = Readable.toWeb(process.stdin) as unknown as ReadableStream<Uint8Array>;
  const app = agent({ name: "bare" })
    .onRequest("initialize", () => ({ protocolVersion: PROTOCOL_VERSION, agentCapabilities: {} }))
    .onRequest("session/new", () => ({ sessionId: randomUUID() }))
    .onRequest("session/prompt", async ({ params: { sessionId, prompt }, client }) => {
      const [first] = prompt;
      const text = first?.type === "text" ? first.text : "";
      if (modelUrl !== undefined) await forward(modelUrl, text, (delta) => tell(client, sessionId, delta));
      return { stopReason: "end_turn" };
    });
  await app.connect(ndJsonStream(Writable.toWeb(process.stdout), input)).closed;
  process.exit(0);
}

function tell(client: AgentContext, sessionId: string, text: string): Promise<void> {
  const content = { type: "text" as const, text };
  return client.notify("session/update", {
    sessionId,
    update: { sessionUpdate: "agent_message_chunk", content },
  });
}

async function forward(url: string, text: string, take: (delta: string) => Promise<void>): Promise<void> {
  const body = JSON.stringify({ stream: true, messages: [{ role: "user", content: text }] });
  const { body: stream } = await fetch(`${url}/chat/completions`, { method: "POST", body });
  let rest = "";
  for await (const chunk of stream?.pipeThrough(new TextDecoderStream()) ?? []) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const { choices } = JSON.parse(line.slice(6)) as {
        readonly choices: readonly { readonly delta: { readonly content?: string } }[];
      };
      const delta = choices[0]?.delta.content;
      if (delta) await take(delta);
    }
  }
}
