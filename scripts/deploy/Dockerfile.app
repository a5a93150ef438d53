# SPDX-License-Identifier: Apache-2.0
# An application's image with the profiler in it. The entrypoint keeps what LD_PRELOAD held before,
# steps aside where it would do harm, and becomes the server.
ARG APP=registry.example.com/checkout:1
ARG SPANPROF=registry.example.com/spanprof:1
FROM ${SPANPROF} AS spanprof
FROM ${APP}
COPY --from=spanprof /opt/spanprof /opt/spanprof
ENV OTEL_SERVICE_NAME=checkout \
    PYROSCOPE_SERVER_ADDRESS=http://pyroscope:4040
USER 65532:65532
# Static, so it works in images without a shell as well.
ENTRYPOINT ["/opt/spanprof/bin/spanprof-run", "--"]
CMD ["/app/server"]
