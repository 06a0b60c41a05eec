"""Kafka's broker settings without effect in Kavka, one per line; `unsupported_rows` parses them.

    name type default check flags

Default: `null` for none, `""` for an empty text or list. Check: `-` for none, `>=n`, `n..m`, `a|b`
(words), `~a|b` (words in any case), `items` (a list without empty items), `items+` (nor itself
empty), `items+:a|b`, `nonempty`. Flags: importance (H, M, L), `C` or `B` if a running cluster or
broker takes changes, `i` if internal, `o` if of Kafka 3.9 and gone in 4.

Names, types, defaults and bounds are those of Apache Kafka 4.3.1, else of 3.9.2. Values outside
are refused although nothing reads them, as Kafka does.
"""

from typing import Final

SECURITY: Final = """\
authorizer.class.name string "" - L
connection.failed.authentication.delay.ms int 100 >=0 L
connections.max.reauth.ms long 0 - M
delegation.token.expiry.check.interval.ms long 3600000 >=1 L
delegation.token.expiry.time.ms long 86400000 >=1 M
delegation.token.master.key password null - Mo
delegation.token.max.lifetime.ms long 604800000 >=1 M
delegation.token.secret.key password null - M
password.encoder.cipher.algorithm string AES/CBC/PKCS5Padding - Lo
password.encoder.iterations int 4096 >=1024 Lo
password.encoder.key.length int 128 >=8 Lo
password.encoder.keyfactory.algorithm string null - Lo
password.encoder.old.secret password null - Mo
password.encoder.secret password null - Mo
principal.builder.class class \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder \
- MB
sasl.client.callback.handler.class class null - M
sasl.enabled.mechanisms list GSSAPI items MB
sasl.jaas.config password null - MB
sasl.kerberos.kinit.cmd string /usr/bin/kinit - MB
sasl.kerberos.min.time.before.relogin long 60000 - MB
sasl.kerberos.principal.to.local.rules list DEFAULT items MB
sasl.kerberos.service.name string null - MB
sasl.kerberos.ticket.renew.jitter double 0.05 - MB
sasl.kerberos.ticket.renew.window.factor double 0.8 - MB
sasl.login.callback.handler.class class null - M
sasl.login.class class null - M
sasl.login.connect.timeout.ms int null - L
sasl.login.read.timeout.ms int null - L
sasl.login.refresh.buffer.seconds short 300 - MB
sasl.login.refresh.min.period.seconds short 60 - MB
sasl.login.refresh.window.factor double 0.8 - MB
sasl.login.refresh.window.jitter double 0.05 - MB
sasl.login.retry.backoff.max.ms long 10000 - L
sasl.login.retry.backoff.ms long 100 - L
sasl.mechanism.controller.protocol string GSSAPI - H
sasl.mechanism.inter.broker.protocol string GSSAPI - MB
sasl.oauthbearer.assertion.algorithm string RS256 ~ES256|RS256 M
sasl.oauthbearer.assertion.claim.aud string null - M
sasl.oauthbearer.assertion.claim.exp.seconds int 300 0..86400 L
sasl.oauthbearer.assertion.claim.iss string null - M
sasl.oauthbearer.assertion.claim.jti.include boolean false - M
sasl.oauthbearer.assertion.claim.nbf.seconds int 60 0..3600 L
sasl.oauthbearer.assertion.claim.sub string null - M
sasl.oauthbearer.assertion.file string null - M
sasl.oauthbearer.assertion.private.key.file string null - M
sasl.oauthbearer.assertion.private.key.passphrase password null - M
sasl.oauthbearer.assertion.template.file string null - M
sasl.oauthbearer.client.credentials.client.id string null - M
sasl.oauthbearer.client.credentials.client.secret password null - M
sasl.oauthbearer.clock.skew.seconds int 30 - L
sasl.oauthbearer.expected.audience list "" items H
sasl.oauthbearer.expected.issuer string null - H
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 - L
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 - L
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 - L
sasl.oauthbearer.jwks.endpoint.url string null - M
sasl.oauthbearer.jwt.retriever.class class \
org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever \
- M
sasl.oauthbearer.jwt.validator.class class \
org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator \
- M
sasl.oauthbearer.scope string null - M
sasl.oauthbearer.scope.claim.name string scope - L
sasl.oauthbearer.sub.claim.name string sub - L
sasl.oauthbearer.token.endpoint.url string null - M
sasl.server.callback.handler.class class null - M
sasl.server.max.receive.size int 524288 - M
security.inter.broker.protocol string PLAINTEXT PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL M
security.providers string null - L
ssl.allow.dn.changes boolean false - L
ssl.allow.san.changes boolean false - L
ssl.cipher.suites list "" items MB
ssl.client.auth string none required|requested|none MB
ssl.enabled.protocols list TLSv1.2,TLSv1.3 items MB
ssl.endpoint.identification.algorithm string https - LB
ssl.engine.factory.class class null - LB
ssl.key.password password null - MB
ssl.keymanager.algorithm string SunX509 - MB
ssl.keystore.certificate.chain password null - MB
ssl.keystore.key password null - MB
ssl.keystore.location string null - MB
ssl.keystore.password password null - MB
ssl.keystore.type string JKS - MB
ssl.principal.mapping.rules string DEFAULT - L
ssl.protocol string TLSv1.3 - MB
ssl.provider string null - MB
ssl.secure.random.implementation string null - LB
ssl.trustmanager.algorithm string PKIX - MB
ssl.truststore.certificates password null - MB
ssl.truststore.location string null - MB
ssl.truststore.password password null - MB
ssl.truststore.type string JKS - MB
"""

QUOTAS: Final = """\
alter.log.dirs.replication.quota.window.num int 11 >=1 L
alter.log.dirs.replication.quota.window.size.seconds int 1 >=1 L
client.quota.callback.class class null - L
controller.quota.window.num int 11 >=1 L
controller.quota.window.size.seconds int 1 >=1 L
quota.window.num int 11 >=1 L
quota.window.size.seconds int 1 >=1 L
"""

PLUGINS: Final = """\
alter.config.policy.class.name class null - L
config.providers list "" items LC
create.topic.policy.class.name class null - L
"""

ZOOKEEPER_NEEDED: Final = """\
zookeeper.metadata.migration.enable boolean false - Ho
zookeeper.ssl.crl.enable boolean false - Lo
zookeeper.ssl.ocsp.enable boolean false - Lo
"""

ZOOKEEPER: Final = """\
zookeeper.metadata.migration.min.batch.size int 200 >=1 Mio
"""

TIERS_NEEDED: Final = """\
remote.log.storage.system.enable boolean false - M
"""

TIERS: Final = """\
follower.fetch.last.tiered.offset.enable boolean false - MC
remote.fetch.max.wait.ms int 500 >=1 MC
remote.list.offsets.request.timeout.ms long 30000 >=1 MC
remote.log.index.file.cache.total.size.bytes long 1073741824 >=1 LC
remote.log.index.file.cache.ttl.ms long 900000 >=-1 Li
remote.log.manager.copier.thread.pool.size int 10 >=1 MC
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 >=1 MC
remote.log.manager.copy.quota.window.num int 11 >=1 M
remote.log.manager.copy.quota.window.size.seconds int 1 >=1 M
remote.log.manager.expiration.thread.pool.size int 10 >=1 MC
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 >=1 MC
remote.log.manager.fetch.quota.window.num int 11 >=1 M
remote.log.manager.fetch.quota.window.size.seconds int 1 >=1 M
remote.log.manager.follower.thread.pool.size int 2 >=1 MC
remote.log.manager.task.interval.ms long 30000 >=1 L
remote.log.manager.task.retry.backoff.max.ms long 30000 >=1 Li
remote.log.manager.task.retry.backoff.ms long 500 >=1 Li
remote.log.manager.task.retry.jitter double 0.2 0..0.5 Li
remote.log.manager.thread.pool.size int 2 >=1 M
remote.log.metadata.custom.metadata.max.bytes int 128 >=0 L
remote.log.metadata.manager.class.name string \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager \
nonempty M
remote.log.metadata.manager.class.path string null - M
remote.log.metadata.manager.impl.prefix string rlmm.config. nonempty M
remote.log.metadata.manager.listener.name string null nonempty M
remote.log.reader.max.pending.tasks int 100 >=1 M
remote.log.reader.threads int 10 >=1 MC
remote.log.storage.manager.class.name string null nonempty M
remote.log.storage.manager.class.path string null - M
remote.log.storage.manager.impl.prefix string rsm.config. nonempty M
"""

QUORUM: Final = """\
alter.config.policy.kraft.compatibility.enable boolean false - Lo
broker.heartbeat.interval.ms int 2000 - M
broker.session.timeout.ms int 9000 - M
controller.performance.always.log.threshold.ms long 2000 >=0 Mi
controller.performance.sample.period.ms long 60000 >=100 Mi
controller.quorum.append.linger.ms int 25 >=0 M
controller.quorum.auto.join.enable boolean false - L
controller.quorum.bootstrap.servers list "" - H
controller.quorum.election.backoff.max.ms int 1000 >=0 H
controller.quorum.election.timeout.ms int 1000 >=0 H
controller.quorum.fetch.max.bytes int 1048576 >=1 L
controller.quorum.fetch.snapshot.max.bytes int 1048576 >=1 L
controller.quorum.fetch.timeout.ms int 2000 >=0 H
controller.quorum.request.timeout.ms int 2000 >=0 M
controller.quorum.retry.backoff.ms int 20 >=0 L
controller.quorum.voters list "" - H
early.start.listeners list null items H
eligible.leader.replicas.enable boolean false - Ho
initial.broker.registration.timeout.ms int 60000 - M
internal.metadata.delete.delay.millis long 60000 - Li
internal.metadata.log.segment.bytes int null - Li
internal.metadata.max.batch.size.in.bytes int 8388608 - Li
metadata.log.dir string null - H
metadata.log.max.record.bytes.between.snapshots long 20971520 >=1 H
metadata.log.max.snapshot.interval.ms long 3600000 >=0 H
metadata.log.segment.bytes int 1073741824 >=8388608 H
metadata.log.segment.min.bytes int 8388608 >=12 Hio
metadata.log.segment.ms long 604800000 - H
metadata.max.idle.interval.ms int 500 >=0 L
metadata.max.retention.bytes long 104857600 - H
metadata.max.retention.ms long 604800000 - H
process.roles list null items+:broker|controller H
server.max.startup.time.ms long 9223372036854775807 >=0 Mi
unstable.api.versions.enable boolean false - Hi
unstable.feature.versions.enable boolean false - Hi
"""

LOOP: Final = """\
background.threads int 10 >=1 HC
delete.records.purgatory.purge.interval.requests int 1 - M
fetch.purgatory.purge.interval.requests int 1000 - M
num.io.threads int 8 >=1 HC
num.network.threads int 3 >=1 HC
producer.purgatory.purge.interval.requests int 1000 - M
share.fetch.purgatory.purge.interval.requests int 1000 - M
"""

SHARE: Final = """\
group.share.assignment.interval.ms int 1000 >=0 MC
group.share.assignors list simple items+ M
group.share.delivery.count.limit int 5 2..10 M
group.share.enable boolean false - Mio
group.share.heartbeat.interval.ms int 5000 >=1 M
group.share.initialize.retry.interval.ms int 30000 >=1 Li
group.share.max.assignment.interval.ms int 15000 >=0 M
group.share.max.delivery.count.limit int 10 5..25 M
group.share.max.groups short 10 1..100 Mo
group.share.max.heartbeat.interval.ms int 15000 >=1 M
group.share.max.partition.max.record.locks int 4000 2000..10000 M
group.share.max.record.lock.duration.ms int 60000 30000..3600000 M
group.share.max.session.timeout.ms int 60000 >=1 M
group.share.max.share.sessions int 2000 >=1 M
group.share.max.size int 200 1..1000 M
group.share.min.assignment.interval.ms int 0 >=0 M
group.share.min.delivery.count.limit int 2 2..5 M
group.share.min.heartbeat.interval.ms int 5000 >=1 M
group.share.min.partition.max.record.locks int 100 100..2000 M
group.share.min.record.lock.duration.ms int 15000 1000..30000 M
group.share.min.session.timeout.ms int 45000 >=1 M
group.share.partition.max.record.locks int 2000 100..10000 M
group.share.persister.class.name string \
org.apache.kafka.server.share.persister.DefaultStatePersister \
- Mi
group.share.record.lock.duration.ms int 30000 1000..3600000 M
group.share.session.timeout.ms int 45000 >=1 M
group.streams.assignment.interval.ms int 1000 >=0 MC
group.streams.heartbeat.interval.ms int 5000 >=1 M
group.streams.initial.rebalance.delay.ms int 3000 >=0 M
group.streams.max.assignment.interval.ms int 15000 >=0 M
group.streams.max.heartbeat.interval.ms int 15000 >=1 M
group.streams.max.session.timeout.ms int 60000 >=1 M
group.streams.max.size int 2147483647 >=1 M
group.streams.max.standby.replicas int 2 >=0 M
group.streams.min.assignment.interval.ms int 0 >=0 M
group.streams.min.heartbeat.interval.ms int 5000 >=1 M
group.streams.min.session.timeout.ms int 45000 >=1 M
group.streams.num.standby.replicas int 0 >=0 M
group.streams.session.timeout.ms int 45000 >=1 M
share.coordinator.append.linger.ms int -1 >=-1 M
share.coordinator.cached.buffer.max.bytes int 1048588 >=524288 MC
share.coordinator.cold.partition.snapshot.interval.ms int 300000 >=1 Li
share.coordinator.load.buffer.size int 5242880 >=1 H
share.coordinator.snapshot.update.records.per.snapshot int 500 0..500 M
share.coordinator.state.topic.compression.codec int 0 - H
share.coordinator.state.topic.min.isr short 2 >=1 H
share.coordinator.state.topic.num.partitions int 50 >=1 H
share.coordinator.state.topic.prune.interval.ms int 300000 >=1 Li
share.coordinator.state.topic.replication.factor short 3 >=1 H
share.coordinator.state.topic.segment.bytes int 104857600 >=1 H
share.coordinator.threads int 1 >=1 M
share.coordinator.write.timeout.ms int 5000 >=1 H
"""

GROUPS: Final = """\
group.coordinator.append.linger.ms int -1 >=-1 M
group.coordinator.background.threads int 2 >=1 H
group.coordinator.cached.buffer.max.bytes int 1048588 >=524288 MC
group.coordinator.new.enable boolean false - Mio
group.coordinator.threads int 4 >=1 H
"""

COMMITS: Final = """\
offsets.commit.required.acks short -1 - Ho
"""

TRANSACTIONS: Final = """\
transaction.two.phase.commit.enable boolean false - L
"""

REPLICATION: Final = """\
control.plane.listener.name string null - Ho
inter.broker.protocol.version string 3.9-IV0 - Mo
num.replica.fetchers int 1 >=1 HC
replica.socket.receive.buffer.bytes int 65536 - H
socket.connection.setup.timeout.max.ms long 30000 - M
socket.connection.setup.timeout.ms long 10000 - M
unclean.leader.election.interval.ms long 300000 >=1 Mi
"""

METRICS: Final = """\
auto.include.jmx.reporter boolean true - Lo
kafka.metrics.polling.interval.secs int 10 >=1 L
kafka.metrics.reporters list "" items L
metric.reporters list org.apache.kafka.common.metrics.JmxReporter items LC
metrics.num.samples int 2 >=1 L
metrics.recording.level string INFO - L
metrics.sample.window.ms long 30000 >=1 L
"""

REST: Final = """\
cordoned.log.dirs list "" items MB
log.dir.failure.timeout.ms long 30000 >=1 L
log.message.format.version string 3.0-IV1 - Mo
"""

TIMES: Final = """\
log.message.timestamp.difference.max.ms long 9223372036854775807 >=0 MCo
"""
