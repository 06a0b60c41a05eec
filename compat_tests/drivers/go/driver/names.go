package driver

import "github.com/twmb/franz-go/pkg/kerr"

// KafkaName is the name of an error's code in the Kafka protocol, for libraries that tell the code
// only: franz-go has a table of them.
func KafkaName(code int16) string { return kerr.TypedErrorForCode(code).Message }
