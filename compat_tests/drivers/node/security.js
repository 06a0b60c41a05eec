// What the brokers want of a client: TLS or a login, by the file that KAVKA_COMPAT_SECURITY names.
'use strict'

const fs = require('node:fs')
const tls = require('node:tls')

// Where operating systems keep the authorities that they trust.
const AUTHORITIES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/cert.pem',
]

const path = process.env.KAVKA_COMPAT_SECURITY
const given = path ? JSON.parse(fs.readFileSync(path, 'utf8')) : { protocol: 'PLAINTEXT' }
const hasTls = given.protocol.endsWith('SSL')
const hasLogin = given.protocol.startsWith('SASL_')

/** By default Node.js trusts authorities of its own; only newer ones (22.15) tell these. */
function ofOperatingSystem() {
  if (tls.getCACertificates !== undefined) return tls.getCACertificates('system')
  const files = [process.env.SSL_CERT_FILE, ...AUTHORITIES]
  const file = files.find(one => one && fs.existsSync(one))
  return file && fs.readFileSync(file)
}

function optionsOfTls() {
  const options = { ca: given.ca === null ? ofOperatingSystem() : fs.readFileSync(given.ca) }
  if (given.certificate !== null) {
    options.cert = fs.readFileSync(given.certificate)
    options.key = fs.readFileSync(given.key)
  }
  // which is asked after the certificate's authorities were checked
  if (!given.check_hostname) options.checkServerIdentity = () => undefined
  return options
}

function propertiesOfLibrdkafka() {
  const properties = { 'security.protocol': given.protocol }
  if (hasTls) {
    // the library checks it by default
    if (!given.check_hostname) properties['ssl.endpoint.identification.algorithm'] = 'none'
    if (given.ca !== null) properties['ssl.ca.location'] = given.ca
    if (given.certificate !== null) {
      properties['ssl.certificate.location'] = given.certificate
      properties['ssl.key.location'] = given.key
    }
  }
  if (hasLogin) {
    properties['sasl.mechanism'] = given.mechanism
    properties['sasl.username'] = given.user
    properties['sasl.password'] = given.password
  }
  return properties
}

module.exports = {
  /** Options of node:tls, undefined without TLS. */
  tlsOptions: hasTls ? optionsOfTls() : undefined,
  /** Undefined without a login. */
  login: hasLogin
    ? { mechanism: given.mechanism, username: given.user, password: given.password }
    : undefined,
  /** Settings of librdkafka. */
  properties: path ? propertiesOfLibrdkafka() : {},
}
