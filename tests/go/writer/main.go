// An idempotent producer by franz-go that writes until its standard input ends or a record has
// failed; with up to five requests in flight, as always. What it is given and reports is described in tests/support/misbehaviour/producers.py.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const outstandingMax = 500

var out sync.Mutex

func report(what string, partition, number int, rest any) {
	out.Lock()
	defer out.Unlock()
	fmt.Printf("%s %d %d %v\n", what, partition, number, rest)
}

func options(bootstrap string, given []string) []kgo.Opt {
	found := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	for _, one := range given {
		name, value, _ := strings.Cut(one, "=")
		number, err := strconv.Atoi(value)
		if err != nil {
			panic(one)
		}
		switch name {
		case "batch.size":
			found = append(found, kgo.ProducerBatchMaxBytes(int32(number)))
		case "retry.backoff.ms":
			backoff := time.Duration(number) * time.Millisecond
			found = append(found, kgo.RetryBackoffFn(func(int) time.Duration { return backoff }))
		}
	}
	return found
}

func main() {
	topic, name := os.Args[2], os.Args[4]
	partitions, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	client, err := kgo.NewClient(options(os.Args[1], os.Args[5:])...)
	if err != nil {
		panic(err)
	}
	var ending atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ending.Store(true)
	}()
	room := make(chan struct{}, outstandingMax)
	padding := strings.Repeat(".", 200)
	for count := 0; !ending.Load(); count++ {
		partition, number := count%partitions, count/partitions
		value := fmt.Sprintf("%s/%d/%d/%s", name, partition, number, padding)
		room <- struct{}{}
		client.Produce(
			context.Background(),
			&kgo.Record{Topic: topic, Partition: int32(partition), Value: []byte(value)},
			func(record *kgo.Record, err error) {
				if err != nil {
					report("fail", partition, number, strings.ReplaceAll(err.Error(), "\n", " "))
					ending.Store(true)
				} else {
					report("ack", partition, number, record.Offset)
				}
				<-room
			},
		)
	}
	if err := client.Flush(context.Background()); err != nil {
		panic(err)
	}
	client.Close()
}
