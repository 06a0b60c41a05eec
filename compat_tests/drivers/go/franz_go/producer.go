package main

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kavka.test/drivers/driver"
)

// What the library partitions with when nothing is set, see kgo.RecordPartitioner.
const bytesOnPartition = 64 << 10

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// partitioner takes the partition that a record names, and the library's default one where it names
// none: in the library it is either the one or the other for the whole client.
type partitioner struct{ byDefault kgo.Partitioner }

type topicPartitioner struct{ kgo.TopicBackupPartitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.byDefault.ForTopic(topic).(kgo.TopicBackupPartitioner)}
}

func (p topicPartitioner) RequiresConsistency(record *kgo.Record) bool {
	return record.Partition >= 0 || p.TopicBackupPartitioner.RequiresConsistency(record)
}

func (p topicPartitioner) PartitionByBackup(
	record *kgo.Record, partitions int, backup kgo.TopicBackupIter,
) int {
	if record.Partition >= 0 {
		return int(record.Partition)
	}
	return p.TopicBackupPartitioner.PartitionByBackup(record, partitions, backup)
}

type producer struct {
	connection []kgo.Opt
	failure    func(error) *driver.Failure
	client     *kgo.Client
	acks       string
}

func (p *producer) offer(requests map[string]driver.Handler) {
	requests["producer"] = driver.Do(p.make)
	requests["send"] = driver.Take(p.send)
	requests["begin"] = driver.Order(func() error { return p.client.BeginTransaction() })
	requests["commit_transaction"] = driver.Order(p.commit)
	requests["abort_transaction"] = driver.Order(p.abort)
	requests["close_producer"] = driver.Order(p.close)
}

func (p *producer) make(given driver.ProducerOptions) error {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
	options, err := p.options(given)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	p.client = client
	if given.TransactionalID != nil {
		_, _, err = client.ProducerID(background)
	}
	return err
}

func (p *producer) options(given driver.ProducerOptions) ([]kgo.Opt, error) {
	partitioner := partitioner{kgo.UniformBytesPartitioner(bytesOnPartition, true, true, nil)}
	options := append(slices.Clone(p.connection), kgo.RecordPartitioner(partitioner))
	p.acks = "all"
	if given.Acks != nil {
		p.acks = *given.Acks
		acks, known := map[string]kgo.Acks{
			"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks(),
		}[p.acks]
		if !known {
			return nil, fmt.Errorf("no acks: %q", p.acks)
		}
		options = append(options, kgo.RequiredAcks(acks))
	}
	// Without all acks the library wants idempotence off, unless it was asked for: then it refuses.
	idempotent := p.acks == "all"
	if given.Idempotent != nil {
		idempotent = *given.Idempotent
	}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if given.Codec != nil {
		codec, known := codecs[*given.Codec]
		if !known {
			return nil, fmt.Errorf("no codec: %q", *given.Codec)
		}
		options = append(options, kgo.ProducerBatchCompression(codec))
	}
	if given.TransactionalID != nil {
		options = append(options, kgo.TransactionalID(*given.TransactionalID))
	}
	if given.TransactionTimeoutMs != nil {
		options = append(options, kgo.TransactionTimeout(given.TransactionTimeoutMs.Duration()))
	}
	if given.LingerMs != nil {
		options = append(options, kgo.ProducerLinger(given.LingerMs.Duration()))
	}
	// To the library, a record's limit and a batch's are one; the batch's is the narrower.
	if given.MaxRequestBytes != nil {
		most := int32(*given.MaxRequestBytes)
		options = append(options, kgo.BrokerMaxWriteBytes(most), kgo.ProducerBatchMaxBytes(most))
	}
	if given.BatchBytes != nil {
		options = append(options, kgo.ProducerBatchMaxBytes(int32(*given.BatchBytes)))
	}
	if given.TimeoutMs != nil {
		options = append(options, kgo.RecordDeliveryTimeout(given.TimeoutMs.Duration()))
	}
	return options, nil
}

func (p *producer) send(given driver.Send) (driver.Placements, error) {
	placed := make([]driver.Placed, len(given.Records))
	var sent sync.WaitGroup
	sent.Add(len(given.Records))
	for number, record := range given.Records {
		p.client.Produce(background, toSend(given.Topic, record), func(done *kgo.Record, err error) {
			placed[number] = p.placed(done, err)
			sent.Done()
		})
	}
	sent.Wait()
	return driver.Placements{Placed: placed}, nil
}

func toSend(topic string, given driver.Record) *kgo.Record {
	record := &kgo.Record{Topic: topic, Partition: -1, Key: given.Key, Value: given.Value}
	if given.Partition != nil {
		record.Partition = *given.Partition
	}
	if given.Timestamp != nil {
		record.Timestamp = time.UnixMilli(*given.Timestamp)
	}
	for _, header := range given.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
	}
	return record
}

func (p *producer) placed(done *kgo.Record, err error) driver.Placed {
	if err != nil {
		return driver.Placed{Error: p.failure(err)}
	}
	offset, timestamp := done.Offset, done.Timestamp.UnixMilli()
	if p.acks == "0" {
		offset = -1
	}
	return driver.Placed{Partition: &done.Partition, Offset: &offset, Timestamp: &timestamp}
}

func (p *producer) commit() error {
	if err := p.client.Flush(background); err != nil {
		return err
	}
	return p.client.EndTransaction(background, kgo.TryCommit)
}

func (p *producer) abort() error {
	if err := p.client.AbortBufferedRecords(background); err != nil {
		return err
	}
	return p.client.EndTransaction(background, kgo.TryAbort)
}

func (p *producer) close() error {
	if p.client == nil {
		return nil
	}
	err := p.client.Flush(background)
	p.client.Close()
	p.client = nil
	return err
}

func partitions(client *kgo.Client, topic string) (driver.Numbers, error) {
	request := kmsg.NewPtrMetadataRequest()
	wanted := kmsg.NewMetadataRequestTopic()
	wanted.Topic = kmsg.StringPtr(topic)
	request.Topics = append(request.Topics, wanted)
	response, err := client.RequestCachedMetadata(background, request, 0)
	if err != nil {
		return driver.Numbers{}, err
	}
	numbers := []int32{}
	for _, found := range response.Topics {
		if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
			return driver.Numbers{}, err
		}
		for _, partition := range found.Partitions {
			numbers = append(numbers, partition.Partition)
		}
	}
	slices.Sort(numbers)
	return driver.Numbers{Partitions: numbers}, nil
}
