export const acpClaims = {
  "protocolVersion": 1,
  "title": "agentd",
  "agentCapabilities": {
    "loadSession": true,
    "promptCapabilities": {
      "image": true,
      "audio": false,
      "embeddedContext": true
    },
    "mcpCapabilities": {
      "http": true,
      "sse": false
    },
    "sessionCapabilities": {
      "list": {},
      "resume": {},
      "close": {},
      "delete": {},
      "fork": {}
    },
    "_meta": {
      "agentd": {
        "slashCommands": true,
        "queue": "fifo",
        "fork": {
          "replay": false
        }
      }
    }
  },
  "_meta": {
    "steering": {
      "supported": true
    }
  },
  "authMethods": {
    "provider": {
      "id": "provider",
      "name": "Use configured provider",
      "description": "Checks that a model is configured and usable."
    },
    "setup": {
      "type": "terminal",
      "id": "setup",
      "name": "Set up in terminal",
      "description": "Opens the setup of agentd in a terminal.",
      "args": [
        "--setup"
      ]
    }
  }
} as const;
