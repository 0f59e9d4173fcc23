/** The gateway on stdio with things that print: started by stdio.test.ts. */
import process from "node:process";
import { rpcCommand } from "../../../src/cli/gateway/rpc.ts";

const run = rpcCommand.run as (call: { readonly args: object }) => Promise<void>;
const served = run({ args: {} });
setInterval(() => {
  console.log("from the console");
  console.info({ from: "info" });
  console.table(["from a table"]);
  process.stdout.write("from the stream\n");
}, 1);
await served;
