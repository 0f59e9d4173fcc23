/** `agentd rpc` from its start to its end, for starts that may fail. */
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { FrameValidator, spawnRpc, type Json } from "./rpc.ts";

export interface EndedRpc {
  readonly code: number | null;
  /** Held to the specs, as all of standard output. */
  readonly frames: readonly Json[];
  readonly stderr: string;
}

/** Sends `input`, closes it, and waits for the end. */
export async function runRpcProcess(home: string, { input }: { readonly input: string }): Promise<EndedRpc> {
  const child = spawnRpc(home);
  const exited = once(child, "exit");
  child.stdin.on("error", () => {}); // it may be gone before it read
  child.stdin.end(input);
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = (await exited) as [number | null];
  const lines = stdout.split("\n");
  if (lines.pop() !== "") throw new Error(`the last line has no end: ${stdout}`);
  const frames = lines.map((line) => JSON.parse(line) as Json);
  const validator = new FrameValidator();
  for (const line of input.split("\n")) if (line.endsWith("}")) validator.fromHost(parsed(line));
  for (const frame of frames) validator.fromGateway(frame);
  return { code, frames, stderr };
}

function parsed(line: string): Json {
  try {
    return JSON.parse(line) as Json;
  } catch {
    return undefined; // wrong on purpose
  }
}
