/**
 * `npm run docs:session`: starts the gateway from source, as `npm start` does, and does in a browser what a stranger does
 * there. A picture of each step goes to docs/pictures, for docs/console-session.md. Needs Chromium.
 */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { promisify } from "node:util";
import { startConsole } from "../test/harness/browser.ts";
import {
  allow,
  ask,
  assertOnce,
  createJob,
  makeRoute,
  mendRoute,
  MOUSE,
  replay,
  retry,
  runJob,
  seeCost,
  seeDeadLetter,
  seeForgery,
  seeRefusal,
  startChatService,
  undisturbed,
  writeJob,
} from "../test/harness/console-visit.ts";
import { agentdCommand, programEnvironment } from "../test/harness/program.ts";
import { startBrowser } from "./test/browser.ts";

const pictures = join(import.meta.dirname, "../docs/pictures");
process.env["AGENTD_TEST_PROGRAM"] = "source";
await using browser = await startBrowser();
if (!browser) throw new Error("There is no Chromium. Name one in CHROMIUM_PATH.");
Object.assign(process.env, browser.env);
await using chats = await startChatService();
await using shown = await startConsole({
  config: chats.config,
  width: 960,
  height: 600,
});
const { page, place, url } = shown;
const visit = undisturbed({ shown, page, hands: MOUSE, chats });

const [file, ...words] = agentdCommand("open", "--print", "--port", new URL(url).port);
const { stdout } = await promisify(execFile)(file, words, {
  env: programEnvironment({ AGENTD_HOME: place.home, AGENTD_DATABASE_URL: place.database }),
});
await page.goto(/http\S+/.exec(stdout)?.[0] ?? "");
await ask(visit);
await picture("approval");
await allow(visit);
const route = await makeRoute(visit);
await seeForgery(visit, route);
await picture("forged");
await seeRefusal(visit, route);
await picture("refused");
await mendRoute(visit);
await replay(visit);
await picture("replayed");
await writeJob(visit);
await picture("job");
await createJob(visit);
await runJob(visit);
await seeDeadLetter(visit);
await picture("dead-letter");
await retry(visit);
await picture("delivered");
await seeCost(visit);
await picture("cost");
await assertOnce(visit);

async function picture(name: string): Promise<void> {
  // A person reads what is said in the corner, and closes it or waits.
  const said = page.getByRole("button", { name: "Close message" });
  while ((await said.count()) > 0) await said.first().click();
  const contents = await page.screenshot({ animations: "disabled" });
  await writeFile(join(pictures, `session-${name}.png`), contents);
}
