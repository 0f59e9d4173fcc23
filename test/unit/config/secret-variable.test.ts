import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { exposureOf, isSecretName, secretsIn } from "../../../src/config/secret-values.ts";

const HEX = "3f9a8c7d6e5b4a392817f6e5d4c3b2a1";
const PEM_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
const PEM = `-----BEGIN PRIVATE KEY-----\n${PEM_LINE}\n-----END PRIVATE KEY-----`;

/** A variable, its value, and what of the value is hidden; absent: all of it. */
type SecretRow = readonly [name: string, value: string, hidden?: string];

const secret: readonly SecretRow[] = [
  // Settings that the schema marks.
  ["API_SERVER_KEY", "a-key-of-my-own-choice"],
  ["WEBHOOK_SECRET", "hunter2hunter2"],
  ["TELEGRAM_BOT_TOKEN", "123456:any-old-token"],
  ["EMAIL_PASSWORD", "correct horse battery"],
  ["DINGTALK_WEBHOOK_URL", "https://oapi.dingtalk.com/robot/send?access_token=abc"],
  ["OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=collector-key", "collector-key"],
  // Names of providers and platforms that everybody knows.
  ["OPENAI_API_KEY", "my-proxy-takes-any"],
  ["GEMINI_API_KEY", "not-a-real-shape"],
  ["AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"],
  ["AWS_SESSION_TOKEN", "session-token"],
  ["GITHUB_TOKEN", "token-of-an-app"],
  ["HF_TOKEN", "hf_abcdefghij"],
  ["MYSQL_PWD", "swordfish"],
  ["REDISCLI_AUTH", "swordfish"],
  ["SECRET_KEY_BASE", "short-but-mine"],
  ["DOCKER_AUTH_CONFIG", '{"auths":{"r.example":{"password":"swordfish-1"}}}', "swordfish-1"],
  ["STRIPE_SECRET_KEY", "sk_test_anything"],
  ["SENTRY_DSN", `https://${HEX}@o1.ingest.example/1`, HEX],
  // Telling names that nobody else uses.
  ["MY_PASS", "swordfish"],
  ["DB_PASS", "swordfish"],
  ["DB_PWD", "swordfish"],
  ["PGPASSWORD", "swordfish"],
  ["SSHPASS", "swordfish"],
  ["MY_DB_PASSWORD_2", "swordfish"],
  ["apiKey", "swordfish"],
  ["x-api-key", "swordfish"],
  ["AUTHTOKEN", "swordfish"],
  ["DEPLOY_PAT", "swordfish"],
  ["LOGIN_PIN", "40718263"],
  ["SIGNING_KEY", "swordfish"],
  ["SMTP_AUTH", "me:swordfish", "swordfish"],
  ["PROXY_AUTHORIZATION", "Bearer swordfish-12", "swordfish-12"],
  ["API_KEYS", "first-key-1,second-key-2", "second-key-2"],
  ["ENCRYPTION_KEY_OLD", "swordfish"],
  ["TLS_KEY", PEM, PEM_LINE],
  ["NOTES_COOKIE", "sid=abcdef"],
  // Addresses: only what is secret in them.
  ["DATABASE_URL", "postgres://me:swordfish@db:5432/x", "swordfish"],
  ["AGENTD_DATABASE_URL", "postgres://me:sword%40fish@db/x", "sword@fish"],
  ["REDIS_URL", "rediss://:swordfish@cache:6379/0", "swordfish"],
  ["MONGO_URI", "mongodb+srv://me:swordfish@cluster.example/db", "swordfish"],
  ["HTTPS_PROXY", "http://me:swordfish@proxy:3128", "swordfish"],
  ["CALLBACK", "https://example.com/hook?token=swordfish", "swordfish"],
  ["SQL_DSN", "me:swordfish@tcp(db:3306)/x", "swordfish"],
  ["AZURE_CONNECTION_STRING", "AccountName=me;AccountKey=swordfish==;Suffix=x", "swordfish=="],
  ["PG_DSN", "host=db user=me password=swordfish", "swordfish"],
  // Incoming webhooks: whoever knows the address may post.
  ["SLACK_WEBHOOK_URL", "https://hooks.slack.com/services/T00000000/B00000000/Xy7Kq2mN5pQ8sT1vW4yZ7cF0"],
  ["ALERTS", "https://discord.com/api/webhooks/1234567890123456789/Xy7Kq2mN5pQ8sT1vW4yZ7cF0"],
  ["DEPLOY_WEBHOOK_URL", `https://ci.example.com/hooks/${HEX}`, HEX],
  // Names that nobody knows, with values that nobody chose as a word.
  ["MY_SERVICE", HEX],
  ["SOMETHING", "Xy7Kq2mN5pQ8sT1vW4yZ7cF0"],
  ["WHATEVER", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"],
  ["LOGIN", "ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3lM6"],
  ["AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"],
  ["SERVICE_ACCOUNT", JSON.stringify({ type: "service_account", private_key: PEM }), PEM_LINE],
  ["IDENTITY", PEM, PEM_LINE],
];

const plain: readonly (readonly [name: string, value: string])[] = [
  // Documented settings.
  ["AGENT_TIMEZONE", "Europe/Berlin"],
  ["AGENTD_MODEL", "demo:demo"],
  ["AGENTD_MODEL", "anthropic:claude-sonnet-4-20250514"],
  ["AGENTD_MODEL", "local:qwen2.5-coder-32b-instruct-q4_K_M"],
  ["AGENTD_MODEL", "openrouter:meta-llama/Llama-3.3-70B-Instruct-Turbo"],
  ["AGENTD_HOST", "127.0.0.1"],
  ["AGENTD_PORT", "8642"],
  ["AGENTD_LOG_LEVEL", "debug"],
  ["AGENTD_HOME", "/var/lib/agentd-service"],
  ["AGENTD_PROFILE", "production"],
  ["AGENTD_DATABASE_URL", "postgres://agentd@127.0.0.1:54329/postgres"],
  ["OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"],
  ["OTEL_SERVICE_NAME", "agent-in-production"],
  ["WEBHOOK_ENABLED", "true"],
  ["WEBHOOK_PORT", "8644"],
  ["TELEGRAM_HOME_CHANNEL", "-1001234567890"],
  ["TWILIO_PHONE_NUMBER", "+15550100123"],
  ["EMAIL_ADDRESS", "agent@example.com"],
  ["EMAIL_SMTP_HOST", "smtp.example.com"],
  ["MATRIX_HOMESERVER", "https://matrix.example.org"],
  // Names that nobody knows, with ordinary values.
  ["MY_FLAG", "production"],
  ["GREETING", "Good morning, everybody"],
  ["DEFAULT_MODEL", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"],
  ["CHAT_MODEL", "gpt-5.1-2025-11-13"],
  ["GGUF", "Qwen3-30B-A3B-Instruct-2507-GGUF:Q4_K_M"],
  ["LANG", "en_GB.UTF-8"],
  ["PATH", "/usr/local/sbin:/usr/local/bin:/usr/bin:/opt/tools/bin"],
  ["NODE_OPTIONS", "--max-old-space-size=4096 --enable-source-maps"],
  ["IMAGE", "registry.example.com/team/agentd:1.2.3-alpine"],
  ["BASE", `sha256:${HEX}${HEX}`],
  ["GITHUB_SHA", `${HEX}abcdef01`],
  ["TENANT_ID", "72f988bf-86f1-41af-91ab-2d7cd011db47"],
  ["SHEET_ID", "1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2upms"],
  ["SOME_UUID", "72f988bf-86f1-41af-91ab-2d7cd011db47"],
  ["SINCE", "2026-11-23T02:45:23.000Z"],
  ["SCHEDULE", "0 9 * * 1-5"],
  ["DOCS_URL", "https://docs.example.com/guides/getting-started"],
  ["REPO", "https://github.com/owner/name/commit/3f9a8c7d6e5b4a392817f6e5d4c3b2a1abcdef01"],
  ["SQLITE_URL", "sqlite:///var/lib/app/state.db"],
  ["DEPLOY_WEBHOOK_URL", "https://ci.example.com/hooks/deploy-the-service"],
  ["JDBC", "jdbc:postgresql://db:5432/app"],
  ["LS_COLORS", "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33"],
  // Names with a telling word that are about something else.
  ["MAX_TOKENS", "4096"],
  ["TOKEN_LIMIT", "128000000"],
  ["TOKENIZERS_PARALLELISM", "false"],
  ["TOKEN_URL", "https://auth.example.com/oauth/token"],
  ["API_KEY_FILE", "/run/secrets/api-key"],
  ["PASSWORD_STORE_DIR", "/home/ann/.password-store"],
  ["GOOGLE_APPLICATION_CREDENTIALS", "/etc/gcp/service-account.json"],
  ["SSH_KEY", "~/.ssh/id_ed25519"],
  ["SSH_AUTH_SOCK", "/run/user/1000/keyring/ssh"],
  ["PWD", "/home/ann/work/production"],
  ["GPG_KEY", "E3FF2839C048B25C084DEBE9B26995E310250568"],
  ["KEYBOARD_LAYOUT", "us-international"],
  ["SORT_KEY", "created_at_descending"],
  ["CACHE_KEY", "user-list-by-name"],
  ["STRIPE_PUBLISHABLE_KEY", "pk_live_51H8aB3dE6gH9jK2mN5pQ8sT1vW4yZ"],
  ["VAPID_PUBLIC_KEY", "BEl62iUYgUivxIkv69yViEuiBIa40HI80NM9mZ"],
  ["EMAIL_AUTH", "required"],
  ["PROXY_AUTH", "https://auth.example.com/login"],
  ["AUTHOR", "Ann Example of Berlin"],
  ["MONKEY", "chimpanzee"],
  ["COMPASS", "north-by-northwest"],
  ["PASSENGERS", "forty-two people"],
  ["SECRET_NAME", "database-credentials"],
  ["OPENAI_API_KEY", "env:OTHER"],
  ["API_SERVER_KEY", "INSECURE_NO_AUTH"],
];

describe("a variable is secret by its name or value", () => {
  for (const [name, value, hidden = value] of secret) {
    it(`hides ${name}=${value.slice(0, 40)}`, () => {
      assert.ok(secretsIn(name, value).includes(hidden), JSON.stringify(secretsIn(name, value)));
    });
  }
});

describe("a variable that is not secret is shown", () => {
  for (const [name, value] of plain) {
    it(`shows ${name}=${value.slice(0, 40)}`, () => {
      assert.deepEqual(secretsIn(name, value), []);
    });
  }
});

describe("the rest of an address stays readable", () => {
  it("hides the password of a database alone", () => {
    assert.deepEqual(secretsIn("DATABASE_URL", "postgres://me:swordfish@db:5432/x"), ["swordfish"]);
  });
});

describe("a secret of several words", () => {
  it("is hidden as a whole, and never its words", () => {
    assert.deepEqual(secretsIn("DB_PASSWORD", "second provider key 88"), ["second provider key 88"]);
    assert.deepEqual(secretsIn("DB_PASSWORD", "first provider,second provider"), [
      "first provider,second provider",
    ]);
    assert.deepEqual(secretsIn("DB_PASSWORD", "everything\nprovider\n12345678a"), [
      "everything\nprovider\n12345678a",
      "12345678a",
    ]);
  });
});

describe("a key of several lines", () => {
  it("is hidden as a whole and line by line, without its first and last line", () => {
    const found = secretsIn("TLS_KEY", `${PEM}\n`);
    assert.ok(found.includes(PEM) && found.includes(PEM_LINE));
    assert.ok(!found.some((each) => /^-----(BEGIN|END)[^\n]*$/.test(each)));
  });
});

describe("a secret that cannot be hidden", () => {
  it("is reported with the reason: hiding it would redact other text", () => {
    assert.equal(exposureOf("DB_PASSWORD", "production"), "is an ordinary word");
    assert.deepEqual(secretsIn("DB_PASSWORD", "production"), []);
    assert.equal(exposureOf("DB_PASSWORD", "hunter2"), "has fewer than 8 characters");
    assert.deepEqual(secretsIn("DB_PASSWORD", "hunter2"), []);
    assert.equal(exposureOf("ANYTHING", "berlin", { isSecret: true }), "has fewer than 8 characters");
  });

  it("is not reported for long values, paths, switches, references and plain values", () => {
    for (const [name, value] of [
      ["DB_PASSWORD", "swordfish"],
      ["TLS_KEY", "/k.pem"],
      ["USE_TOKEN", "false"],
      ["DB_PASSWORD", "env:X"],
      ["MY_FLAG", "production"],
      ["DB_PASSWORD", ""],
    ] as const) {
      assert.equal(exposureOf(name, value), undefined, name);
    }
  });
});

it("a value that a secret setting refers to is hidden, whatever the name of its variable", () => {
  assert.deepEqual(secretsIn("COLOUR", "swordfish"), []);
  assert.deepEqual(secretsIn("COLOUR", "swordfish", { isSecret: true }), ["swordfish"]);
});

it("names reveal a secret in any spelling", () => {
  for (const name of ["apiKey", "api-key", "API_KEY", "X-Auth-Token", "client_secret"]) {
    assert.ok(isSecretName(name), name);
  }
  for (const name of ["region", "keyboard", "tokenLimit", "public_key"]) assert.ok(!isSecretName(name), name);
});

it("values of any length and kind are checked in bounded time", () => {
  for (const value of [
    "a".repeat(1_000_000),
    "[".repeat(60_000),
    "a=".repeat(30_000),
    "aA1".repeat(20_000),
    "/a".repeat(30_000),
  ]) {
    assert.ok(secretsIn("ANYTHING", value).length <= 100);
    assert.ok(secretsIn("DB_PASSWORD", value).length <= 200);
  }
});
