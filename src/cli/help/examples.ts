/** Examples in the usage of the commands that people use most. Pure. */

const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  "": ["agentd setup", "agentd chat", 'echo "Summarize this" | agentd chat'],
  gateway: ["agentd gateway", "agentd gateway --port 8643", "agentd gateway setup"],
  "gateway setup": [
    "agentd gateway setup",
    "agentd gateway setup --enable-webhooks --webhook-port 8644",
    'printf %s "$TOKEN" | agentd gateway setup --platform telegram --set-stdin token',
  ],
  chat: [
    "agentd chat",
    'agentd chat --continue "and again" > answer.txt',
    'agentd chat --json "run: date" | jq -r \'select(.type == "message.complete").payload.text\'',
  ],
  acp: ["agentd acp --bootstrap --ide zed", "agentd acp --check"],
  setup: [
    "agentd setup",
    'printf %s "$OPENAI_API_KEY" | agentd setup --provider openai --model gpt-5.1 --api-key-stdin',
  ],
  "model set": ["agentd model set openai:gpt-5.1"],
  "config set": [
    "agentd config set api_server.port 8650",
    'printf %s "$KEY" | agentd config set api_server.key -',
  ],
  "config get": ["agentd config get", "agentd config get model.default"],
  "keys create": ["agentd keys create dashboard --scopes read --owner ann --expires 90d"],
  usage: ["agentd usage", "agentd usage --days 7 --by model,key"],
  runs: ["agentd runs list --status running", "agentd runs follow run_01..."],
  "runs follow": ["agentd runs follow run_01...", "agentd runs follow run_01... --json"],
  "runs approve": ["agentd runs approve run_01...", "agentd runs approve run_01... --for session"],
  "sessions list": ["agentd sessions list", "agentd sessions list --all --limit 100"],
  "sessions export": ["agentd sessions export SESSION --format markdown --output talk.md"],
  cron: ['agentd cron create "every 1h" "Summarize what is new."', "agentd cron list"],
  "cron create": [
    'agentd cron create "every 2h" "Look for failed builds." --deliver telegram',
    'agentd cron create "weekdays at 9am" "Summarize the news." --tz Europe/Berlin',
    'agentd cron create "0 3 * * *" --script backup.sh --no-agent --name backup',
    'agentd cron create "in 45m" "Remind me about the tea."',
  ],
  "cron edit": [
    'agentd cron edit news --schedule "weekdays at 8am" --add-skill weather',
    "agentd cron edit backup --deliver telegram,local",
  ],
  "cron run": ["agentd cron run news --wait"],
  webhook: ["agentd webhook subscribe ci --events push", "agentd webhook listen ci --event push"],
  "webhook subscribe": [
    'agentd webhook subscribe ci --events push --prompt "Review {compare}"',
    'printf %s "$SECRET" | agentd webhook subscribe pager --scheme pagerduty --secret-stdin',
  ],
  "webhook test": [
    "agentd webhook test ci --event push --file push.json",
    "agentd webhook test ci --dry-run",
  ],
  "webhook listen": [
    "agentd webhook listen ci",
    "agentd webhook listen ci --event push --payload push.json",
    "agentd webhook listen ci --event push --once",
    "tail -f events.jsonl | agentd webhook listen ci --payload -",
  ],
  "webhook deliveries": ["agentd webhook deliveries list --route ci --since 1h"],
  outbox: ["agentd outbox list --status dead", "agentd outbox retry --all-dead"],
  "outbox retry": ["agentd outbox retry out_01...", "agentd outbox retry --all-dead --target telegram"],
  "platforms test": ["agentd platforms test telegram --chat-id=-1001234567890"],
  completion: ["source <(agentd completion bash)"],
};

/** Returns the examples of a command by its path, such as `["agentd", "cron", "create"]`. */
export function examplesOf(names: readonly string[]): readonly string[] {
  const path = names.slice(1).join(" ");
  return Object.hasOwn(EXAMPLES, path) ? (EXAMPLES[path] ?? []) : [];
}
