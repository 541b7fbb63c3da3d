// sarama as an application uses it: NewConsumer, ConsumePartition, and the channels of messages and errors.
package main

import (
	"iter"

	"github.com/IBM/sarama"
)

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

func main() { drive("github.com/IBM/sarama", consume) }
