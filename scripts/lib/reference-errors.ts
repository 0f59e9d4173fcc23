/** The errors of the gateway as its reference shows them: a number, and the reasons that it stands for. */
import { code, join, paragraph, prose, table, text, type Line, type Section } from "./reference-model.ts";
import type { RpcMethod } from "./rpc-method.ts";

/** One reason of one number. */
export interface RpcErrorEntry {
  readonly number: number;
  /** `data.reason`. */
  readonly reason: string;
  readonly retryable: boolean;
  /** Any method may answer it. */
  readonly anywhere: boolean;
}

/** What a document's methods answer, and what any method may. */
export function rpcErrorSection(
  methods: readonly RpcMethod[],
  entries: readonly RpcErrorEntry[],
): readonly Section[] {
  if (entries.length === 0) return [];
  const rows = entries
    .filter(({ number, anywhere }) => anywhere || methods.some(({ errors }) => errors.includes(number)))
    .map(({ number, reason, retryable, anywhere }): Line[] => [
      [code(String(number))],
      [code(reason)],
      [text(retryable ? "yes" : "no")],
      [text(anywhere ? "any method" : "the methods that list it")],
    ]);
  const about =
    "An error is `{code, message, data: {reason, retryable, ...}}`. Check `data.reason`, because several reasons share a number. " +
    "`message` is for people and says what to do next. `data.issues` of `invalid_params` lists `{path, message}`.";
  return [
    {
      id: "errors",
      title: "Errors",
      nav: "Errors",
      blocks: [paragraph(...prose(about)), ...table(["Code", "Reason", "Retryable", "From"], rows)],
    },
  ];
}

/** `4001 session_not_found or not_live, 4009 session_busy`. */
export function errorsOf(method: RpcMethod, entries: readonly RpcErrorEntry[]): Line {
  const each = method.errors.map((number): Line => {
    const reasons = entries.filter((entry) => entry.number === number).map(({ reason }) => [code(reason)]);
    return [code(String(number)), ...(reasons.length === 0 ? [] : [text(" "), ...join(reasons, " or ")])];
  });
  return join(each, ", ");
}
