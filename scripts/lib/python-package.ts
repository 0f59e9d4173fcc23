/** The files of the Python package that are neither code nor types. */
import type { BundledDocument } from "./document.ts";
import { PYTHON_HEADER } from "./python-text.ts";

/** The name of the package for `pip`. The name to import it by has underscores instead. */
export const DISTRIBUTION = "agentd-client";
export const IMPORT_NAME = DISTRIBUTION.replaceAll("-", "_");

export function printProject({ info }: BundledDocument): string {
  return `${PYTHON_HEADER}
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "${DISTRIBUTION}"
version = "${info.version}"
description = "Client of the agentd HTTP API and gateway: typed, blocking and asyncio, over httpx."
readme = "README.md"
requires-python = ">=3.10"
license = { text = "MIT" }
dependencies = ["httpx>=0.27,<1"]
classifiers = ["Typing :: Typed"]

[tool.setuptools]
packages = ["${IMPORT_NAME}"]

[tool.setuptools.package-data]
${IMPORT_NAME} = ["py.typed"]
`;
}

/** `__init__.py`: all that is public. */
export function printIndex(): string {
  const errors = [
    "AgentApiError",
    "AgentConnectionError",
    "AgentError",
    "AgentProtocolError",
    "AgentTimeoutError",
    "AuthenticationError",
    "ConflictError",
    "ConnectionCutError",
    "EventsLostError",
    "GatewayClosedError",
    "GatewayError",
    "NotFoundError",
    "PermissionDeniedError",
    "RateLimitError",
    "ServerError",
    "StreamCutError",
    "TransportError",
  ];
  const others = [
    "AgentClient",
    "AsyncAgentClient",
    "AsyncStream",
    "ResponseInfo",
    "RetryPolicy",
    "Stream",
    "types",
    "__version__",
  ];
  return `${PYTHON_HEADER}"""Client of the agentd HTTP API. The client of the gateway is in agentd_client.gateway."""

from . import types
from ._async import AsyncStream
from ._request import ResponseInfo
from ._retry import RetryPolicy
from ._sync import Stream
from ._version import __version__
from .aio import AsyncAgentClient
from .client import AgentClient
from .errors import (
${errors.map((name) => `    ${name},\n`).join("")})

__all__ = [
${[...others, ...errors].map((name) => `    "${name}",\n`).join("")}]
`;
}

export function printVersion({ info }: BundledDocument): string {
  return `${PYTHON_HEADER}__version__ = ${JSON.stringify(info.version)}\n`;
}
