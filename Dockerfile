# docker build --tag agentd . && docker run --publish 127.0.0.1:8642:8642 --volume agentd-data:/data agentd
# docs/install.md says more.
ARG NODE_IMAGE=node:24-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /source
COPY package.json package-lock.json ./
# The scripts of dependencies only fetch other runtimes, for the tests.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN mkdir /package && npm pack --pack-destination /package
RUN npm install --global --prefix /opt/agentd --no-audit --no-fund /package/*.tgz

FROM ${NODE_IMAGE}
# tini ends the processes that the agent's commands leave behind; git and curl are for those commands.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates curl git tini \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/agentd /opt/agentd
RUN install -d -o node -g node -m 0700 /data
ENV PATH=/opt/agentd/bin:$PATH AGENTD_HOME=/data AGENTD_HOST=0.0.0.0 NODE_ENV=production
USER node
WORKDIR /data
VOLUME /data
EXPOSE 8642 8644
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.AGENTD_PORT ?? 8642}/health`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["tini", "--", "agentd"]
CMD ["gateway"]
