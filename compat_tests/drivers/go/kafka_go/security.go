package main

import (
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"kavka.test/drivers/driver"
)

// cluster is what all clients connect to: with transports the ones, with dialers the others.
type cluster struct {
	servers  []string
	security driver.Security
	// mechanism is nil without a login.
	mechanism sasl.Mechanism
}

func newCluster(servers []string, security driver.Security) (cluster, error) {
	made := cluster{servers: servers, security: security}
	if security.Login == nil {
		return made, nil
	}
	var err error
	made.mechanism, err = mechanismOf(*security.Login)
	return made, err
}

func mechanismOf(login driver.Login) (sasl.Mechanism, error) {
	switch login.Mechanism {
	case "PLAIN":
		return plain.Mechanism{Username: login.User, Password: login.Password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, login.User, login.Password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, login.User, login.Password)
	}
	return nil, fmt.Errorf("no mechanism: %q", login.Mechanism)
}

func (c cluster) newTransport() *kafka.Transport {
	return &kafka.Transport{
		ClientID: driver.ClientID(), TLS: c.security.TLS, SASL: c.mechanism,
	}
}

func (c cluster) newDialer() *kafka.Dialer {
	dialer := *kafka.DefaultDialer
	dialer.TLS, dialer.SASLMechanism = c.security.TLS, c.mechanism
	if id := driver.ClientID(); id != "" {
		dialer.ClientID = id
	}
	return &dialer
}
