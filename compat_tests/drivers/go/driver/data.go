package driver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Millis is a time span of a request; nil, as a pointer, when it was left out.
type Millis int64

func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Header is [name, bytes] in JSON.
type Header struct {
	Name  string
	Value []byte
}

func (h Header) MarshalJSON() ([]byte, error) { return json.Marshal([2]any{h.Name, h.Value}) }

func (h *Header) UnmarshalJSON(data []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("a header is a name and bytes, not %s", data)
	}
	if err := json.Unmarshal(pair[0], &h.Name); err != nil {
		return err
	}
	return json.Unmarshal(pair[1], &h.Value)
}

// Place is a partition, with what some requests and results tell of it.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type Offset struct {
	Place
	Offset   int64  `json:"offset"`
	Metadata string `json:"metadata,omitempty"`
}

type ProducerOptions struct {
	Acks                 *string `json:"acks"`
	Codec                *string `json:"codec"`
	Idempotent           *bool   `json:"idempotent"`
	TransactionalID      *string `json:"transactional_id"`
	TransactionTimeoutMs *Millis `json:"transaction_timeout_ms"`
	LingerMs             *Millis `json:"linger_ms"`
	BatchBytes           *int    `json:"batch_bytes"`
	MaxRequestBytes      *int    `json:"max_request_bytes"`
	TimeoutMs            *Millis `json:"timeout_ms"`
}

type Send struct {
	Topic   string   `json:"topic"`
	Records []Record `json:"records"`
}

// Record is one to send.
type Record struct {
	Partition *int32   `json:"partition"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
	Timestamp *int64   `json:"timestamp"`
}

// Placed is where a record went, or why it went nowhere.
type Placed struct {
	Partition *int32   `json:"partition,omitempty"`
	Offset    *int64   `json:"offset,omitempty"`
	Timestamp *int64   `json:"timestamp,omitempty"`
	Error     *Failure `json:"error,omitempty"`
}

type Placements struct {
	Placed []Placed `json:"placed"`
}

type SendOffsets struct {
	Group   string   `json:"group"`
	Offsets []Offset `json:"offsets"`
}

type ConsumerOptions struct {
	Group                  *string `json:"group"`
	Reset                  *string `json:"reset"`
	Isolation              *string `json:"isolation"`
	Assignor               *string `json:"assignor"`
	Protocol               *string `json:"protocol"`
	InstanceID             *string `json:"instance_id"`
	SessionTimeoutMs       *Millis `json:"session_timeout_ms"`
	HeartbeatMs            *Millis `json:"heartbeat_ms"`
	FetchMaxBytes          *int32  `json:"fetch_max_bytes"`
	PartitionFetchMaxBytes *int32  `json:"partition_fetch_max_bytes"`
	MetadataMaxAgeMs       *Millis `json:"metadata_max_age_ms"`
}

type Subscription struct {
	Topics  []string `json:"topics"`
	Pattern *string  `json:"pattern"`
}

// Start is where to begin in a partition: an offset, "earliest" or "latest".
type Start struct {
	Place
	Offset json.RawMessage `json:"offset"`
}

const (
	Earliest int64 = -2
	Latest   int64 = -1
)

// At is the offset, or one of the two above.
func (s Start) At() (int64, error) {
	var at any
	if err := json.Unmarshal(s.Offset, &at); err != nil {
		return 0, err
	}
	switch at := at.(type) {
	case float64:
		return int64(at), nil
	case string:
		switch at {
		case "earliest":
			return Earliest, nil
		case "latest":
			return Latest, nil
		}
	}
	return 0, fmt.Errorf("no offset: %s", s.Offset)
}

type Assignment struct {
	Partitions []Start `json:"partitions"`
}

type Poll struct {
	Records   int    `json:"records"`
	TimeoutMs Millis `json:"timeout_ms"`
}

// Consumed is a record that a consumer got.
type Consumed struct {
	Place
	Offset        int64    `json:"offset"`
	Timestamp     int64    `json:"timestamp"`
	TimestampType string   `json:"timestamp_type,omitempty"`
	Key           []byte   `json:"key"`
	Value         []byte   `json:"value"`
	Headers       []Header `json:"headers"`
}

type Batch struct {
	Records []Consumed `json:"records"`
}

type Places struct {
	Partitions []Place `json:"partitions"`
}

type Commit struct {
	Offsets []Offset `json:"offsets"`
}

type CommittedOffset struct {
	Offset   *int64 `json:"offset"`
	Metadata string `json:"metadata"`
}

type Committed struct {
	Offsets []CommittedOffset `json:"offsets"`
}

type Position struct {
	Offset int64 `json:"offset"`
}

type TimesOf struct {
	Partitions []struct {
		Place
		Timestamp int64 `json:"timestamp"`
	} `json:"partitions"`
}

type TimedOffset struct {
	Offset    *int64 `json:"offset"`
	Timestamp *int64 `json:"timestamp"`
}

type TimedOffsets struct {
	Offsets []TimedOffset `json:"offsets"`
}

type End struct {
	Earliest int64 `json:"earliest"`
	Latest   int64 `json:"latest"`
}

type Ends struct {
	Ends []End `json:"ends"`
}

// Sorted are partitions as a result tells them.
func Sorted(places []Place) Places {
	sorted := slices.SortedFunc(slices.Values(places), func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	if sorted == nil {
		sorted = []Place{}
	}
	return Places{Partitions: sorted}
}
