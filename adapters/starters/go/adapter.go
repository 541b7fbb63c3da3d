// A starter adapter for kafka-conformance. It answers each line of JSON on standard input with one on standard output.
//
//	go build -o adapter .
//	conformance doctor command:./adapter    checks the adapter
//	conformance run command:./adapter       judges the code behind it
//
// Replace the sample code in the rows of the table `types` by calls of YOUR LIBRARY, and add a row per further type.
// Types without a row are skipped and counted as skipped. docs/adapters.md has the types and their notation.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// --- YOUR LIBRARY: replace this sample code --------------------------------------------------------------

// codec has the functions that read and write one type; nil is not claimed.
type codec struct {
	// decode reads a value at the start of data. It returns the value in the suite's notation, and the number of
	// consumed bytes, or notShown if your library does not report it.
	decode func(data []byte) (value any, consumed int, err error)
	encode func(value json.RawMessage) ([]byte, error)
}

var types = map[string]codec{
	"INT32":  {decodeInt32, encodeInt32},
	"VARINT": {decodeVarint, encodeVarint},
	"STRING": {decodeString, encodeString},
}

// about names your library, and by `via` the judged call: `public: ` for a call of applications, `internal: ` for one
// on the library's own path to the wire.
var about = map[string]any{
	"name": "my-library", "version": "0.1", "language": "go",
	"via": map[string]string{"decode": "public: adapter.decode", "encode": "public: adapter.encode"},
}

func decodeInt32(data []byte) (any, int, error) {
	if len(data) < 4 {
		return nil, 0, refusal{"malformed", "the bytes end inside the number"}
	}
	return int32(binary.BigEndian.Uint32(data)), 4, nil
}

func encodeInt32(value json.RawMessage) ([]byte, error) {
	number, err := given[int32](value)
	return binary.BigEndian.AppendUint32(nil, uint32(number)), err
}

func decodeVarint(data []byte) (any, int, error) {
	var bits uint32
	for at := 0; at < 5; at++ {
		if at == len(data) {
			return nil, 0, refusal{"malformed", "the bytes end inside the varint"}
		}
		bits |= uint32(data[at]&0x7f) << (7 * at)
		if data[at] < 0x80 {
			return int32(bits>>1) ^ -int32(bits&1), at + 1, nil
		}
	}
	return nil, 0, refusal{"malformed", "the varint is longer than 5 bytes"}
}

func encodeVarint(value json.RawMessage) ([]byte, error) {
	number, err := given[int32](value)
	return binary.AppendUvarint(nil, uint64(uint32(number<<1)^uint32(number>>31))), err
}

func decodeString(data []byte) (any, int, error) {
	if len(data) < 2 {
		return nil, 0, refusal{"malformed", "the bytes end inside the length"}
	}
	length := int(int16(binary.BigEndian.Uint16(data)))
	if length < 0 || length > len(data)-2 {
		return nil, 0, refusal{"malformed", fmt.Sprintf("length %d, %d bytes are left", length, len(data)-2)}
	}
	return string(data[2 : 2+length]), 2 + length, nil
}

func encodeString(value json.RawMessage) ([]byte, error) {
	text, err := given[string](value)
	if err == nil && len(text) > 32767 {
		err = refusal{"invalid-value", "a string has at most 32767 bytes"}
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...), err
}

// --- the adapter -----------------------------------------------------------------------------------------

const notShown = -1

// refusal is an error with its class: malformed, corrupt, unsupported-codec, invalid-value or other.
type refusal struct{ class, message string }

func (r refusal) Error() string { return r.message }

// given reads the value of a request; json.Unmarshal alone would read null as the zero value.
func given[T any](raw json.RawMessage) (value T, err error) {
	var there *T
	if err := json.Unmarshal(raw, &there); err != nil {
		return value, refusal{"invalid-value", err.Error()}
	}
	if there == nil {
		return value, refusal{"invalid-value", "the value is null"}
	}
	return *there, nil
}

type request struct {
	ID    int             `json:"id"`
	Op    string          `json:"op"`
	Type  string          `json:"type"`
	Hex   string          `json:"hex"`
	Value json.RawMessage `json:"value"`
	// Of a message.
	Message string `json:"message"`
	Version int    `json:"version"`
}

type response map[string]any

func answer(req request) response {
	codec := types[req.Type]
	switch {
	case req.Op == "describe":
		return describe()
	case req.Op == "decode" && codec.decode != nil:
		return decode(codec, req.Hex)
	case req.Op == "encode" && codec.encode != nil:
		data, err := codec.encode(req.Value)
		if err != nil {
			return refused(err)
		}
		return response{"ok": true, "hex": hex.EncodeToString(data)}
	}
	return response{"unsupported": fmt.Sprintf("no %s of %s", req.Op, req.Type)}
}

func decode(codec codec, digits string) response {
	data, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	value, consumed, err := codec.decode(data)
	if err != nil {
		return refused(err)
	}
	answer := response{"ok": true, "value": value}
	if consumed != notShown {
		answer["consumed"] = consumed
	}
	return answer
}

func describe() response {
	decoded, encoded := []string{}, []string{}
	for name, codec := range types {
		if codec.decode != nil {
			decoded = append(decoded, name)
		}
		if codec.encode != nil {
			encoded = append(encoded, name)
		}
	}
	answer := response{"ok": true, "protocol": 1, "supports": response{"decode": decoded, "encode": encoded}}
	for name, entry := range about {
		answer[name] = entry
	}
	return answer
}

// refused reports an error of your library; an error without a class is `other`.
func refused(err error) response {
	class := "other"
	var known refusal
	if errors.As(err, &known) {
		class = known.class
	}
	return response{"ok": false, "error": class, "message": err.Error()}
}

// answerOrCrash reports a panic, which the suite counts as a crash of your library.
func answerOrCrash(req request) (resp response) {
	defer func() {
		if cause := recover(); cause != nil {
			resp = response{"crash": fmt.Sprint(cause)}
		}
	}()
	return answer(req)
}

func main() {
	lines := bufio.NewReader(os.Stdin) // a Scanner rejects lines above 64 kB, and requests have up to 4 MB
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var req request
		if err == nil {
			err = json.Unmarshal(line, &req)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		resp := answerOrCrash(req)
		resp["id"] = req.ID
		text, err := json.Marshal(resp)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Stdout.Write(append(text, '\n'))
	}
}
