# One image with all programs of this repository, and nothing else.
#
# `make image` hands over the programs in dist/ as the context `bin`, which stands in for the stage of
# that name, so that no base image is needed. A plain `docker build .` compiles them in the first stage.

FROM docker.io/library/rust:1.95 AS build
WORKDIR /src
COPY . .
RUN make dist

FROM scratch AS bin
COPY --from=build /src/dist /

FROM scratch
# Also as klusterlet-addon-lease-controller, which is what the Go sidecar's manifest runs.
COPY --from=bin / /usr/local/bin/
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/addon-lease-controller"]
