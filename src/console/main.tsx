/** Starts the console: who is signed in, the socket, and the page. */
import { render } from "preact";
import { App } from "./app.tsx";
import { startConversations } from "./chat/conversations.ts";
import { startRouter } from "./router.ts";
import { startFeed } from "./state/feed.ts";
import { startGateway } from "./state/gateway.ts";
import { startMe } from "./state/me.ts";
import { applyTheme } from "./state/preferences.ts";

const version = document.querySelector<HTMLMetaElement>('meta[name="agentd-console"]')?.content ?? "";
const root = document.querySelector("#app");
applyTheme();
startRouter();
startFeed();
startMe(version);
startConversations();
if (root) {
  root.replaceChildren();
  render(<App />, root);
}
void startGateway(version);
