// franz-go as an application uses it: NewClient with ConsumePartitions, PollFetches, or ProduceSync; a client a topic.
package main

import (
	"context"
	"iter"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var levels = map[string]kgo.IsolationLevel{
	"read_committed": kgo.ReadCommitted(), "read_uncommitted": kgo.ReadUncommitted(),
}
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}
var types = map[int8]string{-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}

// consume yields the records that PollFetches hands out, and the first error that it tells.
func consume(topic told) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		begin := map[int32]kgo.Offset{int32(topic.Partition): kgo.NewOffset().At(topic.Offset)}
		client, err := kgo.NewClient(
			kgo.SeedBrokers(topic.Bootstrap),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic.Topic: begin}),
			kgo.FetchIsolationLevel(levels[topic.Isolation]),
			kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
		)
		if err != nil {
			yield(record{}, err)
			return
		}
		defer client.Close()
		for {
			fetches := client.PollFetches(context.Background())
			for handed := range fetches.RecordsAll() {
				if !yield(shown(handed), nil) {
					return
				}
			}
			if err := fetches.Err(); err != nil {
				yield(record{}, err)
				return
			}
		}
	}
}

func shown(handed *kgo.Record) record {
	headers := []header{}
	for _, one := range handed.Headers {
		headers = append(headers, header{one.Key, hexed(one.Value)})
	}
	timestamp := handed.Timestamp.UnixMilli()
	if handed.Timestamp.IsZero() { // that of a message of magic 0
		timestamp = -1
	}
	return record{
		Offset: number(handed.Offset), Timestamp: number(timestamp),
		TimestampType: types[handed.Attrs.TimestampType()], Key: hexed(handed.Key), Value: hexed(handed.Value),
		Headers: headers,
	}
}

// produce writes batches, each by a ProduceSync of its own; the first error that it returns.
func produce(topic told) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(topic.Bootstrap), kgo.ClientID(topic.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[topic.Produce.Compression]), kgo.ProducerBatchMaxBytes(much),
		kgo.ProducerLinger(100 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond), // after a refusal it would wait for 5 seconds
	}
	if topic.Produce.Transactional {
		options = append(options, kgo.TransactionalID(topic.Topic))
	} else if !topic.Produce.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	if topic.Produce.Transactional {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
	}
	for _, batch := range topic.Produce.Batches {
		if err := client.ProduceSync(context.Background(), taken(topic, batch)...).FirstErr(); err != nil {
			return err
		}
	}
	if topic.Produce.Transactional {
		return client.EndTransaction(context.Background(), kgo.TryCommit)
	}
	return nil
}

func taken(topic told, batch []record) (records []*kgo.Record) {
	for _, row := range batch {
		written := &kgo.Record{
			Topic: topic.Topic, Partition: int32(topic.Partition), Timestamp: moment(row),
			Key: octets(row.Key), Value: octets(row.Value),
		}
		for _, one := range row.Headers {
			written.Headers = append(written.Headers, kgo.RecordHeader{Key: one.Key, Value: octets(one.Value)})
		}
		records = append(records, written)
	}
	return records
}

func main() { drive("github.com/twmb/franz-go", consume, produce) }
