# SPDX-License-Identifier: Apache-2.0
# An application's image with the profiler. The entrypoint does not remove other objects from LD_PRELOAD. If the
# server cannot be profiled, one line says why and the server runs without the profiler.
ARG APP=registry.example.com/checkout:1
ARG SPANPROF=registry.example.com/spanprof:1
FROM ${SPANPROF} AS spanprof
FROM ${APP}
COPY --from=spanprof /opt/spanprof /opt/spanprof
ENV OTEL_SERVICE_NAME=checkout \
    PYROSCOPE_SERVER_ADDRESS=http://pyroscope:4040
USER 65532:65532
# spanprof-run is linked statically, so it also works in images without a shell.
ENTRYPOINT ["/opt/spanprof/bin/spanprof-run", "--"]
CMD ["/app/server"]
