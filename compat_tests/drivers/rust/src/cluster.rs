//! How all clients connect: their id, and what the brokers want of them (see ../../README.md).

use std::env;
use std::fs;
use std::io;

use rdkafka::ClientConfig;
use serde::Deserialize;

/// The file that KAVKA_COMPAT_SECURITY names.
#[derive(Deserialize)]
struct Security {
    protocol: String,
    ca: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    check_hostname: Option<bool>,
    mechanism: Option<String>,
    user: Option<String>,
    password: Option<String>,
}

/// Settings that each client begins with.
pub fn settings(bootstrap: &str) -> io::Result<ClientConfig> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    if let Ok(id) = env::var("KAVKA_COMPAT_CLIENT_ID") {
        config.set("client.id", id);
    }
    if let Some(path) = env::var_os("KAVKA_COMPAT_SECURITY") {
        secure(&mut config, serde_json::from_slice(&fs::read(path)?)?);
    }
    Ok(config)
}

fn secure(config: &mut ClientConfig, security: Security) {
    let any_name = security.check_hostname == Some(false); // else the library checks it
    let settings = [
        ("security.protocol", Some(security.protocol)),
        ("ssl.ca.location", security.ca),
        ("ssl.certificate.location", security.certificate),
        ("ssl.key.location", security.key),
        (
            "ssl.endpoint.identification.algorithm",
            any_name.then(|| "none".to_owned()),
        ),
        ("sasl.mechanism", security.mechanism),
        ("sasl.username", security.user),
        ("sasl.password", security.password),
    ];
    for (name, value) in settings {
        if let Some(value) = value {
            config.set(name, value);
        }
    }
}
