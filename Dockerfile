# The image of every accelet process; without arguments it runs the node agent.
#
#   make image
#   docker buildx build --platform linux/amd64,linux/arm64 --tag REGISTRY/accelet:VERSION --push .
#
# BASE is any image laid out as the official python:3.x-slim ones are: Python 3.11 or newer in /usr/local.
# Nothing below names an architecture, and every dependency comes as a ready-made wheel.
ARG BASE=python:3.13-slim-bookworm

FROM ${BASE} AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY accelet accelet
COPY deviceplugin deviceplugin
COPY resourcemanager resourcemanager
# One image serves every process; --build-arg INSTALL=. leaves out what only the scheduler needs.
ARG INSTALL=.[scheduler]
# Whatever has no wheel for this architecture fails here, before it would want a compiler.
RUN python -m pip install --no-cache-dir --no-compile --only-binary=:all: --prefix=/installed "${INSTALL}"

FROM ${BASE}
# An image that runs one service needs no installer.
RUN python -m pip uninstall --yes --quiet --root-user-action=ignore pip
COPY --from=build /installed /usr/local
# The root file system is read-only where this runs, and the base image has no bytecode even of the standard
# library: what is not compiled now would be compiled anew at every start. Unchecked, since layers never change.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash /usr/local/lib

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# The kubelet's directory belongs to root and lets nobody else in; no capability is needed (daemonset.yaml).
USER 0:0
EXPOSE 9400
ENTRYPOINT ["/usr/local/bin/accelet"]
CMD ["agent"]

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="accelet" \
      org.opencontainers.image.description="The accelerator stack for Kubernetes: a node agent for GPUs and TPUs, and the controllers around it." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
