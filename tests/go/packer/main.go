// One batch by franz-go in a codec: "packer BOOTSTRAP TOPIC CODEC COUNT".
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func main() {
	count, err := strconv.Atoi(os.Args[4])
	if err != nil {
		panic(err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.DefaultProduceTopic(os.Args[2]),
		kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(codecs[os.Args[3]]),
		kgo.ProducerLinger(time.Second),
	)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	records := []*kgo.Record{}
	for number := 0; number < count; number++ {
		value := strings.Repeat(fmt.Sprintf("value %d, ", number), 4)
		records = append(records, &kgo.Record{
			Key: []byte(fmt.Sprintf("franz-go %s %d", os.Args[3], number)), Value: []byte(value),
		})
	}
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		panic(err)
	}
}
