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

const maxLineBytes = 4 << 20 // maximum bytes of a line

// task is a line of the suite: a topic to consume or, with `produce`, to write to.
type task struct {
	Topic     string          `json:"topic"`
	Partition int             `json:"partition"`
	Offset    int64           `json:"offset,string"`
	Group     bool            `json:"group"` // consume as a member of the group with the topic's name, and commit
	Isolation string          `json:"isolation"`
	Bootstrap string          `json:"bootstrap"`
	Produce   *produceOptions `json:"produce"`
}

// produceOptions is the work of a producer. Each list of records is one batch: one after the other, or all together.
type produceOptions struct {
	Batches       [][]record `json:"batches"`
	Together      bool       `json:"together"`
	BatchBytes    int32      `json:"batchBytes"`
	Compression   string     `json:"compression"`
	Idempotent    bool       `json:"idempotent"`
	Transactional bool       `json:"transactional"`
	Ends          []string   `json:"ends"`    // end of the transaction after each batch: commit, abort, or "" to continue
	GivenUp       []bool     `json:"givenUp"` // true if errors of a batch are ignored
}

// record is a record of the consumer or for the producer, in the notation of `read` without empty fields.
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
type consumer func(task task, report func(record) bool) error
type producer func(task) error

// drive consumes or writes each topic of the suite, all in parallel, until the input ends.
func drive(module string, consume consumer, produce producer) {
	writeLine(line{"version": version(module)})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var task task
		if err := json.Unmarshal(lines.Bytes(), &task); err != nil {
			panic(err)
		}
		go serve(task, consume, produce)
	}
}

// serve processes a topic until its end. A panic is a crash; an error is for the application.
func serve(task task, consume consumer, produce producer) {
	defer func() {
		if cause := recover(); cause != nil {
			writeLine(line{"topic": task.Topic, "crash": fmt.Sprint(cause)})
		}
	}()
	var err error
	if task.Produce != nil {
		err = produce(task)
	} else {
		err = consume(task, task.report)
	}
	if err != nil {
		writeLine(line{"topic": task.Topic, "error": "other", "message": err.Error()})
		return
	}
	writeLine(line{"topic": task.Topic, "end": true})
}

// report writes a record of the consumer, and returns true for the last one of its topic.
func (task task) report(record record) bool {
	writeLine(line{"topic": task.Topic, "record": record})
	return record.Key != nil && *record.Key == end
}

// send writes the batches one by one or all together, in transactions if requested, each committed or aborted, until
// the first error.
func (options *produceOptions) send(begin func() error, write func([]record) error, commit, abort func() error) error {
	ends := map[string]func() error{"commit": commit, "abort": abort}
	batches := options.Batches
	if options.Together {
		batches = [][]record{slices.Concat(batches...)}
	}
	var err error
	for at, batch := range batches {
		if options.Transactional && (at == 0 || options.Ends[at-1] != "") {
			err = begin()
		}
		if err == nil && len(batch) > 0 {
			err = write(batch)
		}
		if options.GivenUp[at] {
			err = nil
		}
		if err == nil && options.Ends[at] != "" {
			err = ends[options.Ends[at]]()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// each applies a function to every element.
func each[From, To any](elements []From, convert func(From) To) []To {
	results := make([]To, len(elements))
	for index, element := range elements {
		results[index] = convert(element)
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

// timestamp returns the timestamp of a record to write.
func timestamp(row record) time.Time {
	milliseconds, err := strconv.ParseInt(row.Timestamp, 10, 64)
	if err != nil {
		panic(err)
	}
	return time.UnixMilli(milliseconds)
}

func writeLine(content line) {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(text, '\n'))
}
