/** The service definitions of the gateway for systemd and launchd. Pure. */
import { ServiceError } from "../../base/errors.ts";

export interface ServiceDefinition {
  /** The runtime and the program, both absolute, and their words. */
  readonly command: readonly string[];
  readonly home: string;
  /** Optional variables of the process, one `NAME=value` a line. */
  readonly environmentFile: string;
  /** The search path for the commands of the agent. */
  readonly searchPath: string;
}

/** Begins every file that `agentd service install` writes. */
export const MARK = "Written by `agentd service install`, which replaces it.";

/** How long the gateway may take to end active runs. */
const STOP_SECONDS = 90;
const RESTART_SECONDS = 5;

/** Returns a unit for the systemd of a user. ServiceError `invalid_config` for a path that no unit can hold. */
export function systemdUnit({ command, home, environmentFile, searchPath }: ServiceDefinition): string {
  for (const text of [...command, home, searchPath]) refuseControls(text);
  return `# ${MARK}
[Unit]
Description=agentd: one AI agent for any program
Documentation=https://www.npmjs.com/package/@agentd/agentd

[Service]
Type=exec
Environment=${word(`AGENTD_HOME=${home}`)}
Environment=${word(`PATH=${searchPath}`)}
# Variables of the process, such as HTTPS_PROXY. Keys belong in .env of the home, which agentd reads itself.
EnvironmentFile=-${path(environmentFile)}
WorkingDirectory=-${path(home)}
UMask=0077
ExecStart=${command.map(commandWord).join(" ")}
Restart=on-failure
RestartSec=${RESTART_SECONDS}
# Only agentd gets SIGTERM: it lets active runs end (api_server.drain_seconds) and stops their commands itself.
KillMode=mixed
TimeoutStopSec=${STOP_SECONDS}

# Rights
NoNewPrivileges=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes
LockPersonality=yes

# Kernel
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @debug @module @obsolete @raw-io @reboot @swap

# Missing on purpose: ProtectSystem, ProtectHome, PrivateTmp and CapabilityBoundingSet need rights that the systemd of a
# user does not have on every machine, and the agent works in your folders. deploy/agentd.service is a system service with
# these. MemoryDenyWriteExecute would forbid V8 to compile at run time.

[Install]
WantedBy=default.target
`;
}

/** Returns a word of a setting: C escapes in quotes, and specifiers as text. systemd.syntax(7). */
function word(text: string): string {
  return `"${path(text)
    .replaceAll("\\", "\\\\")
    .replaceAll('"', String.raw`\"`)}"`;
}

/** Returns a word of a command, in which also variables would be replaced. systemd.service(5). */
function commandWord(text: string): string {
  const whole = word(text.replaceAll("$", "$$$$"));
  return /^"[\w./:@+=,-]+"$/.test(whole) ? whole.slice(1, -1) : whole;
}

/** Returns a path of a setting that takes the rest of the line. */
function path(text: string): string {
  return text.replaceAll("%", "%%");
}

function refuseControls(text: string): void {
  // oxlint-disable-next-line no-control-regex -- finds line breaks and other control characters
  if (!/[\u0000-\u001f\u007f]/.test(text)) return;
  throw new ServiceError(
    "invalid_config",
    `A service cannot use ${JSON.stringify(text)}: it has a control character.`,
  );
}

/** Returns a property list for launchd. ServiceError `invalid_config` for a path that no list can hold. */
export function launchdPlist(label: string, { command, home, searchPath }: ServiceDefinition): string {
  for (const text of [...command, home, searchPath]) refuseControls(text);
  return `<?xml version="1.0" encoding="UTF-8"?>
<!-- ${MARK} -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  ${string(label)}
  <key>ProgramArguments</key>
  <array>
    ${command.map(string).join("\n    ")}
  </array>
  <key>EnvironmentVariables</key>
  <dict>
    <key>AGENTD_HOME</key>
    ${string(home)}
    <key>PATH</key>
    ${string(searchPath)}
  </dict>
  <key>WorkingDirectory</key>
  ${string(home)}
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>${RESTART_SECONDS}</integer>
  <key>ExitTimeOut</key>
  <integer>${STOP_SECONDS}</integer>
  <key>Umask</key>
  <integer>${0o077}</integer>
  <key>StandardOutPath</key>
  <string>/dev/null</string>
  <key>StandardErrorPath</key>
  <string>/dev/null</string>
</dict>
</plist>
`;
}

const ENTITIES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

function string(text: string): string {
  return `<string>${text.replaceAll(/[&<>]/g, (each) => ENTITIES[each] ?? each)}</string>`;
}
