// Shared code of the Go drivers: reads topics from standard input, writes the application's records and errors.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"
)

var end = hex.EncodeToString([]byte("conformance.end")) // key of the record that ends a topic

const much = 4 << 20 // maximum bytes of a line

// told is a line of the suite: a topic to consume or, with `produce`, to write to.
type told struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset,string"`
	Group     bool   `json:"group"` // consume as a member of the group with the topic's name, and commit
	Isolation string `json:"isolation"`
	Bootstrap string `json:"bootstrap"`
	Produce   *asked `json:"produce"`
}

// asked is the work of a producer: each list of records is one batch, sent before the next one, or all together.
type asked struct {
	Batches       [][]record `json:"batches"`
	Together      bool       `json:"together"`
	BatchBytes    int32      `json:"batchBytes"`
	Compression   string     `json:"compression"`
	Idempotent    bool       `json:"idempotent"`
	Transactional bool       `json:"transactional"`
	Ends          []string   `json:"ends"`    // end of the transaction after each batch: commit, abort, or "" to continue
	GivenUp       []bool     `json:"givenUp"` // true if errors of a batch are ignored
}

// record is one from the consumer, or one for the producer to write, in the notation of `read` without empty
// fields.
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

// consumer passes on the records of a topic until the last one.
type consumer func(topic told, hand func(record) bool) error
type producer func(told) error

// drive consumes or writes each topic of the suite, all in parallel, until the input ends.
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

// one processes a topic until its end. A panic is a crash; an error is for the application.
func one(topic told, consume consumer, produce producer) {
	defer func() {
		if cause := recover(); cause != nil {
			say(line{"topic": topic.Topic, "crash": fmt.Sprint(cause)})
		}
	}()
	if topic.Produce == nil {
		produce = func(topic told) error { return consume(topic, topic.hand) }
	}
	if err := produce(topic); err != nil {
		say(line{"topic": topic.Topic, "error": "other", "message": err.Error()})
		return
	}
	say(line{"topic": topic.Topic, "end": true})
}

// hand reports a record of the consumer, and returns true for the last one of its topic.
func (topic told) hand(record record) bool {
	say(line{"topic": topic.Topic, "record": record})
	return record.Key != nil && *record.Key == end
}

// send writes the batches one by one or all together, in transactions if requested, each committed or aborted, until
// the first error.
func (asked *asked) send(begin func() error, write func([]record) error, commit, abort func() error) error {
	ends := map[string]func() error{"commit": commit, "abort": abort}
	batches := asked.Batches
	if asked.Together {
		batches = [][]record{slices.Concat(batches...)}
	}
	var err error
	for at, batch := range batches {
		if asked.Transactional && (at == 0 || asked.Ends[at-1] != "") {
			err = begin()
		}
		if err == nil && len(batch) > 0 {
			err = write(batch)
		}
		if asked.GivenUp[at] {
			err = nil
		}
		if err == nil && asked.Ends[at] != "" {
			err = ends[asked.Ends[at]]()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each applies a function to every element.
func each[From, To any](all []From, made func(From) To) []To {
	results := make([]To, len(all))
	for index, one := range all {
		results[index] = made(one)
	}
	return results
}

// version returns the version of the module in this program.
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

// octets returns the bytes of hex digits; nil stays nil.
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

// moment returns the timestamp of a record to write.
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
