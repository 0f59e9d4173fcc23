/** One first start, as a process: prints what it made of the key. */
import process from "node:process";
import { loadConfig } from "../../../src/config/config.ts";
import { ensureApiKey } from "../../../src/config/keys.ts";

const [, , home = ""] = process.argv;
const { config, created } = await ensureApiKey(await loadConfig({ home, env: {} }));
process.stdout.write(JSON.stringify({ key: config.api_server.key, created }));
