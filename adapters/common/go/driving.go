// What the drivers in Go share: topics come in on standard input, what an application is handed goes out.
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

var end = hex.EncodeToString([]byte("conformance.end")) // the key of the record that ends a topic

const much = 4 << 20 // bytes of a line at most

// told is a line of the suite: a topic to consume or, with `produce`, to write to.
type told struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset,string"`
	Group     bool   `json:"group"` // consume as a member of the group that is named after the topic, and commit
	Isolation string `json:"isolation"`
	Bootstrap string `json:"bootstrap"`
	Produce   *asked `json:"produce"`
}

// asked is what a producer is told: each list of records is one batch, sent before the next one begins, or all together.
type asked struct {
	Batches       [][]record `json:"batches"`
	Together      bool       `json:"together"`
	BatchBytes    int32      `json:"batchBytes"`
	Compression   string     `json:"compression"`
	Idempotent    bool       `json:"idempotent"`
	Transactional bool       `json:"transactional"`
	Ends          []string   `json:"ends"`    // how the transaction ends behind each batch: commit, abort, or not yet
	GivenUp       []bool     `json:"givenUp"` // whether what fails of a batch is given up
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

// consumer hands over the records of a topic, until it is told that this was the last one.
type consumer func(topic told, hand func(record) bool) error
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
		produce = func(topic told) error { return consume(topic, topic.hand) }
	}
	if err := produce(topic); err != nil {
		say(line{"topic": topic.Topic, "error": "other", "message": err.Error()})
		return
	}
	say(line{"topic": topic.Topic, "end": true})
}

// hand says a record that the consumer handed out, and returns whether it was the last one of its topic.
func (topic told) hand(record record) bool {
	say(line{"topic": topic.Topic, "record": record})
	return record.Key != nil && *record.Key == end
}

// send writes each batch by itself, or all together, within transactions where the suite asks for them, each committed or
// aborted in the end; the first error ends that.
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

// each makes something of every one.
func each[From, To any](all []From, made func(From) To) []To {
	results := make([]To, len(all))
	for index, one := range all {
		results[index] = made(one)
	}
	return results
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
