/**
 * A Matrix homeserver as the Client-Server API has sending events, transaction identifiers, room aliases, threads and
 * its standard error response (spec.matrix.org, v1.4 and later).
 */
import { startPlatform, type Asked, type FakePlatform, type Reply } from "./fake.ts";

export const MATRIX_TOKEN = "syt_token_of_no_matrix_user";
export const ROOM = "!room:example.org";
export const ALIAS = "#team:example.org";
export const ENCRYPTED = "!secret:example.org";
/** The user is not in it. */
export const FOREIGN = "!foreign:example.org";
export const ROOT_EVENT = "$root";

const message = {
  type: "object",
  required: ["msgtype", "body"],
  additionalProperties: false,
  properties: {
    msgtype: { enum: ["m.text", "m.notice", "m.file", "m.image"] },
    url: { type: "string", pattern: "^mxc://example\\.org/" },
    filename: { type: "string" },
    info: { type: "object" },
    body: { type: "string", minLength: 1 },
    format: { const: "org.matrix.custom.html" },
    formatted_body: { type: "string", minLength: 1 },
    "m.mentions": { type: "object", additionalProperties: false },
    "m.relates_to": {
      type: "object",
      required: ["rel_type", "event_id", "is_falling_back", "m.in_reply_to"],
      additionalProperties: false,
      properties: {
        rel_type: { const: "m.thread" },
        event_id: { type: "string", pattern: "^\\$" },
        is_falling_back: { const: true },
        "m.in_reply_to": {
          type: "object",
          required: ["event_id"],
          properties: { event_id: { type: "string", pattern: "^\\$" } },
        },
      },
    },
  },
  dependentRequired: { format: ["formatted_body"], formatted_body: ["format"] },
} as const;

/** "m.room.message msgtypes": the tags that clients are to render. */
const tags = new Set(
  "del h1 h2 h3 h4 h5 h6 blockquote p a ul ol sup sub li b i u strong em s code hr br div table thead tbody tr th td caption pre span img details summary".split(
    " ",
  ),
);
const MAX_EVENT_BYTES = 65_536;

interface Cleanup {
  after(run: () => Promise<void>): void;
}

export async function startMatrix(t: Cleanup): Promise<FakePlatform> {
  const events = new Map<string, string>();
  return startPlatform(t, [
    {
      method: "PUT",
      path: /^\/_matrix\/client\/v3\/rooms\/(![^/]+)\/send\/m\.room\.message\/([^/]+)$/,
      schema: message,
      refuse,
      invalid: (issues) => error(400, "M_BAD_JSON", issues),
      answer: (asked, [, room = "", transaction = ""]) => {
        if (room !== ROOM && room !== ENCRYPTED) return forbidden(room);
        const problem = findProblem(asked);
        if (problem) return problem;
        const key = `${room} ${transaction}`;
        const id = events.get(key) ?? `$event${events.size + 1}`;
        events.set(key, id);
        return { status: 200, body: { event_id: id } };
      },
    },
    {
      method: "GET",
      path: /^\/_matrix\/client\/v3\/rooms\/(![^/]+)\/state\/m\.room\.encryption\/?$/,
      refuse,
      answer: (_, [, room = ""]) => {
        if (room === ENCRYPTED) return { status: 200, body: { algorithm: "m.megolm.v1.aes-sha2" } };
        return room === ROOM ? unencrypted : forbidden(room);
      },
    },
    {
      method: "POST",
      path: /^\/_matrix\/media\/v3\/upload$/,
      refuse,
      answer: ({ query }) => ({
        status: 200,
        body: { content_uri: `mxc://example.org/${query.get("filename")?.replace(/\W/g, "")}` },
      }),
    },
    {
      method: "GET",
      path: /^\/_matrix\/client\/v3\/directory\/room\/(#[^/]+)$/,
      refuse,
      answer: (_, [, alias]) =>
        alias === ALIAS
          ? { status: 200, body: { room_id: ROOM, servers: ["example.org"] } }
          : error(404, "M_NOT_FOUND", `Room alias ${alias} not found.`),
    },
  ]);
}

/** What a room without encryption says. */
export const unencrypted: Reply = error(404, "M_NOT_FOUND", "Event not found.");

/** The body of an error, as homeservers give it. */
export function error(status: number, errcode: string, text: string, more: object = {}): Reply {
  return { status, body: { errcode, error: text, ...more } };
}

function refuse({ headers }: Asked): Reply | undefined {
  return headers.authorization === `Bearer ${MATRIX_TOKEN}`
    ? undefined
    : error(401, "M_UNKNOWN_TOKEN", "Invalid access token passed.", { soft_logout: false });
}

function forbidden(room: string): Reply {
  return error(403, "M_FORBIDDEN", `User @agent:example.org not in room ${room}`);
}

function findProblem({ raw, body = {} }: Asked): Reply | undefined {
  if (Buffer.byteLength(raw) > MAX_EVENT_BYTES) return error(413, "M_TOO_LARGE", "event too large");
  const html = String(body["formatted_body"] ?? "");
  const strange = [...html.matchAll(/<\/?([a-z0-9]+)/gi)].find(
    ([, name = ""]) => !tags.has(name.toLowerCase()),
  );
  return strange ? error(400, "M_BAD_JSON", `${strange[0]} is not a tag that clients render`) : undefined;
}
