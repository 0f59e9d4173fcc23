/** Files of answers, as the platforms get them. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { OutboundFile, Platform } from "../../../src/deliver/target.ts";
import { discord } from "../../../src/deliver/targets/discord.ts";
import { email } from "../../../src/deliver/targets/email/email.ts";
import { matrix } from "../../../src/deliver/targets/matrix.ts";
import { signal } from "../../../src/deliver/targets/signal.ts";
import { slack } from "../../../src/deliver/targets/slack.ts";
import { telegram } from "../../../src/deliver/targets/telegram.ts";
import { DISCORD_TOKEN, startDiscord, TEXT_CHANNEL } from "../../harness/platforms/discord.ts";
import { MATRIX_TOKEN, ROOM, startMatrix } from "../../harness/platforms/matrix.ts";
import { sendThrough, type SendRequest } from "../../harness/platforms/send.ts";
import { SIGNAL_ACCOUNT, startSignal } from "../../harness/platforms/signal.ts";
import { CHANNEL, refusal, SLACK_TOKEN, startSlack } from "../../harness/platforms/slack.ts";
import { PASSWORD, startSmtp, USER, makeCertificate } from "../../harness/platforms/smtp.ts";
import { error, startTelegram, TELEGRAM_TOKEN } from "../../harness/platforms/telegram.ts";

const PNG = Buffer.from("89504e470d0a1a0a0000000d49484452", "hex");
const PDF = Buffer.concat([Buffer.from("%PDF-1.7\n"), Buffer.from([0, 255, 254, 13, 10, 128])]);

function fileOf(name: string, type: string, bytes: Buffer): OutboundFile {
  return { name, type, sizeBytes: bytes.length, read: async () => bytes };
}

const photo = fileOf("chart.png", "image/png", PNG);
const report = fileOf("Bericht, ä.pdf", "application/pdf", PDF);
const lost: OutboundFile = { ...report, read: async () => undefined };

const delivered = { status: "delivered" };

test("Telegram gets an image as a photo and another file as a document, after the text, in the same topic", async (t) => {
  const fake = await startTelegram(t);
  const settings = { token: TELEGRAM_TOKEN, base_url: fake.url };
  const request: SendRequest = { address: "-100123:17", text: "Done.", files: [photo, report] };
  const { outcome, progress } = await sendThrough(telegram, settings, request);
  assert.deepEqual(outcome, delivered);
  assert.deepEqual(progress, [1, 2], "each file is a part of the message");
  assert.deepEqual(
    fake.asked.map(({ path }) => path.split("/").at(-1)),
    ["sendMessage", "sendPhoto", "sendDocument"],
  );
  const [, first, second] = fake.asked;
  assert.deepEqual(first?.files, [{ field: "photo", name: "chart.png", type: "image/png", bytes: PNG }]);
  assert.deepEqual(second?.files[0]?.bytes, PDF);
  assert.equal(second?.files[0]?.name, "Bericht, ä.pdf");
  assert.deepEqual(second?.body, { chat_id: "-100123", message_thread_id: "17" });
});

test("a photo that Telegram refuses is sent as a document, and an answer that is only a file has no text", async (t) => {
  const fake = await startTelegram(t);
  const settings = { token: TELEGRAM_TOKEN, base_url: fake.url };
  fake.next(error(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"));
  const { outcome } = await sendThrough(telegram, settings, { address: "42", text: " \n", files: [photo] });
  assert.deepEqual(outcome, delivered);
  assert.deepEqual(
    fake.asked.map(({ path }) => path.split("/").at(-1)),
    ["sendPhoto", "sendDocument"],
  );
});

test("a later attempt starts after the parts that arrived, and sends no file twice", async (t) => {
  const fake = await startTelegram(t);
  const settings = { token: TELEGRAM_TOKEN, base_url: fake.url };
  const request: SendRequest = { address: "42", text: "Done.", files: [photo, report] };
  await sendThrough(telegram, settings, { ...request, partsSent: 2, attempt: 2 });
  assert.deepEqual(
    fake.asked.map(({ path }) => path.split("/").at(-1)),
    ["sendDocument"],
  );
});

test("Discord gets the file beside the JSON of a message with the same nonce for every attempt", async (t) => {
  const fake = await startDiscord(t);
  const settings = { token: DISCORD_TOKEN, base_url: fake.url };
  const request: SendRequest = { address: TEXT_CHANNEL, text: "Done.", files: [report] };
  assert.deepEqual((await sendThrough(discord, settings, request)).outcome, delivered);
  await sendThrough(discord, settings, { ...request, partsSent: 1, attempt: 2 });
  const [, first, second] = fake.asked;
  assert.deepEqual(first?.files, [
    { field: "files[0]", name: "Bericht, ä.pdf", type: "application/pdf", bytes: PDF },
  ]);
  assert.equal(first?.body?.["enforce_nonce"], true);
  assert.equal(first?.body?.["nonce"], second?.body?.["nonce"]);
  assert.deepEqual(first?.body?.["allowed_mentions"], { parse: [] });
  assert.deepEqual(fake.violations, []);
});

test("Slack gets the bytes at the address that it names, without the token, and then the file in the channel", async (t) => {
  const fake = await startSlack(t);
  const settings = { token: SLACK_TOKEN, base_url: fake.url };
  const request: SendRequest = { address: `${CHANNEL}:1700000000.000100`, text: "Done.", files: [report] };
  assert.deepEqual((await sendThrough(slack, settings, request)).outcome, delivered);
  const [, ticket, bytes, share] = fake.asked;
  assert.deepEqual(ticket?.body, { filename: "Bericht, ä.pdf", length: String(PDF.length) });
  assert.deepEqual(bytes?.files[0]?.bytes, PDF);
  assert.deepEqual(share?.body, {
    files: [{ id: "F000000002", title: "Bericht, ä.pdf" }],
    channel_id: CHANNEL,
    thread_ts: "1700000000.000100",
  });
  assert.deepEqual(fake.violations, []);
});

test("Slack's bytes go to no address that is not Slack's, and a missing scope is named", async (t) => {
  const fake = await startSlack(t);
  const settings = { token: SLACK_TOKEN, base_url: fake.url };
  const request: SendRequest = { address: CHANNEL, text: "", files: [report] };
  const ticket = { ok: true, upload_url: "https://evil.example/upload", file_id: "F1" };
  fake.next({ status: 200, body: ticket });
  const { outcome } = await sendThrough(slack, settings, request);
  assert.equal(outcome.status, "permanent");
  assert.match("error" in outcome ? outcome.error : "", /not its own/);
  fake.next(refusal("missing_scope", { needed: "files:write" }));
  const missing = (await sendThrough(slack, settings, request)).outcome;
  assert.match("error" in missing ? missing.error : "", /files:write.*Add the scope/);
  assert.equal(fake.asked.length, 2);
});

test("Matrix gets the file on the homeserver and an event that names it, with the same transaction for every attempt", async (t) => {
  const fake = await startMatrix(t);
  const settings = { homeserver: fake.url, access_token: MATRIX_TOKEN };
  const request: SendRequest = { address: ROOM, text: "Done.", files: [photo] };
  assert.deepEqual((await sendThrough(matrix, settings, request)).outcome, delivered);
  const upload = fake.asked.find(({ path }) => path.endsWith("/upload"));
  assert.deepEqual([upload?.query.get("filename"), upload?.files[0]?.type], ["chart.png", "image/png"]);
  assert.deepEqual(upload?.files[0]?.bytes, PNG);
  const event = fake.asked.at(-1);
  assert.deepEqual(event?.body, {
    msgtype: "m.image",
    body: "chart.png",
    filename: "chart.png",
    url: "mxc://example.org/chartpng",
    info: { mimetype: "image/png", size: PNG.length },
    "m.mentions": {},
  });
  assert.match(event?.path ?? "", /out_01\.1$/);
  assert.deepEqual(fake.violations, []);
});

test("Signal gets a file as a data URL, through the daemon and through the REST service", async (t) => {
  const fake = await startSignal(t);
  const url = `data:application/pdf;filename=Bericht_ä.pdf;base64,${PDF.toString("base64")}`;
  const settings = { base_url: fake.url, account: SIGNAL_ACCOUNT };
  const request: SendRequest = { address: "+15550100123", text: "Done.", files: [report] };
  assert.deepEqual((await sendThrough(signal, settings, request)).outcome, delivered);
  const params = fake.asked[1]?.body?.["params"] as Record<string, unknown> | undefined;
  assert.deepEqual([params?.["message"], params?.["attachment"]], ["", [url]]);
  assert.deepEqual((await sendThrough(signal, { ...settings, api: "rest" }, request)).outcome, delivered);
  assert.deepEqual(fake.asked[3]?.body?.["base64_attachments"], [url]);
  assert.deepEqual(fake.violations, []);
});

test("a mail has the files as attachments, and a mail of files alone names them", async (t) => {
  const { mails, settings } = await openMail(t);
  const request: SendRequest = { address: "ada@example.com", text: "All is well.", files: [photo, report] };
  assert.deepEqual((await sendThrough(email, settings, request)).outcome, delivered);
  const [mail] = mails;
  assert.match(mail?.raw ?? "", /Content-Type: image\/png; name=chart\.png/);
  assert.match(mail?.raw ?? "", /Content-Disposition: attachment; filename=chart\.png/);
  assert.ok(mail?.raw.includes(PNG.toString("base64")));
  await sendThrough(email, settings, { ...request, text: "", files: [photo] });
  assert.match(mails[1]?.raw ?? "", /^Subject: chart\.png\r$/m);
});

async function openMail(t: TestContext) {
  const { key, cert, caFile } = makeCertificate(t);
  const { port, mails } = await startSmtp(t, { key, cert });
  const settings = {
    address: USER,
    password: PASSWORD,
    smtp_host: "127.0.0.1",
    smtp_port: port,
    ca_file: caFile,
  };
  return { mails, settings };
}

test("a file whose bytes are lost is reported and not sent empty", async (t) => {
  const fake = await startTelegram(t);
  const settings = { token: TELEGRAM_TOKEN, base_url: fake.url };
  const { outcome } = await sendThrough(telegram as Platform<object>, settings, {
    address: "42",
    text: "Done.",
    files: [lost],
  });
  assert.equal(outcome.status, "permanent");
  assert.match("error" in outcome ? outcome.error : "", /bytes of the file "Bericht, ä\.pdf" are gone/);
  assert.equal(fake.asked.length, 1);
});
