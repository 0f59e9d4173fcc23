/**
 * `npm run docs:recording`: installs the packed program and walks through the first hour in one terminal, with a model
 * server that stands in for a local one: install, setup, chat, webhook, job, service. Writes what the screen shows as
 * docs/pictures/first-hour.cast, which `asciinema play` shows. Needs the built program, npm, tmux and the registry.
 */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { parseArgs, promisify } from "node:util";
import { calling, type ModelRequest, saying, startModelServer } from "../test/harness/openai-server.ts";
import { builtProgram } from "../test/harness/program.ts";
import { startTerminal, type Terminal } from "../test/harness/terminal.ts";

const COLUMNS = 100;
const ROWS = 32;
/** How long each screen stays. */
const SECONDS_PER_SCREEN = 2.5;
const MODEL = "qwen3:8b";
/** The shell waits for the next line. */
const PROMPT = /^\$$(?![^]*\S)/m;

const { values } = parseArgs({
  options: {
    out: { type: "string", default: join(import.meta.dirname, "../docs/pictures/first-hour.cast") },
  },
});
const screens: string[] = [];
const folder = await mkdtemp(join(tmpdir(), "agentd-recording-"));
try {
  await record();
} finally {
  await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}
const header = { version: 2, width: COLUMNS, height: ROWS, title: "The first hour with agentd" };
const frames = screens.map((screen, index) => [
  index * SECONDS_PER_SCREEN,
  "o",
  `\u001b[H\u001b[2J${screen.replaceAll("\n", "\r\n")}`,
]);
await writeFile(values.out, `${[header, ...frames].map((line) => JSON.stringify(line)).join("\n")}\n`);
console.log(`${values.out}: ${screens.length} screens`);

async function record(): Promise<void> {
  const project = join(folder, "shop");
  await mkdir(join(project, "build"), { recursive: true });
  await writeFile(join(project, "build/old.js"), "// of May\n");
  const root = dirname(dirname(builtProgram()));
  const { stdout } = await promisify(execFile)(
    "npm",
    ["pack", root, "--ignore-scripts", "--pack-destination", folder, "--json"],
    { cwd: folder },
  );
  const [packed] = JSON.parse(stdout) as readonly { readonly filename: string }[];
  if (!packed) throw new Error("npm packed nothing");
  await using models = await startModelServer(answer, {
    "GET /v1/models": { object: "list", data: [{ id: MODEL, object: "model" }] },
  });
  const home = join(folder, ".agentd");
  await mkdir(home, { mode: 0o700 });
  const servers = { model: { local_servers: { ollama: models.baseUrl } } };
  await writeFile(join(home, "config.yaml"), JSON.stringify(servers), { mode: 0o600 });
  const runtimes = join(root, "node_modules/.bin");
  await using terminal = await startTerminal({
    command: ["bash", "--norc", "--noprofile"],
    columns: COLUMNS,
    rows: ROWS,
    cwd: project,
    env: {
      ...settingsOfNpm(),
      HOME: folder,
      AGENTD_SANDBOX: "auto",
      PATH: `${folder}/.local/bin:${runtimes}:${process.env["PATH"] ?? ""}`,
      PS1: "\\[\\e[2m\\]$\\[\\e[0m\\] ",
    },
  });
  await walk(terminal, join(folder, packed.filename));
  if (models.requests.length === 0) throw new Error("the model was never asked");
}

/** How npm reaches the registry from here. Not the silence of `npm run -s`: what npm says is waited for. */
function settingsOfNpm(): Record<string, string> {
  const own = Object.entries(process.env).filter(([name]) =>
    /^npm_config_(?!loglevel$)|^NODE_EXTRA_CA_CERTS$/i.test(name),
  );
  return Object.fromEntries(own.map(([name, value = ""]) => [name, value]));
}

/** Replies of the model: a tool call where one is asked for, else a sentence. */
function answer({ body }: ModelRequest) {
  const last = JSON.stringify(body.messages.at(-1));
  if (last.includes("old build"))
    return calling({ id: "c1", name: "terminal", json: JSON.stringify({ command: "rm -r build" }) });
  if (last.includes("Deploy")) return saying("shop was pushed: 2 commits, no migration.");
  if (last.includes("news")) return saying("Nothing new today.");
  if (last.includes('"role":"tool"')) return saying("Done.");
  // The setup offers one tool and asks for a call of it.
  const [tool, second] = body.tools ?? [];
  if (tool && !second) return calling({ id: "c0", name: String(tool.function.name), json: "{}" });
  return saying("A web shop with one folder, `build/`.");
}

async function walk(terminal: Terminal, archive: string): Promise<void> {
  const step = async (line: string, wanted: string | RegExp) => {
    await terminal.type(line.replaceAll(folder, "~"));
    await terminal.press("Enter");
    await shot(terminal, wanted);
  };
  await step(`npm install --global --prefix ~/.local ${archive}`, /added \d+ packages?/);
  await step("clear; agentd setup", "Which model provider");
  await terminal.press("Enter");
  await shot(terminal, "Which model?");
  await terminal.press("Enter");
  await shot(terminal, "without asking");
  await terminal.press("Enter");
  await shot(terminal, PROMPT);
  await step("clear; agentd chat", `local:${MODEL}`.split(":")[1] ?? MODEL);
  await step("What is in this folder?", "A web shop");
  await step("Delete the old build.", "esc denies");
  await terminal.type("1");
  await shot(terminal, "Done.");
  await terminal.press("C-d");
  await shot(terminal, PROMPT);
  await step("clear; agentd gateway setup --enable-webhooks --webhook-port 8644", PROMPT);
  await step("agentd webhook subscribe deploys --prompt 'Deploy: {message}'", PROMPT);
  await step("agentd gateway -q --log-format json 2>/dev/null & sleep 4; clear", PROMPT);
  await step("agentd webhook test deploys", /202|accepted/);
  await step("agentd webhook deliveries list", /deploys/);
  await step("clear; agentd cron create --name morning 'every 1d' 'Summarize the news.'", /morning/);
  await step("agentd cron run morning --wait", "Nothing new today.");
  await step("clear; agentd status", /gateway/);
  await step("clear; agentd service install --print | sed -n '/^# Rights/,$p'", /WantedBy/);
  await step("clear; kill %1; wait", PROMPT);
}

/** Waits for the screen and keeps it. */
async function shot(terminal: Terminal, wanted: string | RegExp): Promise<void> {
  await terminal.shows(wanted);
  await terminal.settles();
  const lines = (await terminal.styled()).split("\n").slice(-ROWS);
  const screen = lines.join("\n").replaceAll(folder, "~");
  screens.push(screen.replaceAll(/(Secret: +)\S+/g, "$1[shown once]"));
}
