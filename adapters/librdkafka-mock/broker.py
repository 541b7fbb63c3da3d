"""librdkafka's mock cluster with one node: it chooses and prints its address, and serves until its end."""

import signal
import sys

from confluent_kafka import Producer

client = Producer({"test.mock.num.brokers": 1})
(node,) = client.list_topics(timeout=60).brokers.values()
sys.stdout.write(f"listens on {node.host}:{node.port}\n")
sys.stdout.flush()
signal.pause()
