package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"kavka.test/drivers/driver"
)

var codecs = map[string]kafka.Compression{
	"none":   0,
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

var acks = map[string]kafka.RequiredAcks{
	"0":   kafka.RequireNone,
	"1":   kafka.RequireOne,
	"all": kafka.RequireAll,
}

// sending is what a message has with it on its way: its request, which of that it is, and the partition
// it was given.
type sending struct {
	request   *request
	number    int
	partition *int32
}

// request gathers where its messages have gone. It may be over before they are: after its timeout,
// writers go on.
type request struct {
	acks   kafka.RequiredAcks
	mutex  sync.Mutex
	placed []driver.Placed
}

// balancer takes the partition that a message was given, and the library's default one where it was
// given none: in the library a message can't be given one.
type balancer struct{ byDefault kafka.Balancer }

func (b balancer) Balance(message kafka.Message, partitions ...int) int {
	if chosen := message.WriterData.(sending).partition; chosen != nil {
		return int(*chosen)
	}
	return b.byDefault.Balance(message, partitions...)
}

type producer struct {
	cluster
	client  *kafka.Client
	failure func(error) *driver.Failure
	writer  *kafka.Writer
	timeout *driver.Millis
}

func (p *producer) offer(requests map[string]driver.Handler) {
	requests["producer"] = driver.Do(p.make)
	requests["send"] = driver.Take(p.send)
	requests["close_producer"] = driver.Order(p.close)
}

func (p *producer) make(given driver.ProducerOptions) error {
	if err := p.close(); err != nil {
		return err
	}
	// A transport of its own starts with new metadata: by default one is for the whole program, with
	// metadata of up to six seconds before. The client shares it, and so knows what the writer does.
	transport := p.newTransport()
	p.client.Transport = transport
	writer := &kafka.Writer{
		Addr:      p.client.Addr,
		Transport: transport,
		Balancer:  balancer{&kafka.RoundRobin{}},
		// The zero value is "0", with which nobody would hear of any error; NewWriter, the older way to
		// make one, has this one.
		RequiredAcks: kafka.RequireAll,
		Completion:   complete,
	}
	if given.Acks != nil {
		wanted, known := acks[*given.Acks]
		if !known {
			return fmt.Errorf("no acks: %q", *given.Acks)
		}
		writer.RequiredAcks = wanted
	}
	if given.Codec != nil {
		codec, known := codecs[*given.Codec]
		if !known {
			return fmt.Errorf("no codec: %q", *given.Codec)
		}
		writer.Compression = codec
	}
	if given.LingerMs != nil {
		writer.BatchTimeout = given.LingerMs.Duration()
	}
	// To the library, a message's limit and a batch's are one; the batch's is the narrower.
	if given.MaxRequestBytes != nil {
		writer.BatchBytes = int64(*given.MaxRequestBytes)
	}
	if given.BatchBytes != nil {
		writer.BatchBytes = int64(*given.BatchBytes)
	}
	p.writer, p.timeout = writer, given.TimeoutMs
	return nil
}

func (p *producer) close() error {
	if p.writer == nil {
		return nil
	}
	writer := p.writer
	p.writer = nil
	return writer.Close()
}

// complete is called by the writer's goroutines, with where messages have gone.
func complete(messages []kafka.Message, err error) {
	if err != nil {
		return
	}
	for _, message := range messages {
		sent := message.WriterData.(sending)
		sent.request.place(sent.number, message)
	}
}

func (r *request) place(number int, message kafka.Message) {
	placed := driver.Placed{Partition: new(int32(message.Partition)), Offset: &message.Offset}
	if r.acks == kafka.RequireNone {
		placed.Offset = new(int64(-1))
	}
	if !message.Time.IsZero() {
		placed.Timestamp = new(message.Time.UnixMilli())
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.placed[number] = placed
}

func (p *producer) send(given driver.Send) (driver.Placements, error) {
	request := &request{acks: p.writer.RequiredAcks, placed: make([]driver.Placed, len(given.Records))}
	messages := []kafka.Message{}
	for number, record := range given.Records {
		message := toSend(given.Topic, record)
		message.WriterData = sending{request, number, record.Partition}
		messages = append(messages, message)
	}
	ctx, stop := background, func() {}
	if p.timeout != nil {
		ctx, stop = context.WithTimeout(background, p.timeout.Duration())
	}
	defer stop()
	err := p.writer.WriteMessages(ctx, messages...)
	failed := make([]error, len(messages))
	if each, ok := errors.AsType[kafka.WriteErrors](err); ok {
		copy(failed, each)
	} else if err != nil {
		// The library refuses all for the sake of one.
		for number := range failed {
			failed[number] = err
		}
	}
	request.mutex.Lock()
	defer request.mutex.Unlock()
	placed := slices.Clone(request.placed)
	for number, err := range failed {
		if err != nil {
			placed[number] = driver.Placed{Error: p.failure(err)}
		}
	}
	return driver.Placements{Placed: placed}, nil
}

func toSend(topic string, given driver.Record) kafka.Message {
	message := kafka.Message{Topic: topic, Key: given.Key, Value: given.Value}
	if given.Timestamp != nil {
		message.Time = time.UnixMilli(*given.Timestamp)
	}
	for _, header := range given.Headers {
		message.Headers = append(message.Headers, kafka.Header{Key: header.Name, Value: header.Value})
	}
	return message
}

func partitions(client *kafka.Client, name string) (driver.Numbers, error) {
	metadata, err := client.Metadata(background, &kafka.MetadataRequest{Topics: []string{name}})
	if err != nil {
		return driver.Numbers{}, err
	}
	topic, err := topicOf(metadata, name)
	if err != nil {
		return driver.Numbers{}, err
	}
	numbers := []int32{}
	for _, partition := range topic.Partitions {
		numbers = append(numbers, int32(partition.ID))
	}
	slices.Sort(numbers)
	return driver.Numbers{Partitions: numbers}, nil
}

func topicOf(metadata *kafka.MetadataResponse, name string) (kafka.Topic, error) {
	for _, topic := range metadata.Topics {
		if topic.Name == name {
			return topic, topic.Error
		}
	}
	return kafka.Topic{}, kafka.UnknownTopicOrPartition
}
