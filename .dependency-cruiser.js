// The floors and containment rules of the architecture. A file imports from its own room and from lower floors.
const floors = [
  ["base", "client"],
  ["store", "config", "exec"],
  ["agent", "deliver"],
  ["webhook", "cron"],
  ["http", "rpc", "acp"],
  ["gateway", "telemetry"],
  ["app", "cli", "chat", "index\\.ts$"],
];
const path = (room) => (room.endsWith("$") ? `^src/${room}` : `^src/${room}/`);

const upward = floors.flatMap((rooms, floor) =>
  rooms.map((room) => ({
    name: `floor-${floor}-${room.replace(/\W.*/, "")}`,
    comment: `src/${room} stands on floor ${floor}: it imports only its own room and lower floors`,
    severity: "error",
    from: { path: path(room) },
    to: {
      path: "^src/",
      pathNot: [
        path(room),
        ...floors.slice(0, floor).flat().map(path),
        ...(floor === 6 ? floors[6].map(path) : []),
      ],
    },
  })),
);

/** [name, what is contained, where it may be imported] */
const contained = [
  ["h3", "^(node_modules/)?(h3|srvx)(/|$)", "^src/(http|webhook|gateway)/"],
  ["crossws", "^(node_modules/)?crossws(/|$)", "^src/(rpc|gateway)/"],
  ["croner", "^(node_modules/)?croner(/|$)", "^src/cron/"],
  ["citty", "^(node_modules/)?citty(/|$)", "^(src/cli|scripts)/"],
  ["unbash", "^(node_modules/)?unbash(/|$)", "^src/agent/question/policy/"],
  ["typebox", "^(node_modules/)?typebox(/|$)", "^src/base/json/validate\\.ts$"],
  ["acp-sdk", "^(node_modules/)?@agentclientprotocol/", "^src/acp/"],
  ["model-sdk", "^(node_modules/)?(ai|@ai-sdk/[^/]+)(/|$)", "^src/agent/(engines|mcp)/"],
  ["wecom-sdk", "^(node_modules/)?@wecom/", "^src/deliver/targets/wecom"],
  ["nodemailer", "^(node_modules/)?nodemailer(/|$)", "^src/deliver/targets/email"],
  ["opentelemetry", "^(node_modules/)?@opentelemetry/", "^src/telemetry/otlp\\.ts$"],
  ["drivers", "^(node_modules/)?(kysely|postgres)(/|$)", "^src/store/"],
  ["sqlite", "^(node:)?sqlite$", "^src/(store/|base/system/file-lock\\.ts$)"],
  ["server-tables", "^generated/.*server\\.gen\\.ts$", "^(src/(http|rpc|webhook)|test|scripts)/"],
];
const containment = contained.map(([name, what, where]) => ({
  name: `contain-${name}`,
  comment: `only ${where} may import ${what}`,
  severity: "error",
  from: { path: "^(src|scripts)/", pathNot: [where] },
  to: { path: what },
}));

/** The files whose captions say that they touch the machine. */
const machine = [
  "^src/base/(system|net)/",
  "^src/base/(observe/log|digest)\\.ts$",
  "^src/base/paths\\.ts$",
  "^src/exec/",
  "^src/config/(home|tickets)\\.ts$",
  "^src/config/(file|secrets)/",
  "^src/store/(sqlite|schema|leases)/",
  "^src/store/backup\\.ts$",
  "^src/cron/(output|tool)/",
  "^src/cron/run/preflight\\.ts$",
  "^src/cron/job/context\\.ts$",
  "^src/agent/(tools|skills|mcp|context|attachments)/",
  "^src/agent/subagent/spawn-tree\\.ts$",
  "^src/http/edge/bind\\.ts$",
  "^src/gateway/listen\\.ts$",
  "^src/rpc/connection/socket\\.ts$",
  "^src/rpc/settings/",
  "^src/rpc/session/(images|paths)\\.ts$",
  "^src/rpc/methods/terminal\\.ts$",
  "^src/acp/session/(folder|roots)\\.ts$",
  "^src/acp/prompt/content-file\\.ts$",
  "^src/webhook/routes/",
  "^src/deliver/targets/(local\\.ts$|email/|github-comment/)",
  "^src/telemetry/otlp\\.ts$",
  "^src/chat/view/render-chat\\.ts$",
  "^src/cli/",
  "^src/app/",
];

export default {
  forbidden: [
    ...upward,
    ...containment,
    { name: "no-cycles", severity: "error", from: { path: "^src/" }, to: { circular: true } },
    {
      name: "client-is-alone",
      comment: "hosts get src/client: it imports only generated code",
      severity: "error",
      from: { path: "^src/client/" },
      to: { pathNot: "^(src/client|generated)/" },
    },
    {
      name: "client-is-for-hosts",
      comment: "the server itself does not use src/client: what both need is generated",
      severity: "error",
      from: { path: "^src/", pathNot: "^src/(client|chat|cli)/" },
      to: { path: "^src/client/" },
    },
    {
      name: "contain-node",
      comment: "node: modules only where a file's caption says it touches the machine",
      severity: "error",
      from: { path: "^src/", pathNot: machine },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "no-test-in-src",
      severity: "error",
      from: { path: "^src/" },
      to: { path: "^(test|scripts)/" },
    },
    {
      name: "no-dev-dependency-in-src",
      severity: "error",
      from: { path: "^src/" },
      to: { dependencyTypes: ["npm-dev"], dependencyTypesNot: ["type-only"] },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "node", "default"],
      extensions: [".ts", ".js", ".json"],
    },
  },
};
