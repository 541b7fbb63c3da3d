// sarama as an application uses it to write: a SyncProducer, in a transaction or not.
package main

import (
	"time"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

// produce writes batches, each with a separate SendMessages, and returns the first error.
func produce(topic told) error {
	producer, err := sarama.NewSyncProducer([]string{topic.Bootstrap}, settings(topic))
	if err != nil {
		return err
	}
	defer producer.Close()
	write := func(batch []record) error {
		return producer.SendMessages(each(batch, func(row record) *sarama.ProducerMessage { return taken(topic, row) }))
	}
	return topic.Produce.send(producer.BeginTxn, write, producer.CommitTxn, producer.AbortTxn)
}

func settings(topic told) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = topic.Topic
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true // a SyncProducer requires it
	config.Producer.Compression = codecs[topic.Produce.Compression]
	config.Producer.MaxMessageBytes = int(topic.Produce.BatchBytes)
	config.Producer.Flush.Frequency = 200 * time.Millisecond
	if topic.Produce.Idempotent {
		config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	}
	if topic.Produce.Transactional {
		config.Producer.Transaction.ID = topic.Topic
	}
	return config
}

func taken(topic told, row record) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{
		Topic: topic.Topic, Partition: int32(topic.Partition), Timestamp: moment(row),
		Headers: each(row.Headers, func(one header) sarama.RecordHeader {
			return sarama.RecordHeader{Key: []byte(one.Key), Value: octets(one.Value)}
		}),
	}
	if row.Key != nil {
		message.Key = sarama.ByteEncoder(octets(row.Key))
	}
	if row.Value != nil {
		message.Value = sarama.ByteEncoder(octets(row.Value))
	}
	return message
}
