// sarama as an application uses it: NewConsumer, ConsumePartition, the channels of messages and errors; NewSyncProducer.
package main

import (
	"iter"
	"time"

	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

// consume yields the messages of a partition consumer, and the first error that it reports.
func consume(topic told) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		config := sarama.NewConfig()
		config.Consumer.Return.Errors = true // or they are only logged
		if topic.Isolation == "read_committed" {
			config.Consumer.IsolationLevel = sarama.ReadCommitted
		}
		consumer, err := sarama.NewConsumer([]string{topic.Bootstrap}, config)
		if err != nil {
			yield(record{}, err)
			return
		}
		defer consumer.Close()
		partition, err := consumer.ConsumePartition(topic.Topic, int32(topic.Partition), topic.Offset)
		if err != nil {
			yield(record{}, err)
			return
		}
		defer partition.Close()
		for {
			select {
			case message := <-partition.Messages():
				if !yield(shown(message), nil) {
					return
				}
			case err := <-partition.Errors():
				for len(partition.Messages()) > 0 { // they came before it
					if !yield(shown(<-partition.Messages()), nil) {
						return
					}
				}
				yield(record{}, err)
				return
			}
		}
	}
}

func shown(message *sarama.ConsumerMessage) record {
	headers := []header{}
	for _, one := range message.Headers {
		headers = append(headers, header{string(one.Key), hexed(one.Value)})
	}
	handed := record{
		Offset: number(message.Offset), Key: hexed(message.Key), Value: hexed(message.Value), Headers: headers,
	}
	if !message.Timestamp.IsZero() { // which stands for every negative one
		handed.Timestamp = number(message.Timestamp.UnixMilli())
	}
	return handed
}

// produce writes batches, each by a SendMessages of its own; the first error that it returns.
func produce(topic told) error {
	producer, err := sarama.NewSyncProducer([]string{topic.Bootstrap}, settings(topic))
	if err != nil {
		return err
	}
	defer producer.Close()
	if topic.Produce.Transactional {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
	}
	for _, batch := range topic.Produce.Batches {
		if err := producer.SendMessages(taken(topic, batch)); err != nil {
			return err
		}
	}
	if topic.Produce.Transactional {
		return producer.CommitTxn()
	}
	return nil
}

func settings(topic told) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = topic.Topic
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true // a SyncProducer asks for it
	config.Producer.Compression = codecs[topic.Produce.Compression]
	config.Producer.MaxMessageBytes = much
	config.Producer.Flush.Frequency = 200 * time.Millisecond
	if topic.Produce.Idempotent {
		config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1
	}
	if topic.Produce.Transactional {
		config.Producer.Transaction.ID = topic.Topic
	}
	return config
}

func taken(topic told, batch []record) (messages []*sarama.ProducerMessage) {
	for _, row := range batch {
		written := &sarama.ProducerMessage{
			Topic: topic.Topic, Partition: int32(topic.Partition), Timestamp: moment(row),
			Key: encoder(row.Key), Value: encoder(row.Value),
		}
		for _, one := range row.Headers {
			header := sarama.RecordHeader{Key: []byte(one.Key), Value: octets(one.Value)}
			written.Headers = append(written.Headers, header)
		}
		messages = append(messages, written)
	}
	return messages
}

// encoder is nil for null.
func encoder(digits *string) sarama.Encoder {
	if digits == nil {
		return nil
	}
	return sarama.ByteEncoder(octets(digits))
}

func main() { drive("github.com/IBM/sarama", consume, produce) }
