package main

import (
	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	"kavka.test/drivers/driver"
)

var hashes = map[string]scram.HashGeneratorFcn{
	sarama.SASLTypeSCRAMSHA256: scram.SHA256,
	sarama.SASLTypeSCRAMSHA512: scram.SHA512,
}

func secure(config *sarama.Config, security driver.Security) {
	if security.TLS != nil {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, security.TLS
	}
	if login := security.Login; login != nil {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(login.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = login.User, login.Password
		if hash, known := hashes[login.Mechanism]; known {
			config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
				return &scramClient{hash: hash}
			}
		}
	}
}

// scramClient is what the library wants of its users: it has no SCRAM of its own.
type scramClient struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authorization string) error {
	client, err := c.hash.NewClient(user, password, authorization)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}
