/** `agentd questions` and `agentd grants`: what runs ask people, and what people approved for good. */
import { defineCommand } from "citty";
import { ServiceError } from "../../base/errors.ts";
import { AgentApiError, type AnswerBody, type Question } from "../../client/http.ts";
import { withApi, withGatewayApi, type Api } from "../kit/api.ts";
import { positionalsOf, UsageError } from "../kit/arguments.ts";
import { defineApiCommand } from "../kit/command.ts";
import { confirm } from "../kit/confirm.ts";
import { formatRelative } from "../kit/duration.ts";
import {
  cursorOption,
  jsonOption,
  limitOption,
  quietOption,
  requiredArgument,
  switchOption,
  textOption,
  toLimit,
  yesOption,
} from "../kit/options.ts";
import { gatewayPortOption } from "../kit/local-gateway.ts";
import { listTime, print, printData, printJson, printTable, warn } from "../kit/output.ts";
import { readPages } from "../kit/pages.ts";
import { readSecret } from "../kit/streams.ts";
import { toBlock } from "../kit/table.ts";
import { oneLine } from "../sessions/text.ts";

const MAX_LIMIT = 500;
const STATUSES: readonly Question["status"][] = ["open", "answered", "expired", "cancelled"];
const KINDS: readonly Question["kind"][] = ["approval", "clarify", "sudo", "secret"];

const question = requiredArgument("Id of the question (ask_...)");

const list = defineApiCommand({
  meta: { name: "list", description: "List the questions of runs, newest first" },
  args: {
    status: { type: "enum", options: [...STATUSES], default: "open", description: "Filter by status" },
    kind: { type: "enum", options: [...KINDS], description: "Filter by kind" },
    run: textOption("id", "Filter by run"),
    limit: limitOption("Questions", { max: MAX_LIMIT, fallback: 50 }),
    cursor: cursorOption,
    quiet: quietOption,
    json: jsonOption,
  },
  async run({ args }) {
    const limit = toLimit(args.limit, MAX_LIMIT);
    const filter = {
      status: [args.status as Question["status"]],
      ...(args.kind === undefined ? {} : { kind: [args.kind as Question["kind"]] }),
      ...(args.run === undefined ? {} : { run_id: args.run }),
    };
    await withApi(async ({ client, anyOwner: headers }) => {
      const read = (page: object) => client.listQuestions({ query: { ...filter, ...page }, headers });
      const { rows, next } = await readPages(read, { limit, after: args.cursor });
      if (args.json) return printJson({ questions: rows, next_cursor: next });
      if (rows.length === 0) return warn("No questions match.");
      const nowMs = Date.now();
      if (args.quiet) printData(rows.map(({ id }) => id).join("\n"));
      else
        printTable(
          ["ID", "ASKED", "KIND", "STATUS", "RUN", "QUESTION"],
          rows.map((each) => cellsOf(each, nowMs)),
        );
      if (next !== null) warn(`More questions follow: pass --cursor ${next}`);
    });
  },
});

const show = defineApiCommand({
  meta: { name: "show", description: "Show a question and how to answer it" },
  args: { question, json: jsonOption },
  async run({ args }) {
    await withApi(async (api) => {
      const found = await findQuestion(api, args.question);
      if (args.json) printJson(found);
      else print(questionText(found, Date.now()));
    });
  },
});

const answer = defineApiCommand({
  meta: {
    name: "answer",
    description:
      "Answer a question: with once, session, always or deny for an approval, or with one text for each question of the agent",
  },
  args: {
    question,
    answer: {
      type: "positional",
      required: false,
      valueHint: "...",
      description: "The answers. A question that takes several choices gets them separated by line breaks",
    },
    reason: textOption("text", "With deny: message to the agent"),
    stdin: switchOption("Read the password or the secret that it asks for from standard input"),
    decline: switchOption("Decline the question, whatever its kind"),
    port: gatewayPortOption,
    json: jsonOption,
  },
  async run({ args, rawArgs }) {
    const [, ...answers] = positionalsOf(rawArgs);
    const { decline = false, stdin = false, reason } = args;
    const { kind } = await withApi((api) => findQuestion(api, args.question));
    const isHidden = kind === "sudo" || kind === "secret";
    // Only the process that asks for a password can take it.
    const isLive = isHidden && !decline;
    const answerNow = async (api: Api) => {
      const found = await findQuestion(api, args.question);
      const body = await bodyOf(found, { answers, decline, stdin, reason });
      const path = { question_id: found.id };
      const { data: done } = await api.client.answerQuestion({
        path,
        headers: api.ownedBy(found.owner),
        body,
      });
      if (args.json) printJson(done);
      else print(`${decline ? "Declined" : "Answered"} ${done.id} of ${done.run_id}.`);
    };
    await (isLive ? withGatewayApi(args.port, answerNow) : withApi(answerNow));
  },
});

export const questionsCommand = defineCommand({
  meta: { name: "questions", description: "List, show and answer the questions of runs" },
  subCommands: { list, show, answer },
});

interface Given {
  readonly answers: readonly string[];
  readonly decline: boolean;
  readonly stdin: boolean;
  readonly reason: string | undefined;
}

const CHOICES = ["once", "session", "always", "deny"] as const;

/** Returns the body of an answer. UsageError for one that does not go with the question. */
async function bodyOf(
  { kind, questions }: Question,
  { answers, decline, stdin, reason }: Given,
): Promise<AnswerBody> {
  const more = reason === undefined ? {} : { reason };
  if (Number(answers.length > 0) + Number(decline) + Number(stdin) !== 1)
    throw new UsageError("Pass one of: answers, --stdin, --decline.");
  if (decline) return { decline, ...more };
  if (kind === "sudo" || kind === "secret") {
    if (!stdin) throw new UsageError(`This question asks for a ${NEEDED[kind]}. Pipe it in, with --stdin.`);
    const text = await readSecret("--stdin");
    return kind === "sudo" ? { password: text } : { value: text };
  }
  if (stdin) throw new UsageError("--stdin is for passwords and secrets.");
  if (kind === "approval") {
    const choice = CHOICES.find((each) => each === answers[0]);
    if (!choice || answers.length > 1) throw new UsageError(`Answer with one of ${CHOICES.join(", ")}.`);
    return { choice, ...more };
  }
  const asked = questions ?? [];
  if (asked.length !== answers.length)
    throw new UsageError(`Pass ${asked.length} answers, one for each question, in their order.`);
  return { answers: Object.fromEntries(asked.map(({ id }, index) => [id, answers[index]])) };
}

const NEEDED = { sudo: "password", secret: "secret" };

async function findQuestion({ client, anyOwner: headers }: Api, id: string): Promise<Question> {
  const path = { question_id: id };
  const found = await client.getQuestion({ path, headers }).catch((error: unknown) => {
    if (!(error instanceof AgentApiError) || error.code !== "question_not_found") throw error;
    const hint = "`agentd questions list` lists the open ones.";
    throw new ServiceError("question_not_found", `Question ${JSON.stringify(id)} does not exist. ${hint}`);
  });
  return found.data;
}

function cellsOf(each: Question, nowMs: number): readonly string[] {
  return [
    each.id,
    listTime(each.created_at * 1000, nowMs),
    each.kind,
    each.status,
    each.run_id,
    titleOf(each),
  ];
}

function titleOf({ approval, questions, prompt }: Question): string {
  return oneLine(approval?.title ?? questions?.map((each) => each.question).join(" ") ?? prompt ?? "");
}

function questionText(found: Question, nowMs: number): string {
  const { id, kind, status, approval, questions, answer: given } = found;
  const at = (seconds: number | null) =>
    seconds === null
      ? undefined
      : `${new Date(seconds * 1000).toISOString()} (${formatRelative(seconds * 1000, nowMs)})`;
  return [
    toBlock([
      ["id", id],
      ["kind", kind],
      ["status", status],
      ["run", found.run_id],
      ["session", found.session_id],
      ["asked", at(found.created_at)],
      ["expires", status === "open" ? at(found.expires_at) : undefined],
      ["answered", at(found.answered_at)],
      ["by", found.answered_by ?? undefined],
      ["answer", given?.choice ?? undefined],
    ]),
    "",
    ...(questions ?? []).flatMap((each) => [
      oneLine(each.question),
      ...(each.choices ?? []).map((choice) => `  ${oneLine(choice)}`),
      ...(given?.answers?.[each.id] === undefined ? [] : [`  = ${oneLine(given.answers[each.id] ?? "")}`]),
    ]),
    ...(questions ? [] : [titleOf(found)]),
    ...(approval?.description === undefined ? [] : [oneLine(approval.description)]),
    ...(status === "open" ? ["", `Answer with ${hintOf(kind, id)}, or pass --decline.`] : []),
  ].join("\n");
}

function hintOf(kind: Question["kind"], id: string): string {
  if (kind === "approval") return `\`agentd questions answer ${id} once|session|always|deny\``;
  return kind === "clarify"
    ? `\`agentd questions answer ${id} TEXT\``
    : `\`agentd questions answer ${id} --stdin\` and its ${NEEDED[kind]} on standard input`;
}

const listGrants = defineApiCommand({
  meta: { name: "list", description: "List the approvals that hold for all sessions" },
  args: { json: jsonOption },
  async run({ args }) {
    await withApi(async ({ client, anyOwner: headers }) => {
      const { rows } = await readPages((query) => client.listGrants({ query, headers }));
      if (args.json) return printJson({ grants: rows });
      if (rows.length === 0) return warn("Nothing is approved for all sessions.");
      const nowMs = Date.now();
      const cells = rows.map(({ id, created_at: createdAt, owner, tool, title }) => [
        id,
        listTime(createdAt * 1000, nowMs),
        oneLine(owner),
        oneLine(tool),
        oneLine(title),
      ]);
      printTable(["ID", "APPROVED", "OWNER", "TOOL", "FIRST CALL"], cells);
    });
  },
});

const revoke = defineApiCommand({
  meta: { name: "revoke", description: "Revoke an approval, so that such calls require approval again" },
  args: { grant: requiredArgument("Id of the approval"), yes: yesOption, json: jsonOption },
  async run({ args }) {
    if (!args.yes && !confirm.isPossible())
      throw new UsageError("Cannot ask for confirmation without a terminal. Pass --yes to revoke it.");
    await withApi(async (api) => {
      const { rows } = await readPages((query) => api.client.listGrants({ query, headers: api.anyOwner }));
      const found = rows.find(({ id }) => id === args.grant);
      if (!found) {
        const what = `Approval ${JSON.stringify(args.grant)} does not exist. \`agentd grants list\` lists them.`;
        throw new ServiceError("not_found", what);
      }
      if (!args.yes && !(await confirm.ask(`Revoke ${found.id} (${oneLine(found.title)})?`)))
        return warn("Nothing was revoked.");
      const path = { grant_id: found.id };
      const { data: done } = await api.client.deleteGrant({ path, headers: api.ownedBy(found.owner) });
      if (args.json) printJson(done);
      else print(`Revoked ${found.id}: ${oneLine(found.title)}`);
    });
  },
});

export const grantsCommand = defineCommand({
  meta: { name: "grants", description: "List and revoke approvals that hold for all sessions" },
  subCommands: { list: listGrants, revoke },
});
