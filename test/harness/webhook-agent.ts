/** A service that receives webhooks, and what its agent is asked. */
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ScriptState } from "../../src/agent/engines/scripted.ts";
import { startWebhookService, type WebhookService, type WebhookServiceOptions } from "./webhook.ts";

export interface WebhookAgent extends AsyncDisposable {
  readonly service: WebhookService;
  /** The first model call of each run, in their order. */
  readonly turns: readonly ScriptState[];
  /** Prompts of the runs, once so many have begun. */
  asked(atLeast: number): Promise<readonly string[]>;
  /** Absolute path in agentd's home. */
  path(name: string): string;
}

/** `files` are written to agentd's home, by their paths in it, before the first request. */
export async function openWebhookAgent({
  files = {},
  ...options
}: Omit<WebhookServiceOptions, "script"> & {
  readonly files?: Readonly<Record<string, string>>;
}): Promise<WebhookAgent> {
  const turns: ScriptState[] = [];
  const waiting = new Set<() => void>();
  const service = await startWebhookService({
    ...options,
    script: (state) => {
      if (state.step === 0) turns.push(state);
      for (const look of waiting) look();
      return { text: "done" };
    },
  });
  const path = (name: string) => join(service.test.home, "agentd", name);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(path(name)), { recursive: true });
    await writeFile(path(name), text);
  }
  const asked = (atLeast: number) =>
    new Promise<readonly string[]>((resolve) => {
      const look = () => {
        if (turns.length < atLeast) return;
        waiting.delete(look);
        resolve(turns.map(({ user }) => user));
      };
      waiting.add(look);
      look();
    });
  return { service, turns, asked, path, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() };
}
