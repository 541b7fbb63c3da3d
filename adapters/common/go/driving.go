// What the drivers in Go share: topics come in on standard input, what an application is handed goes out.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

var end = hex.EncodeToString([]byte("conformance.end")) // the key of the record that ends a topic

const much = 4 << 20 // bytes of a batch, or of a line, at most

// told is a line of the suite: a topic to consume or, with `produce`, to write to.
type told struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset,string"`
	Isolation string `json:"isolation"`
	Bootstrap string `json:"bootstrap"`
	Produce   *asked `json:"produce"`
}

// asked is what a producer is told: each list of records is one batch, sent before the next one begins.
type asked struct {
	Batches       [][]record `json:"batches"`
	Compression   string     `json:"compression"`
	Idempotent    bool       `json:"idempotent"`
	Transactional bool       `json:"transactional"`
}

// record is one that the consumer handed out, or that a producer is told to write, in the notation of `read`; what is
// empty is left out.
type record struct {
	Offset        string   `json:"offset"`
	Timestamp     string   `json:"timestamp,omitempty"`
	TimestampType string   `json:"timestampType,omitempty"`
	Key           *string  `json:"key"`
	Value         *string  `json:"value"`
	Headers       []header `json:"headers"`
}

type header struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
}

type line map[string]any

var out sync.Mutex

type consumer func(told) iter.Seq2[record, error]
type producer func(told) error

// drive consumes each topic that the suite names, or writes to it, all at once, until the suite ends the input.
func drive(module string, consume consumer, produce producer) {
	say(line{"version": version(module)})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, much)
	for lines.Scan() {
		var topic told
		if err := json.Unmarshal(lines.Bytes(), &topic); err != nil {
			panic(err)
		}
		go one(topic, consume, produce)
	}
}

// one comes to the end of a topic. A panic is a crash; an error is what an application is to handle.
func one(topic told, consume consumer, produce producer) {
	defer func() {
		if cause := recover(); cause != nil {
			say(line{"topic": topic.Topic, "crash": fmt.Sprint(cause)})
		}
	}()
	if topic.Produce == nil {
		produce = func(topic told) error { return handOut(topic, consume) }
	}
	if err := produce(topic); err != nil {
		say(line{"topic": topic.Topic, "error": "other", "message": err.Error()})
		return
	}
	say(line{"topic": topic.Topic, "end": true})
}

// handOut says the records of a topic, up to the one that ends it.
func handOut(topic told, consume consumer) error {
	for record, err := range consume(topic) {
		if err != nil {
			return err
		}
		say(line{"topic": topic.Topic, "record": record})
		if record.Key != nil && *record.Key == end {
			break
		}
	}
	return nil
}

// version is that of the module which this program was built with.
func version(module string) string {
	built, _ := debug.ReadBuildInfo()
	for _, dependency := range built.Deps {
		if dependency.Path == module {
			return dependency.Version[1:]
		}
	}
	return ""
}

func number(value int64) string { return strconv.FormatInt(value, 10) }

func hexed(data []byte) *string {
	if data == nil {
		return nil
	}
	digits := hex.EncodeToString(data)
	return &digits
}

// octets are the bytes of hex digits; nil stays nil.
func octets(digits *string) []byte {
	if digits == nil {
		return nil
	}
	data, err := hex.DecodeString(*digits)
	if err != nil {
		panic(err)
	}
	return data
}

// moment is the timestamp of a record that is to be written.
func moment(told record) time.Time {
	milliseconds, err := strconv.ParseInt(told.Timestamp, 10, 64)
	if err != nil {
		panic(err)
	}
	return time.UnixMilli(milliseconds)
}

func say(told line) {
	text, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(text, '\n'))
}
