# In the place of rabbitmq:3.13, from Debian's packages (3.10), for where no registry is in reach: as much of it as
# docker/compose.yaml uses.
FROM debian:bookworm-slim
RUN printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d \
 && chmod 755 /usr/sbin/policy-rc.d \
 && apt-get update \
 && apt-get install -y --no-install-recommends rabbitmq-server \
 && rm -rf /var/lib/apt/lists/* /var/lib/rabbitmq/* /var/lib/rabbitmq/.erlang.cookie
COPY rabbitmq_entrypoint /usr/local/bin/
VOLUME /var/lib/rabbitmq
EXPOSE 5672
ENTRYPOINT ["rabbitmq_entrypoint"]
# Not the wrapper of Debian, which keeps SIGTERM to itself.
CMD ["/usr/lib/rabbitmq/bin/rabbitmq-server"]
