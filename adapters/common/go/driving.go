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
)

var end = hex.EncodeToString([]byte("conformance.end")) // the key of the record that ends a topic

// told is a line of the suite.
type told struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset,string"`
	Isolation string `json:"isolation"`
	Bootstrap string `json:"bootstrap"`
}

// record is one that the consumer handed out, in the notation of `read`; what is empty is left out.
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

// drive consumes each topic that the suite names, all at once, until the suite ends the input.
func drive(module string, consume func(told) iter.Seq2[record, error]) {
	say(line{"version": version(module)})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var topic told
		if err := json.Unmarshal(lines.Bytes(), &topic); err != nil {
			panic(err)
		}
		go one(topic, consume)
	}
}

// one consumes a topic to its end. A panic is a crash; an error is what an application is to handle.
func one(topic told, consume func(told) iter.Seq2[record, error]) {
	defer func() {
		if cause := recover(); cause != nil {
			say(line{"topic": topic.Topic, "crash": fmt.Sprint(cause)})
		}
	}()
	for record, err := range consume(topic) {
		if err != nil {
			say(line{"topic": topic.Topic, "error": "other", "message": err.Error()})
			return
		}
		say(line{"topic": topic.Topic, "record": record})
		if record.Key != nil && *record.Key == end {
			say(line{"topic": topic.Topic, "end": true})
			return
		}
	}
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

func say(told line) {
	text, err := json.Marshal(told)
	if err != nil {
		panic(err)
	}
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(text, '\n'))
}
