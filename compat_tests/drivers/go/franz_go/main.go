// The driver for franz-go, with kadm for administration.
package main

import (
	"context"
	"errors"
	"log"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kavka.test/drivers/driver"
)

// Its transactions take a group's offsets only out of a GroupTransactSession, which decides itself
// which: so there is no send_offsets.
var can = []string{
	"produce", "acks", "empty_bytes", "keyed", "gzip", "snappy", "lz4", "zstd", "headers",
	"timestamps", "append_time", "fencing", "idempotence", "transactions", "timeout", "retries",
	"consume", "group", "pattern", "range", "roundrobin", "sticky", "cooperative",
	"consumer_protocol", "static_members", "isolation", "seek", "pause", "reset", "reset_none",
	"small_fetches",
	"offsets_for_times", "ends", "commit_metadata", "new_partitions",
	"create_topic", "delete_topic", "create_partitions", "list_topics", "describe_topic",
	"describe_configs", "alter_configs", "delete_records", "list_groups", "describe_group",
	"delete_group", "group_offsets", "describe_cluster",
}

// The errors of the library's own that are plain values: Go can't tell their names.
var named = map[error]string{
	kgo.ErrRecordTimeout:     "ErrRecordTimeout",
	kgo.ErrRecordRetries:     "ErrRecordRetries",
	kgo.ErrMaxBuffered:       "ErrMaxBuffered",
	kgo.ErrAborting:          "ErrAborting",
	kgo.ErrClientClosed:      "ErrClientClosed",
	context.DeadlineExceeded: "DeadlineExceeded",
}

var background = context.Background()

func nameOf(err error) string {
	if kafkas, ok := errors.AsType[*kerr.Error](err); ok {
		return kafkas.Message
	}
	for value, name := range named {
		if errors.Is(err, value) {
			return name
		}
	}
	return ""
}

func main() {
	connection, err := connecting(driver.Servers(), driver.ReadSecurity())
	if err != nil {
		log.Fatal(err)
	}
	library := &driver.Library{
		Client: "franz-go",
		Module: "github.com/twmb/franz-go",
		Can:    can,
		Name:   nameOf,
	}
	producer := &producer{connection: connection, failure: library.Failure}
	consumer := &consumer{connection: connection}
	admin := &admin{connection: connection}
	library.Requests = map[string]driver.Handler{
		"partitions": driver.Take(func(topic driver.Topic) (driver.Numbers, error) {
			if producer.client != nil {
				return partitions(producer.client, topic.Topic)
			}
			return partitions(consumer.client, topic.Topic)
		}),
	}
	producer.offer(library.Requests)
	consumer.offer(library.Requests)
	admin.offer(library.Requests)
	library.Close = func() error {
		err := producer.close()
		consumer.close()
		admin.close()
		return err
	}
	library.Main()
}
