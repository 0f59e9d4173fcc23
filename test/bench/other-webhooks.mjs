// The webhook receiver of Octokit, as its documentation starts it: it verifies, parses, and calls a handler in memory.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, secret] = process.argv.slice(2);
const path = createRequire(`${folder}/package.json`).resolve("@octokit/webhooks");
const { Webhooks, createNodeMiddleware } = await import(pathToFileURL(path).href);
const webhooks = new Webhooks({ secret });
webhooks.on("push", () => {});
const server = createServer(createNodeMiddleware(webhooks, { path: "/webhooks/waiting" }));
server.listen(0, "127.0.0.1", () => console.log(`listens on http://127.0.0.1:${server.address().port}`));
process.stdin.resume().once("end", () => process.exit(0));
