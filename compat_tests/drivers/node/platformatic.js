// The driver for @platformatic/kafka.
'use strict'

const { randomUUID } = require('node:crypto')
const {
  Admin,
  ConfigResourceTypes,
  Consumer,
  FetchIsolationLevels,
  GroupProtocols,
  IncrementalAlterConfigOperationTypes,
  ListOffsetTimestamps,
  MessagesStreamFallbackModes,
  MessagesStreamModes,
  ProduceAcks,
  Producer,
  clientSoftwareVersion,
  compressionsAlgorithms,
  defaultPartitioner,
} = require('@platformatic/kafka')
const { Deliveries, keyOf } = require('./deliveries')
const { login, tlsOptions } = require('./security')
const { base64, bootstrap, bytes, clientId, findCause, renamed, serve } = require('./serve')

const CODECS = Object.keys(compressionsAlgorithms).filter(
  name => name !== 'none' && compressionsAlgorithms[name].available // not all with each Node.js
)
const CAN = [
  ...['produce', 'acks', ...CODECS, 'headers', 'null_headers', 'timestamps', 'idempotence'],
  ...['empty_bytes', 'keyed', 'retries', 'recreated'],
  ...['transactions', 'send_offsets', 'consume', 'group', 'roundrobin', 'consumer_protocol'],
  ...['static_members', 'reset_none', 'small_fetches', 'offsets_for_times', 'ends'],
  ...['create_topic', 'delete_topic', 'create_partitions', 'list_topics', 'describe_topic'],
  ...['describe_configs', 'alter_configs', 'delete_records', 'list_groups', 'describe_group'],
  ...['delete_group', 'group_offsets', 'describe_cluster'],
]

const BROKEN = { isolation: 'read_committed shows records of open and of aborted transactions' }

// A stream that fails while it is made emits its error before anybody can listen.
process.on('uncaughtException', error => console.error(error))

const ACKS = { 0: ProduceAcks.NO_RESPONSE, 1: ProduceAcks.LEADER, all: ProduceAcks.ALL }
const ISOLATION = {
  read_committed: FetchIsolationLevels.READ_COMMITTED,
  read_uncommitted: FetchIsolationLevels.READ_UNCOMMITTED,
}
const FALLBACK = {
  earliest: MessagesStreamFallbackModes.EARLIEST,
  latest: MessagesStreamFallbackModes.LATEST,
  none: MessagesStreamFallbackModes.FAIL,
}
const STATES = ['PreparingRebalance', 'CompletingRebalance', 'Stable', 'Dead', 'Empty']

// One a second. It gives up after 3 by default, and a broker's restart may take longer.
const RETRIES = 30

const common = {
  clientId: clientId ?? 'compat-driver',
  bootstrapBrokers: bootstrap,
  tls: tlsOptions,
  sasl: login,
}
const admin = new Admin(common)

let producer = null
let sendOptions = {}
let transaction = null
let keyless = 0

let consumer = null
let reading = null // a promise of its stream
let fallbackMode = FALLBACK.earliest
let deliveries = new Deliveries()
let starts = null // of `assign`: the library reads partitions only as a member of a group

const places = assignments =>
  (assignments ?? []).flatMap(({ topic, partitions }) =>
    partitions.map(partition => ({ topic, partition }))
  )

const topicsOf = partitions => [...new Set(partitions.map(({ topic }) => topic))]

async function makeProducer(given) {
  await closeProducer()
  const settings = renamed(given, {
    idempotent: 'idempotent',
    transactional_id: 'transactionalId',
    // it asks for this timeout of transactions, too
    transaction_timeout_ms: 'timeout',
  })
  if (given.transactional_id) settings.idempotent = true
  sendOptions = {}
  if (given.acks !== undefined) sendOptions.acks = ACKS[given.acks]
  if (given.codec !== undefined) sendOptions.compression = given.codec
  producer = new Producer({ ...common, ...settings })
  // the library's only way to initialize transactions is to begin one
  if (given.transactional_id) await (await producer.beginTransaction()).cancel()
}

const toMessage = (topic, { partition, key, value, headers = [], timestamp }) => {
  const pairs = headers.map(([name, data]) => [Buffer.from(name), bytes(data)])
  const message = { topic, key: bytes(key), value: bytes(value), headers: new Map(pairs) }
  if (partition !== undefined) message.partition = partition
  if (timestamp !== undefined) message.timestamp = BigInt(timestamp)
  return message
}

async function send({ topic, records }) {
  const messages = records.map(record => toMessage(topic, record))
  const chosen = new Map(messages.map(message => [message, message.partition]))
  // what the library does without one, but told
  const partitioner = (message, key) => {
    chosen.set(message, key ? defaultPartitioner(message, key) : keyless++)
    return chosen.get(message)
  }
  let appended, count
  try {
    const sent = await (transaction ?? producer).send({ messages, partitioner, ...sendOptions })
    appended = new Map((sent.offsets ?? []).map(({ partition, offset }) => [partition, offset]))
    count = await partitionCount(topic)
  } catch (error) {
    return { placed: messages.map(() => ({ error: failure(error) })) }
  }
  return {
    placed: messages.map(message => {
      const partition = chosen.get(message) % count
      const next = appended.get(partition)
      if (next === undefined) return { partition, offset: -1 } // acks 0
      appended.set(partition, next + 1n)
      return { partition, offset: Number(next) }
    }),
  }
}

async function partitionCount(topic) {
  const metadata = await producer.metadata({ topics: [topic] })
  return metadata.topics.get(topic).partitionsCount
}

async function endTransaction(how) {
  await transaction[how]()
  transaction = null
}

async function sendOffsets({ group, offsets }) {
  const own = consumer?.groupId === group
  const of = own ? consumer : new Consumer({ ...common, groupId: group })
  await transaction.addConsumer(of)
  const coordinatorId = await of.findGroupCoordinator()
  const [memberId, generationId] = of.memberId ? [of.memberId, of.generationId] : ['', -1]
  const member = { groupId: group, memberId, generationId, coordinatorId }
  for (const { topic, partition, offset } of offsets) {
    // it takes the record before the offset
    const record = { topic, partition, offset: BigInt(offset) - 1n, metadata: { consumer: member } }
    await transaction.addOffset(record)
  }
  if (!own) await of.close()
}

async function closeProducer() {
  const closing = producer
  producer = transaction = null
  await closing?.close(true)
}

async function makeConsumer(given) {
  await closeConsumer()
  deliveries = new Deliveries(look)
  fallbackMode = FALLBACK[given.reset ?? 'earliest']
  const settings = renamed(given, {
    session_timeout_ms: 'sessionTimeout',
    heartbeat_ms: 'heartbeatInterval',
    fetch_max_bytes: 'maxBytes',
    partition_fetch_max_bytes: 'maxBytesPerPartition',
    metadata_max_age_ms: 'metadataMaxAge',
    instance_id: 'groupInstanceId',
  })
  if (given.isolation !== undefined) settings.isolationLevel = ISOLATION[given.isolation]
  if (given.protocol === 'consumer') settings.groupProtocol = GroupProtocols.CONSUMER
  const groupId = given.group ?? `without-group-${randomUUID()}`
  const own = { groupId, autocommit: false, retries: RETRIES }
  consumer = new Consumer({ ...common, ...settings, ...own })
  const to = deliveries
  consumer.on('error', error => to.fail(error))
}

/** Begin to read: not awaited, as it takes until the consumer has joined, for which others wait. */
function read(options) {
  const to = deliveries
  const begin = async () => {
    const stream = await consumer.consume({ autocommit: false, ...options })
    stream.on('data', message => deliver(to, message))
    stream.on('error', error => to.fail(error))
    return stream
  }
  reading = begin().catch(error => to.fail(error))
}

function deliver(to, message) {
  const wanted = starts ?? places(consumer?.assignments)
  if (!wanted.some(one => keyOf(one) === keyOf(message))) return
  to.deliver({
    topic: message.topic,
    partition: message.partition,
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    key: base64(message.key),
    value: base64(message.value),
    headers: [...message.headers].map(([name, value]) => [name.toString(), base64(value)]),
  })
}

async function subscribe({ topics }) {
  await stopReading()
  deliveries.clear()
  starts = null
  read({ topics, mode: MessagesStreamModes.COMMITTED, fallbackMode })
}

async function assign({ partitions }) {
  await stopReading()
  starts = []
  for (const { topic, partition, offset } of partitions) {
    const ends = typeof offset === 'number' ? null : await endsOf({ topic, partition })
    starts.push({ topic, partition, offset: ends?.[offset] ?? offset })
  }
  deliveries.clear()
  deliveries.assigned(partitions.map(({ topic, partition }) => ({ topic, partition })))
  starts.forEach(start => deliveries.moved(start))
  const offsets = starts.map(start => ({ ...start, offset: BigInt(start.offset) }))
  read({ topics: topicsOf(partitions), mode: MessagesStreamModes.MANUAL, offsets })
}

async function stopReading() {
  const stream = await reading
  await stream?.close()
}

const look = () => {
  if (starts !== null) return undefined
  return consumer?.assignments ? places(consumer.assignments) : null
}

function position(place) {
  const offset = deliveries.position(place)
  if (offset === undefined) throw new Error('it tells no position before the first record')
  return { offset }
}

async function commit({ offsets = deliveries.positions() }) {
  const { topics } = await consumer.metadata({ topics: topicsOf(offsets) })
  await consumer.commit({
    offsets: offsets.map(({ topic, partition, offset }) => {
      const { leaderEpoch } = topics.get(topic).partitions[partition]
      return { topic, partition, offset: BigInt(offset), leaderEpoch }
    }),
  })
}

async function committed({ partitions }) {
  const topics = topicsOf(partitions).map(topic => ({
    topic,
    partitions: partitions.filter(one => one.topic === topic).map(({ partition }) => partition),
  }))
  const known = await consumer.listCommittedOffsets({ topics })
  return {
    offsets: partitions.map(({ topic, partition }) => {
      const offset = Number(known.get(topic)?.[partition] ?? -1n)
      return { offset: offset < 0 ? null : offset, metadata: '' }
    }),
  }
}

async function endsOf({ topic, partition }) {
  const request = { topics: [topic], partitions: { [topic]: [partition] } }
  const at = async timestamp =>
    Number((await consumer.listOffsets({ ...request, timestamp })).get(topic)[partition])
  return {
    earliest: await at(ListOffsetTimestamps.EARLIEST),
    latest: await at(ListOffsetTimestamps.LATEST),
  }
}

async function offsetForTime({ topic, partition, timestamp }) {
  const partitions = { [topic]: [partition] }
  const request = { topics: [topic], partitions, timestamp: BigInt(timestamp) }
  const found = (await consumer.listOffsetsWithTimestamps(request)).get(topic).get(partition)
  if (found.offset < 0n) return { offset: null, timestamp: null }
  return { offset: Number(found.offset), timestamp: Number(found.timestamp) }
}

async function closeConsumer() {
  const closing = consumer
  consumer = reading = starts = null
  await closing?.close(true)
}

async function describeTopic({ topic }) {
  const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true })
  const describe = ({ leader, replicas, isr }, partition) => ({ partition, leader, replicas, isr })
  return { partitions: topics.get(topic).partitions.map(describe) }
}

async function describeConfigs({ topic }) {
  const resources = [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }]
  const [{ configs }] = await admin.describeConfigs({ resources })
  return { configs: Object.fromEntries(configs.map(({ name, value }) => [name, value])) }
}

async function alterConfigs({ topic, set = {}, remove = [] }) {
  const { SET, DELETE } = IncrementalAlterConfigOperationTypes
  const configs = [
    ...Object.entries(set).map(([name, value]) => ({ name, value, configOperation: SET })),
    ...remove.map(name => ({ name, configOperation: DELETE })),
  ]
  await admin.incrementalAlterConfigs({
    resources: [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topic, configs }],
  })
}

async function deleteRecords({ topic, partition, before }) {
  const partitions = [{ partition, offset: BigInt(before) }]
  const [deleted] = await admin.deleteRecords({ topics: [{ name: topic, partitions }] })
  return { earliest: Number(deleted.partitions[0].lowWatermark) }
}

async function describeGroup({ group }) {
  const found = (await admin.describeGroups({ groups: [group] })).get(group)
  return {
    state: STATES.find(state => state.toUpperCase() === found.state) ?? found.state,
    members: [...found.members.values()].map(({ clientId, assignments }) => ({
      client_id: clientId,
      partitions: places([...(assignments?.values() ?? [])]),
    })),
  }
}

async function groupOffsets({ group }) {
  const [{ topics }] = await admin.listConsumerGroupOffsets({ groups: [group] })
  return {
    offsets: topics.flatMap(({ name, partitions }) =>
      partitions.map(({ partitionIndex, committedOffset }) => ({
        topic: name,
        partition: partitionIndex,
        offset: Number(committedOffset),
      }))
    ),
  }
}

async function describeCluster() {
  const { id, brokers, controllerId } = await admin.metadata({ topics: [] })
  return { cluster_id: id, controller: controllerId, brokers: [...brokers.keys()] }
}

/** A protocol error is among the parts of others. */
function failure(error) {
  const causesOf = ({ cause, errors = [] }) => [cause, ...errors]
  const told = findCause(error, one => one.apiId !== undefined, causesOf)
  return { name: told?.apiId ?? error.code ?? error.name, message: (told ?? error).message }
}

const requests = {
  producer: makeProducer,
  send,
  begin: async () => {
    transaction = await producer.beginTransaction()
  },
  commit_transaction: () => endTransaction('commit'),
  abort_transaction: () => endTransaction('abort'),
  send_offsets: sendOffsets,
  partitions: async ({ topic }) => ({ partitions: [...Array(await partitionCount(topic)).keys()] }),
  close_producer: closeProducer,
  consumer: makeConsumer,
  subscribe,
  assign,
  poll: given => deliveries.poll(given),
  assignment: given => deliveries.assignedWithin(given),
  position,
  commit,
  committed,
  offsets_for_times: async ({ partitions }) => ({
    offsets: await Promise.all(partitions.map(offsetForTime)),
  }),
  ends: async ({ partitions }) => ({ ends: await Promise.all(partitions.map(endsOf)) }),
  close_consumer: closeConsumer,
  create_topic: async ({ topic, partitions, replicas, configs = {} }) => {
    const named = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await admin.createTopics({ topics: [topic], partitions, replicas, configs: named })
  },
  delete_topic: ({ topic }) => admin.deleteTopics({ topics: [topic] }),
  create_partitions: ({ topic, total }) =>
    admin.createPartitions({ topics: [{ name: topic, count: total }] }),
  list_topics: async () => ({ topics: await admin.listTopics() }),
  describe_topic: describeTopic,
  describe_configs: describeConfigs,
  alter_configs: alterConfigs,
  delete_records: deleteRecords,
  list_groups: async () => ({ groups: [...(await admin.listGroups()).keys()] }),
  describe_group: describeGroup,
  delete_group: ({ group }) => admin.deleteGroups({ groups: [group] }),
  group_offsets: groupOffsets,
  describe_cluster: describeCluster,
}

async function close() {
  await closeProducer()
  await closeConsumer()
  await admin.close()
}

serve({
  client: '@platformatic/kafka',
  version: clientSoftwareVersion,
  can: CAN,
  broken: BROKEN,
  requests,
  failure,
  close,
})
