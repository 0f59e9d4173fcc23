/**
 * `npm run docs:pictures`: runs the built program in tmux and writes what its screen shows into docs/pictures/ as SVG. With
 * `--check` it only compares. Times, paths and free space are replaced, so that two runs give the same files.
 */
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { calling, saying, startModelServer } from "../test/harness/openai-server.ts";
import { agentdCommand } from "../test/harness/program.ts";
import { startTerminal } from "../test/harness/terminal.ts";
import { drawTerminal } from "./lib/terminal-svg.ts";

const COLUMNS = 84;
/** No line of the checks wraps. */
const DOCTOR_COLUMNS = 100;
const MODEL = "qwen3:8b";

const { values } = parseArgs({
  options: {
    check: { type: "boolean", default: false },
    out: { type: "string", default: join(import.meta.dirname, "../docs/pictures") },
  },
});
const pictures = { "chat.svg": await drawChat(), "doctor.svg": await drawDoctor() };
await mkdir(values.out, { recursive: true });
for (const [name, picture] of Object.entries(pictures)) {
  const file = join(values.out, name);
  if (!values.check) {
    await writeFile(file, picture);
    console.log(`${name}: ${picture.length} bytes`);
  } else if ((await readFile(file, "utf8").catch(() => "")) !== picture) {
    console.error(`docs/pictures/${name} is not what the program shows: run \`npm run docs:pictures\``);
    process.exitCode = 1;
  }
}

/** A conversation that stops at an approval. */
async function drawChat(): Promise<string> {
  await using place = await openPlace();
  await using models = await startModelServer(({ body }) => {
    const last = JSON.stringify(body.messages.at(-1));
    if (last.includes("What is"))
      return saying("A web shop: `src/` has 12 modules with tests, `build/` is from May.");
    return calling({ id: "c1", name: "terminal", json: JSON.stringify({ command: "rm -r build" }) });
  });
  const provider = `{ type: openai_compatible, base_url: "${models.baseUrl}", models: ["${MODEL}"] }`;
  await writeFile(
    join(place.home, "config.yaml"),
    `model:\n  default: local:${MODEL}\n  providers:\n    local: ${provider}\nsessions: { titles: prompt }\n`,
  );
  const command = agentdCommand("chat");
  await using terminal = await startTerminal({ ...place.options, command });
  const send = async (text: string) => {
    await terminal.type(text);
    await terminal.press("Enter");
  };
  await terminal.shows(`local:${MODEL}`);
  await send("What is in this folder?");
  await terminal.shows(/from May[^]*ctrl-d/);
  await send("Delete the old build.");
  await terminal.shows("esc denies");
  const screen = place.hidden(await terminal.styled());
  const description = "A chat in which the agent asks for approval before it deletes a folder";
  return drawTerminal(screen, { title: "agentd chat", columns: COLUMNS, description });
}

/** The checks of a new home. */
async function drawDoctor(): Promise<string> {
  await using place = await openPlace();
  const command = agentdCommand("doctor");
  await using terminal = await startTerminal({ ...place.options, command, columns: 2 * DOCTOR_COLUMNS });
  await terminal.ended();
  const lines = (await terminal.styled()).split("\n").filter((line) => !line.includes("Pane is dead"));
  const screen = place.hidden(lines.join("\n").trimEnd());
  const description = "agentd doctor lists its checks: two warnings, each with what to do";
  const options = { title: "agentd doctor", columns: DOCTOR_COLUMNS, description };
  return drawTerminal(`\u001b[2m$\u001b[0m agentd doctor\n${screen}`, options);
}

/** A home of its own, and a project to work in. */
async function openPlace() {
  const folder = await mkdtemp(join(tmpdir(), "agentd-picture-"));
  const [home, cwd] = [join(folder, ".agentd"), join(folder, "shop")];
  await mkdir(home, { mode: 0o700 });
  await mkdir(join(cwd, "build"), { recursive: true });
  const port = await freePort();
  const env = { HOME: folder, AGENTD_HOME: home, AGENTD_PORT: String(port), AGENTD_SANDBOX: "auto" };
  return {
    home,
    options: { columns: COLUMNS, rows: 40, cwd, env },
    /** Replaces what differs between two runs. */
    hidden: (screen: string) =>
      screen
        .replaceAll(folder, "~")
        .replaceAll(/\b\d+ MB free/g, "81920 MB free")
        .replaceAll(/\bNode \d+\.\d+\.\d+/g, "Node 24.11.0")
        .replaceAll(`:${port}`, ":8642")
        // oxlint-disable-next-line no-control-regex -- the style of the text before it
        .replaceAll(/(?:\u001b\[2m)? {2}\d+(?:\.\d+)? s\b/g, "")
        .replaceAll(/\b[45]:\d\d left/g, "5:00 left"),
    [Symbol.asyncDispose]: () =>
      rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }),
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
