/** The only file that knows which runtime this is. Touches the machine. */
import process from "node:process";

export interface Runtime {
  readonly name: "node" | "deno" | "bun";
  readonly version: string;
}

/** Deno and Bun also claim to be Node, so they are asked first. */
export function currentRuntime(): Runtime {
  const { deno, bun, node = "unknown" } = process.versions as Readonly<Record<string, string | undefined>>;
  if (deno !== undefined) return { name: "deno", version: deno };
  if (bun !== undefined) return { name: "bun", version: bun };
  return { name: "node", version: node };
}
