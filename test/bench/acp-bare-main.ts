/** Starts the bare agent as agentd starts: compiled code kept in the folder, the rest loaded behind it. */
import nodeModule from "node:module";
import process from "node:process";

const [folder, modelUrl] = process.argv.slice(2);
if (folder !== undefined) nodeModule.enableCompileCache(folder);
const { serveBare } = await import("./acp-bare.ts");
await serveBare(modelUrl);
