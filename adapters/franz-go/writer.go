// franz-go as an application uses it to write: ProduceSync, in a transaction or not.
package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// produce writes batches, each with a separate ProduceSync, and returns the first error.
func produce(topic told) error {
	client, err := kgo.NewClient(options(topic)...)
	if err != nil {
		return err
	}
	defer client.Close()
	write := func(batch []record) error {
		records := each(batch, func(row record) *kgo.Record { return taken(topic, row) })
		return client.ProduceSync(context.Background(), records...).FirstErr()
	}
	commit := func() error { return client.EndTransaction(context.Background(), kgo.TryCommit) }
	abort := func() error { return client.EndTransaction(context.Background(), kgo.TryAbort) }
	return topic.Produce.send(client.BeginTransaction, write, commit, abort)
}

func options(topic told) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(topic.Bootstrap), kgo.ClientID(topic.Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codecs[topic.Produce.Compression]), kgo.ProducerBatchMaxBytes(topic.Produce.BatchBytes),
		kgo.ProducerLinger(100 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond), // the default is 5 seconds after an error response
	}
	if topic.Produce.Transactional {
		options = append(options, kgo.TransactionalID(topic.Topic))
	} else if !topic.Produce.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return options
}

func taken(topic told, row record) *kgo.Record {
	return &kgo.Record{
		Topic: topic.Topic, Partition: int32(topic.Partition), Timestamp: moment(row),
		Key: octets(row.Key), Value: octets(row.Value),
		Headers: each(row.Headers, func(one header) kgo.RecordHeader {
			return kgo.RecordHeader{Key: one.Key, Value: octets(one.Value)}
		}),
	}
}
