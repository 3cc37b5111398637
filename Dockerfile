# Images with the programs of this repository, their licences and nothing else: the default is one with all of them, and
# each stage that has the name of a program is one with that program alone.
#
# `make image` hands over the images' files as the context `roots`, which stands in for the stage of that name, so that
# no base image is needed. A plain `docker build .` compiles the programs in the first stage.

FROM docker.io/library/rust:1.95 AS build
WORKDIR /src
COPY . .
RUN make roots

FROM scratch AS roots
COPY --from=build /src/target/roots /

FROM scratch AS base
ENV PATH=/usr/local/bin
USER 65532:65532

FROM base AS addon-lease-controller
COPY --from=roots /addon-lease-controller/ /
ENTRYPOINT ["/usr/local/bin/addon-lease-controller"]

FROM base AS csr-bootstrapper
COPY --from=roots /csr-bootstrapper/ /
ENTRYPOINT ["/usr/local/bin/csr-bootstrapper"]

FROM base AS hub-kubeconfig-dumper
COPY --from=roots /hub-kubeconfig-dumper/ /
ENTRYPOINT ["/usr/local/bin/hub-kubeconfig-dumper"]

FROM base AS klusterlet-agent
COPY --from=roots /klusterlet-agent/ /
ENTRYPOINT ["/usr/local/bin/klusterlet-agent"]

FROM base AS remote-sync
COPY --from=roots /remote-sync/ /
ENTRYPOINT ["/usr/local/bin/remote-sync"]

# No ENTRYPOINT: whoever runs this image names the program.
FROM base
COPY --from=roots /all/ /
