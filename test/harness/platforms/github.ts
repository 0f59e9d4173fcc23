/**
 * GitHub's REST API for comments, as "REST API endpoints for issue comments" (docs.github.com, 2022-11-28) says: create
 * an issue comment, list issue comments. gh reaches it as a proxy: with GH_HOST=github.localhost it speaks plain HTTP.
 */
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startPlatform, type Asked, type FakePlatform, type PlatformRoute, type Reply } from "./fake.ts";

export const TOKEN = "example-token";

export interface GithubFake extends FakePlatform {
  /** Bodies of the comments on a number, in their order. */
  comments(number: number): readonly string[];
  /** Somebody writes a comment. */
  write(number: number, body: string): void;
}

interface Comment {
  readonly id: number;
  readonly body: string;
  readonly updated_at: string;
}

interface Cleanup {
  after(run: () => Promise<void>): void;
}

const MAX_BODY_CHARACTERS = 65_536;
const PATH = /^\/repos\/octo\/hello\.world\/issues\/(\d+)\/comments$/;
const missing = {
  status: 404,
  body: { message: "Not Found", documentation_url: "https://docs.github.com/rest" },
};

/** Has the repository octo/hello.world with 1 (a pull request), 2 (an issue) and 3 (locked). */
export async function startGithub(t: Cleanup, now: () => number): Promise<GithubFake> {
  const threads = new Map<number, Comment[]>([
    [1, []],
    [2, []],
    [3, []],
  ]);
  let lastId = 0;
  const add = (thread: Comment[], body: string) => {
    lastId += 1;
    const comment = { id: lastId, body, updated_at: new Date(now()).toISOString() };
    thread.push(comment);
    return comment;
  };
  const create: PlatformRoute = {
    method: "POST",
    path: PATH,
    schema: {
      type: "object",
      required: ["body"],
      properties: { body: { type: "string" } },
      additionalProperties: false,
    },
    refuse,
    invalid: (issues) => ({ status: 422, body: { message: `Invalid request. ${issues}` } }),
    answer({ body }, [, number = ""]) {
      const thread = threads.get(Number(number));
      const text = String(body?.["body"]);
      if (!thread) return missing;
      if (Number(number) === 3) {
        return { status: 403, body: { message: "Unable to create comment because issue is locked." } };
      }
      if (text.trim() === "" || text.length > MAX_BODY_CHARACTERS) {
        const message = "Body is too long (maximum is 65536 characters)";
        return {
          status: 422,
          body: { message: "Validation Failed", errors: [{ resource: "IssueComment", message }] },
        };
      }
      const { id } = add(thread, text);
      const url = `https://github.com/octo/hello.world/issues/${number}#issuecomment-${id}`;
      return { status: 201, body: { id, html_url: url, body: text } };
    },
  };
  const list: PlatformRoute = {
    method: "GET",
    path: PATH,
    refuse,
    answer({ query }, [, number = ""]) {
      const thread = threads.get(Number(number));
      const perPage = Number(query.get("per_page") ?? 30);
      const sinceMs = Date.parse(query.get("since") ?? "1970-01-01T00:00:00Z");
      if (!thread) return missing;
      if (Number.isNaN(sinceMs) || perPage > 100)
        return { status: 422, body: { message: "Validation Failed" } };
      const recent = thread.filter(({ updated_at: at }) => Date.parse(at) >= sinceMs);
      const from = (Number(query.get("page") ?? 1) - 1) * perPage;
      return { status: 200, body: recent.slice(from, from + perPage) };
    },
  };
  const platform = await startPlatform(t, [create, list]);
  return {
    ...platform,
    comments: (number) => (threads.get(number) ?? []).map(({ body }) => body),
    write: (number, body) => void add(threads.get(number) ?? [], body),
  };
}

function refuse({ headers }: Asked): Reply | undefined {
  if (headers.host !== "api.github.localhost") return { status: 400, body: { message: "Not this host" } };
  const isSigned = [`token ${TOKEN}`, `bearer ${TOKEN}`].includes(
    String(headers.authorization).toLowerCase(),
  );
  return isSigned ? undefined : { status: 401, body: { message: "Bad credentials" } };
}

/** An empty folder that goes with the test. */
export async function openFolder(t: Cleanup): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "agentd-gh-")));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}
