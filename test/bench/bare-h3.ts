/** The least that a server of the same library is: it listens, and passes on the stream of a model when it is given one. Leaves by the end of its input. */
import nodeModule from "node:module";
import process from "node:process";

const [codeFolder, modelUrl] = process.argv.slice(2);
// As the program does: compiled code is kept, and what is loaded behind this line comes from there.
if (codeFolder !== undefined) nodeModule.enableCompileCache(codeFolder);
const { H3, serve } = await import("h3");

const app = new H3({ silent: true });
app.get("/health", () => ({ status: "ok" }));
app.post("/v1/chat/completions", async (event) => {
  const body = await event.req.text();
  const answer = await fetch(`${modelUrl}/v1/chat/completions`, { method: "POST", body });
  return new Response(answer.body, {
    status: answer.status,
    headers: { "content-type": "text/event-stream" },
  });
});
const server = serve(app, { hostname: "127.0.0.1", port: 0, silent: true, gracefulShutdown: false });
await server.ready();
console.log(`listens on ${server.url}`);
process.stdin.resume().once("end", () => {
  nodeModule.flushCompileCache();
  process.exit(0);
});
