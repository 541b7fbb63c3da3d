"""Messages of the Python adapters with the real libraries: they use the names of the definitions."""

import pytest

from conformance.cases.model import Accepted, NoAnswer, Rejected, Unsupported
from conformance.targets.protocol import body
from conformance.targets.resolve import adapters, resolve
from conformance.targets.session import TargetSession

pytestmark = pytest.mark.integration

NAMES = ("kafka-python", "kio", "aiokafka", "aiokafka-pure")


@pytest.fixture(scope="module")
def session():
    """Return a function from an adapter to its session, one for all tests."""
    open_sessions = {}

    def of(name):
        lacking = adapters()[name].missing()
        if lacking:
            pytest.skip(f"{name} lacks {', '.join(lacking)}")
        return open_sessions.setdefault(name, TargetSession(resolve(name)))

    yield of
    for one in open_sessions.values():
        one.finish()


@pytest.fixture
def ask(session):
    """Return a function that sends one request about a message."""

    def call(name, op, message, version, **fields):
        request = {"op": op, "type": "MESSAGE", "message": message, "version": version, **fields}
        return next(iter(session(name).ask([body(request)])))

    return call


def plain(value):
    """Return a value with numbers as strings: an adapter may use either form for 64-bit numbers."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


FETCH = (
    "ffffffff 000001f4 00000001 7fffffff 01 00000000 ffffffff 00000001 000174 00000001 "
    "00000003 00000002 0000000000000005 ffffffffffffffff 00100000 00000000 0000"
).replace(" ", "")
FETCH_VALUE = {
    "ReplicaId": -1,
    "MaxWaitMs": 500,
    "MinBytes": 1,
    "MaxBytes": 2**31 - 1,
    "IsolationLevel": 1,
    "SessionId": 0,
    "SessionEpoch": -1,
    "Topics": [
        {
            "Topic": "t",
            "Partitions": [
                {
                    "Partition": 3,
                    "CurrentLeaderEpoch": 2,
                    "FetchOffset": "5",
                    "LogStartOffset": "-1",
                    "PartitionMaxBytes": 1 << 20,
                }
            ],
        }
    ],
    "ForgottenTopicsData": [],
    "RackId": "",
}
# aiokafka replaces a structure with one field by the value: a topic is its name.
METADATA = "0000000100017401"
METADATA_VALUE = {"Topics": [{"Name": "t"}], "AllowAutoTopicCreation": True}
# Libraries spell some names differently, and aiokafka has one more level for a nested structure.
PARTITIONS = "00000001000174000000020000000100000001000000070000138800"
PARTITIONS_VALUE = {
    "Topics": [{"Name": "t", "Count": 2, "Assignments": [{"BrokerIds": [7]}]}],
    "TimeoutMs": 5000,
    "ValidateOnly": False,
}
MESSAGES = [
    ("FetchRequest", 11, FETCH, FETCH_VALUE),
    ("MetadataRequest", 4, METADATA, METADATA_VALUE),
    ("CreatePartitionsRequest", 1, PARTITIONS, PARTITIONS_VALUE),
    ("ResponseHeader", 1, "0000000700", {"CorrelationId": 7}),
]


def directions(name, message):
    """Return the supported directions: a client writes requests and reads responses, kio does both."""
    return ("decode", "encode") if name == "kio" else ("encode",) if "Request" in message else ("decode",)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("message", "version", "data", "value"), MESSAGES)
def test_a_message_has_the_names_of_its_definition(name, message, version, data, value, ask):
    if "decode" in directions(name, message):
        outcome = ask(name, "decode", message, version, hex=data)
        assert isinstance(outcome, Accepted)
        assert plain(outcome.answer["value"]) == plain(value)
        assert outcome.answer.get("consumed", len(data) // 2) == len(data) // 2
    if "encode" in directions(name, message):
        assert ask(name, "encode", message, version, value=value).answer["hex"] == data


@pytest.mark.parametrize("name", ["kafka-python", "aiokafka", "aiokafka-pure"])
def test_a_client_need_not_read_requests_or_write_responses(name, ask):
    assert isinstance(ask(name, "decode", "FetchRequest", 11, hex=FETCH), Unsupported)
    assert isinstance(ask(name, "encode", "ResponseHeader", 1, value={"CorrelationId": 7}), Unsupported)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("message", "version"), [("NoSuchRequest", 0), ("FetchRequest", 99), ("FetchRequest", -1)])
def test_a_message_or_version_that_a_library_lacks_is_unsupported(name, message, version, ask):
    assert isinstance(ask(name, "decode", message, version, hex=""), Unsupported)
    assert isinstance(ask(name, "encode", message, version, value={}), Unsupported)


@pytest.mark.parametrize("name", NAMES)
def test_a_field_that_a_class_does_not_have_is_unsupported(name, ask):
    value = {**METADATA_VALUE, "NoSuchField": 1}
    assert isinstance(ask(name, "encode", "MetadataRequest", 4, value=value), Unsupported)


@pytest.mark.parametrize("name", NAMES)
def test_a_cut_message_is_rejected(name, ask):
    outcome = ask(name, "decode", "HeartbeatResponse", 1, hex="00000000")
    assert isinstance(outcome, Rejected)
    assert outcome.error == "malformed"


@pytest.mark.parametrize("name", NAMES)
def test_the_request_header_keeps_its_client_id(name, ask):
    value = {"RequestApiKey": 18, "RequestApiVersion": 3, "CorrelationId": 7, "ClientId": "a"}
    assert ask(name, "encode", "RequestHeader", 2, value=value).answer["hex"] == "001200030000000700016100"


@pytest.mark.parametrize("name", ["kafka-python", "kio"])
def test_records_of_a_message_are_its_bytes(name, ask):
    data = "00ffff00000000020274020000000003abcd000000"
    topics = [{"Name": "t", "PartitionData": [{"Index": 0, "Records": "abcd"}]}]
    value = {"TransactionalId": None, "Acks": -1, "TimeoutMs": 0, "TopicData": topics}
    if name == "kio":
        assert ask(name, "decode", "ProduceRequest", 9, hex=data).answer["value"] == value
    assert ask(name, "encode", "ProduceRequest", 9, value=value).answer["hex"] == data


@pytest.mark.parametrize("name", ["kafka-python", "kio"])
def test_a_missing_field_is_encoded_at_its_default(name, ask):
    assert ask(name, "encode", "FetchRequest", 12, value={}).answer["hex"] == (
        "ffffffff00000000000000007fffffff0000000000ffffffff01010100"
    )


@pytest.mark.parametrize("name", ["kafka-python", "kio"])
def test_a_uuid_of_zeros_is_a_value(name, ask):
    zeros = "00000000-0000-0000-0000-000000000000"
    data = "02" + "00" * 16 + "0000010000"
    value = {
        "Topics": [{"TopicId": zeros, "Name": None}],
        "AllowAutoTopicCreation": True,
        "IncludeTopicAuthorizedOperations": False,
    }
    if name == "kio":
        assert ask(name, "decode", "MetadataRequest", 12, hex=data).answer["value"] == value
    assert ask(name, "encode", "MetadataRequest", 12, value=value).answer["hex"] == data


def test_kafka_python_shows_a_set_of_bits_as_the_number_of_the_definition(ask):
    header = "000000000100ffffffff01"
    for operations, number in (("80000000", -(2**31)), ("00000102", 258), ("ffffffff", -1)):
        outcome = ask("kafka-python", "decode", "MetadataResponse", 10, hex=header + operations + "00")
        assert outcome.answer["value"]["ClusterAuthorizedOperations"] == number


def test_kafka_python_shows_unknown_tagged_fields(ask):
    unknown = [{"tag": 5, "data": "aa"}]
    outcome = ask("kafka-python", "decode", "ResponseHeader", 1, hex="00000007010501aa")
    assert outcome.answer["value"] == {"CorrelationId": 7, "_unknownTaggedFields": unknown}


def test_kio_crashes_on_unknown_tagged_fields(ask):
    outcome = ask("kio", "decode", "ResponseHeader", 1, hex="00000007010501aa")
    assert isinstance(outcome, NoAnswer)
    assert outcome.detail.startswith("KeyError")


def test_kio_rejects_null_for_a_structure_with_any_error(ask):
    outcome = ask("kio", "encode", "FetchRequest", 17, value={"ReplicaState": None})
    assert isinstance(outcome, Rejected)
    assert outcome.error == "invalid-value"


@pytest.mark.parametrize("milliseconds", [0, 1, 1700000000001])
def test_kio_shows_an_instant_in_milliseconds(milliseconds, ask):
    data = "0000" + f"{milliseconds:016x}" + "00000000"
    value = {"ErrorCode": 0, "ExpiryTimestampMs": str(milliseconds), "ThrottleTimeMs": 0}
    assert ask("kio", "encode", "ExpireDelegationTokenResponse", 1, value=value).answer["hex"] == data
    assert plain(ask("kio", "decode", "ExpireDelegationTokenResponse", 1, hex=data).answer["value"]) == plain(value)


def test_kio_returns_none_for_minus_one_only_in_nullable_timestamps(ask):
    lacking = {"ExpiryTimestampMs": "-1"}
    assert isinstance(ask("kio", "encode", "ExpireDelegationTokenResponse", 1, value=lacking), Unsupported)
    partition = {"Index": 0, "ErrorCode": 0, "BaseOffset": "0", "LogAppendTimeMs": "-1"}
    value = {"Responses": [{"Name": "t", "PartitionResponses": [partition]}], "ThrottleTimeMs": 0}
    written = ask("kio", "encode", "ProduceResponse", 3, value=value)
    outcome = ask("kio", "decode", "ProduceResponse", 3, hex=written.answer["hex"])
    assert plain(outcome.answer["value"]) == plain(value)


def test_aiokafka_has_no_default_for_a_field(ask):
    value = {name: item for name, item in FETCH_VALUE.items() if name != "RackId"}
    assert isinstance(ask("aiokafka", "encode", "FetchRequest", 11, value=value), Unsupported)
