# The image of every accelet process; without arguments it runs the node agent.
#
#   make image
#   docker buildx build --platform linux/amd64,linux/arm64 --tag REGISTRY/accelet:VERSION --push .
#
# It holds what locks/ names and nothing else: packages of Debian (its Python, no shell, no package manager) and
# of the Python package index, each held to its SHA-256. BUILDER only puts them together: any image with Debian's
# dpkg-deb and Python 3.11 or newer does. Nothing below names an architecture, and every dependency comes ready-made.
ARG BUILDER=python:3.13-slim-trixie

FROM ${BUILDER} AS build
WORKDIR /source
COPY locks/build.txt locks/
RUN python3 -m venv /tools && \
    /tools/bin/pip install --quiet --no-cache-dir --require-hashes --requirement locks/build.txt
COPY . .
RUN /tools/bin/python -m release root /image

FROM scratch
# What is locked, and over it what changes with every version.
COPY --from=build /image/base /
COPY --from=build /image/project /

# There is bytecode of everything: the root file system is read-only where this runs.
ENV PATH=/usr/local/bin:/usr/bin \
    PYTHONDONTWRITEBYTECODE=1 \
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
