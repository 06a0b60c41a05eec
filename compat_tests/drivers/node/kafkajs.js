// The driver for kafkajs.
'use strict'

const { randomUUID } = require('node:crypto')
const {
  AssignerProtocol,
  CompressionTypes,
  ConfigResourceTypes,
  Kafka,
  Partitioners,
} = require('kafkajs')
const { version } = require('kafkajs/package.json')
const { Deliveries, keyOf } = require('./deliveries')
const api = require('./kafkajs_api')
const { login, tlsOptions } = require('./security')
const { bootstrap, clientId, findCause, renamed, serve } = require('./serve')

const CAN = [
  ...['produce', 'acks', 'gzip', 'headers', 'timestamps', 'idempotence', 'transactions'],
  ...['append_time', 'fencing', 'empty_bytes', 'keyed', 'auto_create', 'reset', 'retries'],
  'recreated',
  'new_partitions',
  ...['send_offsets', 'consume', 'group', 'pattern', 'roundrobin', 'isolation', 'seek', 'pause'],
  ...['ends', 'commit_metadata', 'small_fetches'],
  ...['create_topic', 'delete_topic', 'create_partitions', 'list_topics', 'describe_topic'],
  ...['describe_configs', 'delete_records', 'list_groups', 'describe_group', 'delete_group'],
  ...['group_offsets', 'describe_cluster'],
]

const ACKS = { 0: 0, 1: 1, all: -1 }
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }

const kafka = new Kafka({ brokers: bootstrap, clientId, ssl: tlsOptions, sasl: login })
const admin = kafka.admin()
let administering = null // its connection, made when it is first needed
let producer = null
let sendOptions = {}
let transaction = null
const partitionOf = new WeakMap() // of each message that was sent: kafkajs does not tell it

let consumer = null
let joining = null
let deliveries = new Deliveries()
let group = null
let fromBeginning = true
let starts = null // offsets of `assign`: kafkajs reads partitions only as a member of a group

const administer = async () => {
  administering ??= admin.connect()
  await administering
  return admin
}

const notingPartitioner = () => {
  const choose = Partitioners.DefaultPartitioner()
  return given => {
    const partition = choose(given)
    partitionOf.set(given.message, partition)
    return partition
  }
}

const places = assignment =>
  Object.entries(assignment).flatMap(([topic, partitions]) =>
    partitions.map(partition => ({ topic, partition }))
  )

async function makeProducer(given) {
  await closeProducer()
  const settings = renamed(given, {
    idempotent: 'idempotent',
    transactional_id: 'transactionalId',
    transaction_timeout_ms: 'transactionTimeout',
  })
  // what kafkajs tells its users to set for transactions
  if (given.transactional_id) Object.assign(settings, { idempotent: true, maxInFlightRequests: 1 })
  sendOptions = {}
  if (given.acks !== undefined) sendOptions.acks = ACKS[given.acks]
  if (given.codec !== undefined) sendOptions.compression = CODECS[given.codec]
  producer = kafka.producer({ ...settings, createPartitioner: notingPartitioner })
  await producer.connect()
  // an empty transaction is kafkajs's only way to initialize them
  if (given.transactional_id) await (await producer.transaction()).abort()
}

async function send({ topic, records }) {
  const messages = records.map(api.toMessage)
  let appended
  try {
    appended = await (transaction ?? producer).send({ topic, messages, ...sendOptions })
  } catch (error) {
    return { placed: messages.map(() => ({ error: failure(error) })) }
  }
  const batches = new Map(appended.map(batch => [batch.partition, batch]))
  const before = new Map() // how many messages of a partition came before
  return { placed: messages.map(message => placed(message, batches, before)) }
}

function placed(message, batches, before) {
  const partition = partitionOf.get(message)
  const batch = batches.get(partition)
  if (batch === undefined) {
    if (sendOptions.acks === 0) return { partition, offset: -1 }
    // as of a partition that the topic does not have
    return { error: { name: 'NotAcknowledged', message: 'kafkajs tells nothing of the record' } }
  }
  const index = before.get(partition) ?? 0
  before.set(partition, index + 1)
  const place = { partition, offset: Number(batch.baseOffset) + index }
  if (Number(batch.logAppendTime) >= 0) place.timestamp = Number(batch.logAppendTime)
  return place
}

async function endTransaction(how) {
  await transaction[how]()
  transaction = null
}

async function closeProducer() {
  const closing = producer
  producer = transaction = null
  await closing?.disconnect()
}

async function makeConsumer(given) {
  await closeConsumer()
  deliveries = new Deliveries()
  group = given.group ?? `without-group-${randomUUID()}`
  fromBeginning = given.reset !== 'latest'
  starts = null
  const settings = renamed(given, {
    session_timeout_ms: 'sessionTimeout',
    heartbeat_ms: 'heartbeatInterval',
    fetch_max_bytes: 'maxBytes',
    partition_fetch_max_bytes: 'maxBytesPerPartition',
    metadata_max_age_ms: 'metadataMaxAge',
  })
  if (given.isolation !== undefined) {
    settings.readUncommitted = given.isolation === 'read_uncommitted'
  }
  consumer = kafka.consumer({ groupId: group, ...settings })
  const { CRASH, GROUP_JOIN, REBALANCING } = consumer.events
  const to = deliveries
  consumer.on(GROUP_JOIN, ({ payload }) => joined(to, places(payload.memberAssignment)))
  consumer.on(REBALANCING, () => to.revoked())
  consumer.on(CRASH, ({ payload }) => payload.restart || to.fail(payload.error))
  await consumer.connect()
}

function joined(to, partitions) {
  to.clear() // since kafkajs begins again at the committed offsets
  if (starts === null) {
    to.assigned(partitions)
    return
  }
  const wanted = new Set(starts.map(keyOf))
  consumer.pause(api.numbersByTopic(partitions.filter(one => !wanted.has(keyOf(one)))))
  for (const { topic, partition, offset } of starts) {
    const from = to.position({ topic, partition }) ?? offset
    consumer.seek({ topic, partition, offset: String(from) })
    to.moved({ topic, partition, offset: from })
  }
}

/** kafkajs can't be stopped while it joins: it would stay in the group as another member. */
async function stopReading() {
  await joining
  await consumer?.stop()
}

async function read(topics) {
  await stopReading()
  await consumer.subscribe({ topics, fromBeginning })
  const to = deliveries
  const eachMessage = async payload => to.deliver(api.toRecord(payload))
  // not awaited: it resolves when the consumer has joined, for which other requests wait
  joining = consumer.run({ autoCommit: false, eachMessage }).catch(error => to.fail(error))
}

async function assign({ partitions }) {
  await stopReading()
  starts = []
  for (const { topic, partition, offset } of partitions) {
    const ends = typeof offset === 'number' ? null : await endsOf({ topic, partition })
    starts.push({ topic, partition, offset: ends?.[offset] ?? offset })
  }
  deliveries.assigned(partitions.map(({ topic, partition }) => ({ topic, partition })))
  starts.forEach(start => deliveries.moved(start))
  await read(api.topicsOf(partitions))
}

function seek({ topic, partition, offset }) {
  consumer.seek({ topic, partition, offset: String(offset) })
  deliveries.moved({ topic, partition, offset })
}

function position(place) {
  const offset = deliveries.position(place)
  if (offset === undefined) throw new Error('kafkajs tells no position before the first record')
  return { offset }
}

async function commit({ offsets = deliveries.positions() }) {
  await consumer.commitOffsets(api.asTexts(offsets))
}

async function committed({ partitions }) {
  const topics = api.topicsOf(partitions)
  const known = await (await administer()).fetchOffsets({ groupId: group, topics })
  return api.committedOf(partitions, ({ topic, partition }) =>
    known.find(one => one.topic === topic)?.partitions.find(one => one.partition === partition)
  )
}

async function endsOf({ topic, partition }) {
  const found = await (await administer()).fetchTopicOffsets(topic)
  const one = found.find(each => each.partition === partition)
  if (one === undefined) throw new Error(`${topic} has no partition ${partition}`)
  return { earliest: Number(one.low), latest: Number(one.high) }
}

async function closeConsumer() {
  await stopReading()
  const closing = consumer
  consumer = null
  await closing?.disconnect()
}

async function createTopic({ topic, partitions, replicas, configs = {} }) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  const created = await (await administer()).createTopics({
    topics: [{ topic, numPartitions: partitions, replicationFactor: replicas, configEntries }],
  })
  // kafkajs's way to tell this error
  if (!created) throw api.error('TOPIC_ALREADY_EXISTS', 'createTopics: false')
}

async function describeTopic({ topic }) {
  const { topics } = await (await administer()).fetchTopicMetadata({ topics: [topic] })
  return api.describedPartitions(topics[0].partitions)
}

async function describeConfigs({ topic }) {
  const { resources } = await (await administer()).describeConfigs({
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
    includeSynonyms: false,
  })
  const entries = resources[0].configEntries
  return { configs: Object.fromEntries(entries.map(one => [one.configName, one.configValue])) }
}

async function deleteRecords({ topic, partition, before }) {
  // kafkajs looks for the partition's leader in metadata that only an earlier request brings
  await endsOf({ topic, partition })
  const partitions = [{ partition, offset: String(before) }]
  await (await administer()).deleteTopicRecords({ topic, partitions })
  return { earliest: (await endsOf({ topic, partition })).earliest }
}

async function describeGroup({ group: groupId }) {
  const { groups } = await (await administer()).describeGroups([groupId])
  const { decode } = AssignerProtocol.MemberAssignment
  const describe = ({ clientId, memberAssignment }) => ({
    client_id: clientId,
    partitions: places(decode(memberAssignment)?.assignment ?? {}),
  })
  return { state: groups[0].state, members: groups[0].members.map(describe) }
}

/** kafkajs wraps a protocol error in others: in their cause, or one for each group or partition. */
function failure(error) {
  const causesOf = ({ cause, errors = [], groups = [], partitions = [] }) => [
    ...[cause, ...errors],
    ...[...groups, ...partitions].map(part => part.error),
  ]
  const isOfProtocol = one => one.type !== undefined && Number.isInteger(one.code)
  const told = findCause(error, isOfProtocol, causesOf)
  if (told !== undefined) return { code: told.code, message: told.message }
  return { name: (error.cause ?? error).name, message: error.message }
}

const requests = {
  producer: makeProducer,
  send,
  begin: async () => {
    transaction = await producer.transaction()
  },
  commit_transaction: () => endTransaction('commit'),
  abort_transaction: () => endTransaction('abort'),
  send_offsets: ({ group: consumerGroupId, offsets }) =>
    transaction.sendOffsets({ consumerGroupId, topics: api.offsetsByTopic(offsets) }),
  // a producer or consumer of kafkajs shows no metadata
  partitions: async given => ({
    partitions: (await describeTopic(given)).partitions.map(({ partition }) => partition),
  }),
  close_producer: closeProducer,
  consumer: makeConsumer,
  subscribe: ({ topics, pattern }) => read(topics ?? [new RegExp(`^(?:${pattern})$`)]),
  assign,
  poll: given => deliveries.poll(given),
  assignment: given => deliveries.assignedWithin(given),
  seek,
  position,
  pause: ({ partitions }) => {
    consumer.pause(api.numbersByTopic(partitions))
    deliveries.pause(partitions)
  },
  resume: ({ partitions }) => {
    consumer.resume(api.numbersByTopic(partitions))
    deliveries.resume(partitions)
  },
  commit,
  committed,
  ends: async ({ partitions }) => ({ ends: await Promise.all(partitions.map(endsOf)) }),
  close_consumer: closeConsumer,
  create_topic: createTopic,
  delete_topic: async ({ topic }) => (await administer()).deleteTopics({ topics: [topic] }),
  create_partitions: async ({ topic, total }) => {
    await (await administer()).createPartitions({ topicPartitions: [{ topic, count: total }] })
  },
  list_topics: async () => ({ topics: await (await administer()).listTopics() }),
  describe_topic: describeTopic,
  describe_configs: describeConfigs,
  delete_records: deleteRecords,
  list_groups: async () => {
    const { groups } = await (await administer()).listGroups()
    return { groups: groups.map(({ groupId }) => groupId) }
  },
  describe_group: describeGroup,
  delete_group: async ({ group: groupId }) => {
    await (await administer()).deleteGroups([groupId])
  },
  group_offsets: async ({ group: groupId }) =>
    api.groupOffsets(await (await administer()).fetchOffsets({ groupId })),
  describe_cluster: async () => {
    const { clusterId, controller, brokers } = await (await administer()).describeCluster()
    return { cluster_id: clusterId, controller, brokers: brokers.map(({ nodeId }) => nodeId) }
  },
}

async function close() {
  await closeProducer()
  await closeConsumer()
  if (administering !== null) await admin.disconnect()
}

serve({ client: 'kafkajs', version, can: CAN, requests, failure, close })
