package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"kavka.test/drivers/driver"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

var acks = map[string]sarama.RequiredAcks{
	"0":   sarama.NoResponse,
	"1":   sarama.WaitForLocal,
	"all": sarama.WaitForAll,
}

// chosen marks, as its metadata, a message whose partition is given.
type chosen struct{}

// partitioner takes the partition that a message names, and the library's default one where it names
// none: in the library it is either the one or the other for the whole producer.
type partitioner struct {
	sarama.DynamicConsistencyPartitioner
}

func newPartitioner(topic string) sarama.Partitioner {
	return partitioner{sarama.NewHashPartitioner(topic).(sarama.DynamicConsistencyPartitioner)}
}

func (p partitioner) Partition(message *sarama.ProducerMessage, partitions int32) (int32, error) {
	if message.Metadata == (chosen{}) {
		return message.Partition, nil
	}
	return p.DynamicConsistencyPartitioner.Partition(message, partitions)
}

func (p partitioner) MessageRequiresConsistency(message *sarama.ProducerMessage) bool {
	return message.Metadata == (chosen{}) ||
		p.DynamicConsistencyPartitioner.MessageRequiresConsistency(message)
}

type producer struct {
	cluster
	failure  func(error) *driver.Failure
	consumer *consumer
	client   sarama.Client
	sync     sarama.SyncProducer
	config   *sarama.Config
}

func (p *producer) offer(requests map[string]driver.Handler) {
	requests["producer"] = driver.Do(p.make)
	requests["send"] = driver.Take(p.send)
	requests["begin"] = driver.Order(func() error { return p.sync.BeginTxn() })
	requests["commit_transaction"] = driver.Order(func() error { return p.sync.CommitTxn() })
	requests["abort_transaction"] = driver.Order(func() error { return p.sync.AbortTxn() })
	requests["send_offsets"] = driver.Do(p.sendOffsets)
	requests["close_producer"] = driver.Order(p.close)
}

func (p *producer) make(given driver.ProducerOptions) error {
	if err := p.close(); err != nil {
		return err
	}
	config := p.newConfig()
	if err := configureProducer(config, given); err != nil {
		return err
	}
	client, err := sarama.NewClient(p.servers, config)
	if err != nil {
		return err
	}
	sync, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	p.client, p.sync, p.config = client, sync, config
	return nil
}

func (p *producer) close() error {
	if p.client == nil {
		return nil
	}
	err := errors.Join(p.sync.Close(), p.client.Close())
	p.client, p.sync = nil, nil
	return err
}

func configureProducer(config *sarama.Config, given driver.ProducerOptions) error {
	config.Producer.Partitioner = newPartitioner
	// The library demands both for a SyncProducer.
	config.Producer.Return.Successes, config.Producer.Return.Errors = true, true
	if given.TransactionalID != nil {
		config.Producer.Transaction.ID = *given.TransactionalID
	}
	if given.Idempotent != nil && *given.Idempotent || given.TransactionalID != nil {
		// What the library demands for it.
		config.Producer.Idempotent = true
		config.Producer.RequiredAcks = sarama.WaitForAll
		config.Net.MaxOpenRequests = 1
	}
	if given.Acks != nil {
		wanted, known := acks[*given.Acks]
		if !known {
			return fmt.Errorf("no acks: %q", *given.Acks)
		}
		config.Producer.RequiredAcks = wanted
	}
	if given.Codec != nil {
		codec, known := codecs[*given.Codec]
		if !known {
			return fmt.Errorf("no codec: %q", *given.Codec)
		}
		config.Producer.Compression = codec
	}
	if given.TransactionTimeoutMs != nil {
		config.Producer.Transaction.Timeout = given.TransactionTimeoutMs.Duration()
	}
	if given.LingerMs != nil {
		config.Producer.Flush.Frequency = given.LingerMs.Duration()
	}
	// To the library, a record's limit and a batch's are one; the batch's is the narrower.
	if given.MaxRequestBytes != nil {
		config.Producer.MaxMessageBytes = *given.MaxRequestBytes
	}
	if given.BatchBytes != nil {
		config.Producer.MaxMessageBytes = *given.BatchBytes
	}
	return nil
}

func (p *producer) send(given driver.Send) (driver.Placements, error) {
	messages := []*sarama.ProducerMessage{}
	for _, record := range given.Records {
		messages = append(messages, toSend(given.Topic, record))
	}
	err := p.sync.SendMessages(messages)
	failed := map[*sarama.ProducerMessage]error{}
	if err != nil {
		each, ok := errors.AsType[sarama.ProducerErrors](err)
		if !ok {
			return driver.Placements{}, err
		}
		for _, one := range each {
			failed[one.Msg] = one.Err
		}
	}
	placed := []driver.Placed{}
	for _, message := range messages {
		placed = append(placed, p.placed(message, failed[message]))
	}
	return driver.Placements{Placed: placed}, nil
}

func toSend(topic string, given driver.Record) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{Topic: topic}
	if given.Key != nil {
		message.Key = sarama.ByteEncoder(given.Key)
	}
	if given.Value != nil {
		message.Value = sarama.ByteEncoder(given.Value)
	}
	if given.Partition != nil {
		message.Partition, message.Metadata = *given.Partition, chosen{}
	}
	if given.Timestamp != nil {
		message.Timestamp = time.UnixMilli(*given.Timestamp)
	}
	for _, header := range given.Headers {
		message.Headers = append(message.Headers, sarama.RecordHeader{
			Key: []byte(header.Name), Value: header.Value,
		})
	}
	return message
}

func (p *producer) placed(message *sarama.ProducerMessage, err error) driver.Placed {
	if err != nil {
		return driver.Placed{Error: p.failure(err)}
	}
	placed := driver.Placed{Partition: &message.Partition, Offset: &message.Offset}
	if p.config.Producer.RequiredAcks == sarama.NoResponse {
		placed.Offset = new(int64(-1))
	}
	if !message.Timestamp.IsZero() {
		placed.Timestamp = new(message.Timestamp.UnixMilli())
	}
	return placed
}

func (p *producer) sendOffsets(given driver.SendOffsets) error {
	offsets := map[string][]*sarama.PartitionOffsetMetadata{}
	for _, one := range given.Offsets {
		offsets[one.Topic] = append(offsets[one.Topic], &sarama.PartitionOffsetMetadata{
			Partition: one.Partition, Offset: one.Offset, LeaderEpoch: -1, Metadata: &one.Metadata,
		})
	}
	if metadata := p.consumer.metadata(given.Group); metadata != nil {
		return p.sync.AddOffsetsToTxnWithGroupMetadata(offsets, metadata)
	}
	return p.sync.AddOffsetsToTxn(offsets, given.Group)
}
