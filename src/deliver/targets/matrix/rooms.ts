import { LruMap } from "../../../base/lru.ts";
import type { Clock } from "../../../base/clock.ts";
import type { MatrixAnswer } from "../../../../generated/delivery/client/types.gen.ts";
import type { Call, NoAnswer, PlatformAnswer, SendFailure } from "../../platform/call.ts";
import type { SendOptions } from "../../target.ts";
import { lookupFailure } from "./outcome.ts";

export interface RoomsOptions {
  readonly call: Call;
  readonly headers: { readonly authorization: string };
  readonly clock: Clock;
  /** True: nobody asks whether a room is encrypted. */
  readonly allowsEncrypted: boolean;
}

export type FoundRoom = { readonly kind: "room"; readonly id: string } | NoAnswer;

export interface WiredService {
  /** The room by its id or alias, if texts may be sent there. What was found holds for a while. */
  find(chat: string, options: SendOptions): Promise<FoundRoom>;
}

/** Aliases may move, and rooms become encrypted. */
const KNOWN_MS = 600_000;
const MAX_KNOWN = 1000;

export function createRooms({ call, headers, clock, allowsEncrypted }: RoomsOptions): WiredService {
  const known = new LruMap<string, { readonly id: string; readonly untilMs: number }>(MAX_KNOWN);
  return {
    async find(chat, options) {
      const entry = known.get(chat);
      if (entry !== undefined && entry.untilMs > clock.now()) return { kind: "room", id: entry.id };
      const room = chat.startsWith("#")
        ? await resolve(chat, options)
        : ({ kind: "room", id: chat } as const);
      if (room.kind === "none") return room;
      const refusal = allowsEncrypted ? undefined : await refusalOf(room.id, options);
      if (refusal !== undefined) return { kind: "none", outcome: refusal };
      known.set(chat, { id: room.id, untilMs: clock.now() + KNOWN_MS });
      return room;
    },
  };

  async function resolve(roomAlias: string, options: SendOptions): Promise<FoundRoom> {
    const path = { roomAlias };
    const answer = await call("MatrixAnswer", (client) => client.matrixFindRoom({ path, headers }), options);
    if (answer.kind === "answer" && answer.status === 200 && answer.body?.room_id !== undefined) {
      return { kind: "room", id: answer.body.room_id };
    }
    return { kind: "none", outcome: lookupFailure(answer) };
  }

  /** Undefined for a room that texts may be sent to. */
  async function refusalOf(roomId: string, options: SendOptions): Promise<SendFailure | undefined> {
    const path = { roomId };
    const answer = await call(
      "MatrixAnswer",
      (client) => client.matrixEncryption({ path, headers }),
      options,
    );
    if (isUnencrypted(answer)) return undefined;
    if (answer.kind === "none" || answer.status !== 200 || answer.body === undefined)
      return lookupFailure(answer);
    return {
      status: "permanent",
      error:
        "The room is encrypted, and agentd does not encrypt: name another room, or set platforms.matrix.allow_encrypted to send there as plain text.",
    };
  }
}

function isUnencrypted(answer: PlatformAnswer<MatrixAnswer> | NoAnswer): boolean {
  return answer.kind === "answer" && answer.status === 404 && answer.body?.errcode === "M_NOT_FOUND";
}
