import type { ModelRef } from "../../agent/engine.ts";
import type { SessionSeed } from "../../agent/session/session.ts";
import type { SessionRow } from "../../store/schema/tables.ts";
import type { RpcDeps } from "../deps.ts";

/** What holds for a session, saved or not. */
export interface Known {
  readonly row: SessionRow | undefined;
  readonly seed: SessionSeed | undefined;
}

/** The model that its next turn takes. */
export function modelRef({ agent }: RpcDeps, { row, seed }: Known): ModelRef {
  const { models } = agent.deps;
  const name = row ? row.model : seed?.model;
  return (name === null || name === undefined ? undefined : models.resolve(name)) ?? models.default;
}

export function modelOf(deps: RpcDeps, known: Known): { readonly model: string; readonly provider: string } {
  const ref = modelRef(deps, known);
  return { model: ref.id, provider: ref.provider };
}
