// What the drivers for Node.js share: the conversation that ../README.md describes.
'use strict'

const { Console } = require('node:console')
const readline = require('node:readline')

// Libraries log to the console, but standard output is for responses alone.
globalThis.console = new Console(process.stderr, process.stderr)

const bootstrap = process.argv[2].split(',')
// of all clients; undefined for the library's own
const clientId = process.env.KAVKA_COMPAT_CLIENT_ID

/**
 * Answer requests until the end of the input.
 *
 * `requests`: a function of the arguments for each request that the library can carry out; what it
 * returns is the result, `{}` if nothing. `broken`: as ../README.md has it. `failure`: the error of a response for what was thrown.
 * `close`: ends all clients.
 */
async function serve({ client, version, can, broken = {}, requests, failure, close }) {
  const handlers = { ...requests, hello: () => ({ client, version, can, broken }) }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { id, do: name, ...given } = JSON.parse(line)
    const response = { id }
    try {
      if (!Object.hasOwn(handlers, name)) throw new Error(`${client} has no ${name}`)
      response.result = (await handlers[name](given)) ?? {}
    } catch (error) {
      response.error = failure(error)
    }
    process.stdout.write(`${JSON.stringify(response)}\n`)
  }
  await close()
  process.exit(0) // some libraries leave timers behind that would keep the process waiting
}

/** Bytes as a request spells them. */
const bytes = text => (text == null ? null : Buffer.from(text, 'base64'))

/** Bytes as a response spells them. */
const base64 = data => (data == null ? null : Buffer.from(data).toString('base64'))

/** What was given of some settings, under the library's names for them. */
function renamed(given, names) {
  const known = Object.entries(names).filter(([name]) => given[name] !== undefined)
  return Object.fromEntries(known.map(([name, own]) => [own, given[name]]))
}

/** The first exception of which something holds, among one and what `causesOf` tells of each. */
function findCause(error, holds, causesOf) {
  const next = [error]
  for (const one of next) {
    if (holds(one)) return one
    next.push(...causesOf(one).filter(cause => cause != null && !next.includes(cause)))
  }
  return undefined
}

module.exports = { base64, bootstrap, bytes, clientId, findCause, renamed, serve }
