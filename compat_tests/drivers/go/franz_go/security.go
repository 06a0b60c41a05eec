package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"kavka.test/drivers/driver"
)

// connecting is what all clients are made with.
func connecting(servers []string, security driver.Security) ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(servers...)}
	if id := driver.ClientID(); id != "" {
		options = append(options, kgo.ClientID(id))
	}
	if security.TLS != nil {
		options = append(options, kgo.DialTLSConfig(security.TLS))
	}
	if security.Login != nil {
		mechanism, err := mechanismOf(*security.Login)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func mechanismOf(login driver.Login) (sasl.Mechanism, error) {
	auth := scram.Auth{User: login.User, Pass: login.Password}
	switch login.Mechanism {
	case "PLAIN":
		return plain.Auth{User: login.User, Pass: login.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return auth.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return auth.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("no mechanism: %q", login.Mechanism)
}
