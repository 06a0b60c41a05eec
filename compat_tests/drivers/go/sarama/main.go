// The driver for Sarama.
package main

import (
	"errors"

	"github.com/IBM/sarama"

	"kavka.test/drivers/driver"
)

// A consumer group can't be given another position while it consumes, and an assigned partition can
// only be begun anew: so there is no seek. A record has no time after which it is given up.
var can = []string{
	"produce", "acks", "empty_bytes", "keyed", "auto_create", "gzip", "snappy", "lz4", "zstd",
	"headers", "timestamps", "append_time", "idempotence", "transactions", "fencing",
	"send_offsets", "retries", "recreated",
	"consume", "group", "range", "roundrobin", "sticky", "cooperative", "static_members",
	"isolation", "pause", "reset_none", "small_fetches", "offsets_for_times", "ends",
	"commit_metadata",
	"new_partitions",
	"create_topic", "delete_topic", "create_partitions", "list_topics", "describe_topic",
	"describe_configs", "alter_configs", "delete_records", "list_groups", "describe_group",
	"delete_group", "group_offsets", "describe_cluster",
}

// The errors of the library's own that are plain values: Go can't tell their names.
var named = map[error]string{
	sarama.ErrOutOfBrokers:          "ErrOutOfBrokers",
	sarama.ErrInvalidPartition:      "ErrInvalidPartition",
	sarama.ErrIncompleteResponse:    "ErrIncompleteResponse",
	sarama.ErrNotConnected:          "ErrNotConnected",
	sarama.ErrClosedClient:          "ErrClosedClient",
	sarama.ErrShuttingDown:          "ErrShuttingDown",
	sarama.ErrMessageTooLarge:       "ErrMessageTooLarge",
	sarama.ErrTransactionNotReady:   "ErrTransactionNotReady",
	sarama.ErrNonTransactedProducer: "ErrNonTransactedProducer",
	sarama.ErrTransitionNotAllowed:  "ErrTransitionNotAllowed",
	sarama.ErrClosedConsumerGroup:   "ErrClosedConsumerGroup",
}

func nameOf(err error) string {
	if kafkas, ok := errors.AsType[sarama.KError](err); ok {
		return driver.KafkaName(int16(kafkas))
	}
	for value, name := range named {
		if errors.Is(err, value) {
			return name
		}
	}
	return ""
}

// cluster is what all clients connect to.
type cluster struct {
	servers  []string
	security driver.Security
}

// newConfig is the library's default one, for the newest brokers: it wants to be told their version.
func (c cluster) newConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	secure(config, c.security)
	if id := driver.ClientID(); id != "" {
		config.ClientID = id
	}
	return config
}

func main() {
	cluster := cluster{driver.Servers(), driver.ReadSecurity()}
	library := &driver.Library{
		Client: "sarama",
		Module: "github.com/IBM/sarama",
		Can:    can,
		Name:   nameOf,
	}
	consumer := &consumer{cluster: cluster}
	producer := &producer{cluster: cluster, failure: library.Failure, consumer: consumer}
	admin := &admin{cluster: cluster}
	library.Requests = map[string]driver.Handler{
		"partitions": driver.Take(func(topic driver.Topic) (driver.Numbers, error) {
			client := consumer.client
			if producer.client != nil {
				client = producer.client
			}
			numbers, err := client.Partitions(topic.Topic)
			return driver.Numbers{Partitions: numbers}, err
		}),
	}
	producer.offer(library.Requests)
	consumer.offer(library.Requests)
	admin.offer(library.Requests)
	library.Close = func() error {
		return errors.Join(producer.close(), consumer.close(), admin.close())
	}
	library.Main()
}
