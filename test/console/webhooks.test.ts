import assert from "node:assert/strict";
import { test } from "node:test";
import type { Delivery, Route } from "../../generated/http/client/types.gen.ts";
import { startConsole, type ConsoleTest } from "../harness/browser.ts";
import {
  callApi,
  createIssuesRoute,
  deliveriesOf,
  RECEIVER,
  sendIssue,
} from "../harness/console-webhooks.ts";

test("a route is made in the browser, with its secret shown once and a command that works", async () => {
  await using shown = await startConsole({ config: RECEIVER });
  const page = await shown.open("/webhooks");
  await page.getByRole("heading", { name: "No route yet" }).waitFor();
  await page.getByRole("button", { name: "Create a route" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("pushes");
  await dialog.getByLabel("Events").fill("push, release");
  await dialog.getByRole("textbox", { name: "Prompt" }).fill("Summarize {ref}.");
  await dialog.getByRole("button", { name: "Create the route" }).click();
  await dialog.getByRole("heading", { name: "The route pushes is ready" }).waitFor();
  const secret = await dialog.getByLabel("Secret", { exact: true }).innerText();
  const url = await dialog.getByLabel("Address", { exact: true }).innerText();
  assert.equal(await sendIssue({ url, secret } as Route, "opened", "push"), 202);
  await dialog.getByRole("button", { name: "Done" }).click();
  await page.waitForURL("**/webhooks/pushes");
  await page.getByRole("cell", { name: "completed" }).waitFor();
  assert.ok(!(await page.content()).includes(secret), "the secret is shown only once");
  const { events, prompt } = await callApi<Route>(shown, "/v1/webhooks/routes/pushes");
  assert.deepEqual({ events, prompt }, { events: ["push", "release"], prompt: "Summarize {ref}." });
});

test("a route is edited, disabled, given another secret and deleted", async () => {
  await using shown = await startConsole({ config: RECEIVER });
  const route = await createIssuesRoute(shown);
  const page = await shown.open("/webhooks/issues");
  await page.getByText("Edit this route").click();
  await page.getByLabel("Events").fill("issues, issue_comment");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved.").waitFor();
  const edited = await callApi<Route>(shown, "/v1/webhooks/routes/issues");
  assert.deepEqual(edited.events, ["issues", "issue_comment"]);
  assert.deepEqual(edited.filters, route.filters, "what was not changed stays");

  await page.getByRole("button", { name: "Disable issues" }).click();
  await page.getByRole("button", { name: "Enable issues" }).click();
  await page.getByRole("button", { name: "Disable issues" }).waitFor();

  await page.getByRole("button", { name: "Rotate secret" }).click();
  await page.getByLabel("The earlier secret stays valid").selectOption("0");
  await page.getByRole("button", { name: "Make a new secret" }).click();
  const secret = await page.getByRole("dialog").getByLabel("Secret", { exact: true }).innerText();
  await page.getByRole("button", { name: "Done" }).click();
  assert.equal(await sendIssue(route, "opened"), 401, "the earlier secret is no longer valid");
  assert.equal(await sendIssue({ ...route, secret }, "opened"), 202);

  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByRole("heading", { name: "No route yet" }).waitFor();
  assert.equal((await shown.request("/v1/webhooks/routes/issues")).status, 404);
});

test("a stopped delivery appears live, and names its stage and filter", async () => {
  await using shown = await startConsole({ config: RECEIVER });
  const route = await createIssuesRoute(shown);
  const page = await shown.open("/webhooks/deliveries");
  await page.getByRole("heading", { name: "Nothing was received yet" }).waitFor();
  await sendIssue(route, "labeled");
  const row = page.getByRole("row").filter({ hasText: "ignored" });
  await row.getByText(/action in .*"opened".*but it is "labeled"/).waitFor();
  await sendIssue(route, "opened");
  await page.getByRole("cell", { name: "completed" }).waitFor();

  await page.getByLabel("Result").selectOption("ignored");
  await page.waitForURL("**/webhooks/deliveries?result=ignored");
  await page.getByRole("cell", { name: "completed" }).waitFor({ state: "detached" });
  await row.getByRole("link").click();
  await page.getByRole("heading", { name: "Ignored at the filters stage" }).waitFor();
  const stages = page.getByRole("region", { name: "Stages" }).getByRole("listitem");
  assert.match(await stages.filter({ hasText: "events" }).innerText(), /passed/);
  assert.match(await stages.filter({ hasText: "filters" }).innerText(), /action in[\s\S]*stopped here/);
  assert.match(await stages.filter({ hasText: "render" }).innerText(), /not reached/);
  await page.getByLabel("Body").getByText('"labeled"').waitFor();
  await page.getByRole("button", { name: "Headers" }).click();
  await page.getByText("x-github-event").waitFor();
  assert.ok(!(await page.content()).includes(route.secret!));
  await page.goBack();
  await page.getByLabel("Result").waitFor();
  assert.equal(await page.getByLabel("Result").inputValue(), "ignored", "Back restores the filter");
});

test("a request with a wrong secret appears as refused, says why, and cannot be replayed", async () => {
  await using shown = await startConsole({ config: RECEIVER });
  const route = await createIssuesRoute(shown);
  const page = await shown.open("/webhooks/issues");
  await page.getByText("Nothing was received yet.").waitFor();
  assert.equal(await sendIssue({ ...route, secret: "another secret" }, "opened"), 401);
  const row = page.getByRole("row").filter({ hasText: "refused" });
  await row.getByText(/secrets of the sender and of the route differ/).waitFor();
  await row.getByRole("link").click();
  await page.getByRole("heading", { name: "Refused at the signature stage" }).waitFor();
  await page.getByText("Set the same secret on both sides").first().waitFor();
  await page.getByText("the body is not kept and the request cannot be replayed").waitFor();
  assert.equal(await page.getByRole("button", { name: "Replay" }).count(), 0);
  assert.equal(await page.getByRole("link", { name: "Edit and dry-run" }).count(), 0);
  const [refused] = await deliveriesOf(shown);
  const path = `/v1/webhooks/deliveries/${refused!.id}/replay`;
  const answer = await shown.request(path, { method: "POST", body: "{}" });
  assert.equal(answer.status, 409);
  assert.match(await answer.text(), /its sender was not verified/);
  await page.getByRole("link", { name: "All deliveries" }).click();
  await sendIssue(route, "opened");
  await page.getByRole("cell", { name: "completed" }).waitFor();
});

test("a replay links to its origin, and the origin to its replay", async () => {
  await using shown = await startConsole({ config: RECEIVER });
  const route = await createIssuesRoute(shown);
  await sendIssue(route, "opened");
  const [origin] = await deliveriesOf(shown);
  const page = await shown.open(`/webhooks/deliveries/${origin!.id}`);
  await page.getByRole("button", { name: "Replay" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Replay" }).click();
  await page.waitForURL((url) => url.pathname !== `/webhooks/deliveries/${origin!.id}`);
  const back = page.getByRole("link", { name: origin!.id });
  await back.waitFor();
  const [replay, ...others] = await deliveriesOf(shown);
  assert.equal(others.length, 1, "it was replayed once");
  assert.equal(replay?.replay_of, origin!.id);
  assert.ok(page.url().endsWith(replay.id));
  await back.click();
  await page.getByRole("heading", { name: "Replays" }).waitFor();
  await page.getByRole("link", { name: replay.id }).waitFor();
  await page.getByRole("link", { name: origin!.run_id! }).waitFor();
});

/** What a dry run must leave as it is: every list, and the position of the feed of all changes. */
async function stateOf(shown: ConsoleTest): Promise<readonly string[]> {
  const paths = ["webhooks/routes", "webhooks/deliveries", "runs", "outbox", "sessions", "questions"];
  const answers = paths.map(async (path) => {
    const response = await shown.request(`/v1/${path}`);
    const cursor = response.headers.get("x-agent-event-cursor");
    return `${path} ${cursor} ${await response.text()}`;
  });
  return Promise.all(answers);
}

test("a dry run with another payload, or another filter, changes nothing in the store", async () => {
  await using shown = await startConsole({ config: RECEIVER });
  const route = await createIssuesRoute(shown);
  await sendIssue(route, "labeled");
  const [delivery] = await deliveriesOf(shown);
  const page = await shown.open(`/webhooks/deliveries/${delivery!.id}`);
  const before = await stateOf(shown);
  await page.getByRole("link", { name: "Edit and dry-run" }).click();
  await page.getByRole("button", { name: "Try it" }).click();
  await page.getByRole("heading", { name: "It would stop at the filters stage" }).waitFor();
  const body = page.getByLabel("Body", { exact: true });
  await body.fill((await body.inputValue()).replace("labeled", "opened"));
  await page.getByRole("button", { name: "Try it" }).click();
  await page.getByRole("heading", { name: "It would be accepted" }).waitFor();
  await page.getByLabel("Prompt").getByText("The build is red").waitFor();
  await body.fill("{ not JSON");
  await page.getByRole("button", { name: "Try it" }).click();
  await page.getByText(/The body is not JSON/).waitFor();

  await page.getByRole("button", { name: "Change the route" }).click();
  await page.getByText("Filters, signature and more").click();
  await page.getByLabel("Filters", { exact: true }).fill('[{ "field": "action", "in": ["labeled"] }]');
  await page.getByRole("button", { name: "Try it" }).click();
  await page.getByRole("heading", { name: "It would be accepted" }).waitFor();
  assert.deepEqual(await stateOf(shown), before);

  await page.getByRole("button", { name: "Save these changes to the route" }).click();
  await page.getByText("Saved.").waitFor();
  const { filters } = await callApi<Route>(shown, "/v1/webhooks/routes/issues");
  assert.deepEqual(filters, [{ field: "action", in: ["labeled"] }]);
  assert.equal(await sendIssue(route, "labeled"), 202);
});

test("a delivery is copied as a command that is accepted again", async () => {
  await using shown = await startConsole({ config: RECEIVER });
  const route = await createIssuesRoute(shown);
  await sendIssue(route, "labeled");
  const [delivery] = await deliveriesOf(shown);
  await shown.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const page = await shown.open(`/webhooks/deliveries/${delivery!.id}`);
  await page.getByRole("button", { name: "Copy as curl" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(command, /^BODY='\{"action":"labeled"/);
  assert.ok(command.includes(`curl -i '${route.url}'`), command);
  assert.ok(!command.includes(route.secret!));
});

test("a key that may only read sees no button that would fail", async () => {
  await using shown = await startConsole({ config: RECEIVER });
  const route = await createIssuesRoute(shown);
  await sendIssue(route, "labeled");
  await callApi(shown, "/v1/keys", { name: "reader", owner: "default", scopes: ["read"] });
  const { code } = await callApi<{ readonly code: string }>(shown, "/api/console/codes", {
    kind: "link",
    key: "reader",
  });
  const { page } = shown;
  await page.goto(`/login?next=/webhooks#c=${code}`);
  await page.getByRole("cell", { name: "issues", exact: true }).first().waitFor();
  const [delivery] = (await deliveriesOf(shown)) as readonly [Delivery];
  for (const path of [
    "/webhooks",
    "/webhooks/issues",
    "/webhooks/deliveries",
    `/webhooks/deliveries/${delivery.id}`,
  ]) {
    await page.goto(path);
    await page.locator("h1").waitFor();
    await page.getByText("Loading").waitFor({ state: "detached" });
    const words = /New|Create|Disable|Rotate|Delete|Edit|Replay|Retry|Save/;
    await page.getByRole("button", { name: words }).first().waitFor({ state: "detached" });
    assert.equal(await page.getByRole("link", { name: "Edit and dry-run" }).count(), 0);
  }
  await page.getByText("it lacks the scope webhooks").waitFor();
});
