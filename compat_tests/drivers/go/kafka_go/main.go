// The driver for kafka-go (by Segment).
package main

import (
	"context"
	"errors"
	"log"

	"github.com/segmentio/kafka-go"

	"kavka.test/drivers/driver"
)

var can = []string{
	"produce", "acks", "gzip", "snappy", "lz4", "zstd", "headers", "timestamps", "timeout", "retries", "recreated",
	"consume", "group", "range", "roundrobin", "seek", "reset_none", "small_fetches",
	"offsets_for_times", "ends", "commit_metadata", "new_partitions",
	"create_topic", "delete_topic", "create_partitions", "list_topics", "describe_topic",
	"describe_configs", "alter_configs", "list_groups", "describe_group", "delete_group",
	"group_offsets", "describe_cluster",
}

var broken = map[string]string{
	"isolation": "read_committed shows aborted records, and the markers of transactions",
}

// The errors that are plain values: Go can't tell their names.
var named = map[error]string{
	kafka.ErrGroupClosed:     "ErrGroupClosed",
	kafka.ErrGenerationEnded: "ErrGenerationEnded",
	context.DeadlineExceeded: "DeadlineExceeded",
}

var background = context.Background()

func nameOf(err error) string {
	if kafkas, ok := errors.AsType[kafka.Error](err); ok {
		return driver.KafkaName(int16(kafkas))
	}
	for value, name := range named {
		if errors.Is(err, value) {
			return name
		}
	}
	return ""
}

func main() {
	cluster, err := newCluster(driver.Servers(), driver.ReadSecurity())
	if err != nil {
		log.Fatal(err)
	}
	library := &driver.Library{
		Client: "kafka-go",
		Module: "github.com/segmentio/kafka-go",
		Can:    can,
		Broken: broken,
		Name:   nameOf,
	}
	client := &kafka.Client{Addr: kafka.TCP(cluster.servers...), Transport: cluster.newTransport()}
	producer := &producer{cluster: cluster, client: client, failure: library.Failure}
	consumer := &consumer{cluster: cluster, client: client}
	library.Requests = map[string]driver.Handler{
		"partitions": driver.Take(func(topic driver.Topic) (driver.Numbers, error) {
			return partitions(client, topic.Topic)
		}),
	}
	producer.offer(library.Requests)
	consumer.offer(library.Requests)
	(&admin{cluster, client}).offer(library.Requests)
	library.Close = func() error { return errors.Join(producer.close(), consumer.close()) }
	library.Main()
}
