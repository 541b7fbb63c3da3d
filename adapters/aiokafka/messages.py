"""The messages of aiokafka: the requests that it builds, each with the response that it reads.

The library has its own schemas, one for each version, with its own names. NAMES maps them to the names in Apache
Kafka's definitions. The order of the fields is the same; a schema contains only types.
"""

import io
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from aiokafka.protocol import (
    admin,
    api,
    commit,
    coordination,
    fetch,
    group,
    metadata,
    offset,
    produce,
    transaction,
    types,
)

from conformance import Unsupported

REQUESTS = {
    "ApiVersionRequest": "ApiVersionsRequest",
    "OffsetRequest": "ListOffsetsRequest",
    "SaslHandShakeRequest": "SaslHandshakeRequest",
}
"""Requests with another name in the library: that name, and the name of the definition."""

# Fields with another name in the definition than the library's words joined. Before the = is the library's name (a
# path, if the name is not unique), after it the definition's. A field after a / is the only one of its structure, and
# the library has its value instead of the structure. An empty name after the = means that the library has a structure
# whose fields the definition has in the outer one.
NAMES = {
    message: dict(entry.split("=") for entry in entries.split())
    for message, _, entries in (
        line.partition(": ")
        for line in """
AddPartitionsToTxnRequest: producer_epoch=V3AndBelowProducerEpoch producer_id=V3AndBelowProducerId \
 topics=V3AndBelowTopics transactional_id=V3AndBelowTransactionalId topic=Name
AddPartitionsToTxnResponse: errors=ResultsByTopicV3AndBelow partition_errors=ResultsByPartition topic=Name \
 error_code=PartitionErrorCode partition=PartitionIndex
AlterConfigsRequest: config_entries=Configs config_name=Name config_value=Value
AlterConfigsResponse: resources=Responses
ApiVersionsResponse: api_versions=ApiKeys
CreatePartitionsRequest: timeout=TimeoutMs topic_partitions=Topics topic=Name new_partitions= \
 assignment=Assignments/BrokerIds
CreatePartitionsResponse: topic_errors=Results topic=Name
CreateTopicsRequest: create_topic_requests=Topics timeout=timeoutMs validate_only=validateOnly topic=Name \
 replica_assignment=Assignments partition_id=PartitionIndex replicas=BrokerIds config_key=Name config_value=Value
CreateTopicsResponse: topic_errors=Topics topic=Name
DeleteTopicsRequest: timeout=TimeoutMs topics=TopicNames
DeleteTopicsResponse: topic_error_codes=Responses topic=Name
DescribeConfigsRequest: config_names=ConfigurationKeys
DescribeConfigsResponse: resources=Results config_entries=Configs config_names=Name config_value=Value \
 config_synonyms=Synonyms config_name=Name resources.config_entries.config_synonyms.config_source=Source
DescribeGroupsResponse: group=GroupId protocol=ProtocolData state=GroupState
EndTxnRequest: transaction_result=Committed
FetchRequest: max_wait_time=MaxWaitMs offset=FetchOffset topics.partitions.max_bytes=PartitionMaxBytes
FetchResponse: topics=Responses topics.topics=Topic partition=PartitionIndex highwater_offset=HighWatermark \
 message_set=Records
FindCoordinatorRequest: consumer_group=Key coordinator_key=Key coordinator_type=KeyType
FindCoordinatorResponse: coordinator_id=NodeId
HeartbeatRequest: group=GroupId
JoinGroupRequest: group=GroupId group_protocols=Protocols rebalance_timeout=RebalanceTimeoutMs \
 session_timeout=SessionTimeoutMs protocol_metadata=Metadata protocol_name=Name
JoinGroupResponse: group_protocol=ProtocolName leader_id=Leader member_metadata=Metadata
LeaveGroupRequest: group=GroupId
ListGroupsResponse: group=GroupId
ListOffsetsRequest: topic=Name partition=PartitionIndex
ListOffsetsResponse: topic=Name partition=PartitionIndex
MetadataRequest: topics=Topics/Name
MetadataResponse: topic=Name isr=IsrNodes leader=LeaderId partition=PartitionIndex replicas=ReplicaNodes
OffsetCommitRequest: consumer_group=GroupId consumer_group_generation_id=GenerationIdOrMemberEpoch \
 consumer_id=MemberId retention_time=RetentionTimeMs topic=Name metadata=CommittedMetadata offset=CommittedOffset \
 partition=PartitionIndex
OffsetCommitResponse: topic=Name partition=PartitionIndex
OffsetFetchRequest: consumer_group=GroupId partitions=PartitionIndexes topic=Name
OffsetFetchResponse: topic=Name offset=CommittedOffset partition=PartitionIndex
ProduceRequest: required_acks=Acks timeout=TimeoutMs topics=TopicData partitions=PartitionData topic=Name \
 messages=Records partition=Index
ProduceResponse: topics=Responses partitions=PartitionResponses topic=Name offset=BaseOffset partition=Index \
 timestamp=LogAppendTimeMs
RequestHeader: api_key=RequestApiKey api_version=RequestApiVersion
SaslAuthenticateRequest: sasl_auth_bytes=AuthBytes
SaslAuthenticateResponse: sasl_auth_bytes=AuthBytes
SaslHandshakeResponse: enabled_mechanisms=Mechanisms
SyncGroupRequest: group=GroupId group_assignment=Assignments member_metadata=Assignment
SyncGroupResponse: member_assignment=Assignment
TxnOffsetCommitRequest: topic=Name metadata=CommittedMetadata offset=CommittedOffset partition=PartitionIndex
TxnOffsetCommitResponse: errors=Topics partition_errors=Partitions topic=Name partition=PartitionIndex
""".strip().splitlines()
    )
}
UNKNOWN = "_unknownTaggedFields"
NEVER_SENT = (
    *("AlterPartitionReassignmentsRequest", "ListPartitionReassignmentsRequest"),
    *("CreateAclsRequest", "DeleteAclsRequest", "DescribeAclsRequest"),
    *("DeleteGroupsRequest", "DescribeClientQuotasRequest"),
)
"""Requests that the library never builds."""


def _classes() -> dict[str, dict[int, Any]]:
    """Return the classes by message and version."""
    classes: dict[str, dict[int, Any]] = {
        "RequestHeader": {1: api.RequestHeader_v1, 2: api.RequestHeader_v2},
        "ResponseHeader": {0: api.ResponseHeader_v0, 1: api.ResponseHeader_v1},
    }
    for module in (admin, commit, coordination, fetch, group, metadata, offset, produce, transaction):
        for name, request in vars(module).items():
            if not isinstance(request, type) or api.Request not in request.__bases__ or name in NEVER_SENT:
                continue
            message = REQUESTS.get(name, name)
            # The version of a response is that of its request.
            versions = {one.API_VERSION: one for one in vars(request)["_CLASSES"]}
            classes[message] = versions
            classes[message.replace("Request", "Response")] = {
                number: one.RESPONSE_TYPE for number, one in versions.items()
            }
    return classes


CLASSES = _classes()
VERSIONS = {message: f"{min(versions)}-{max(versions)}" for message, versions in CLASSES.items()}


def decode(data: bytes, message: str, version: int) -> tuple[dict[str, Any], int]:
    """Decode a message; return it with the number of consumed bytes. Raises Unsupported if the library lacks it."""
    message_class = _class(message, version)
    if message.endswith(("Request", "RequestHeader")):
        raise Unsupported("a client does not read requests")
    stream = io.BytesIO(data)
    item = message_class.decode(stream)
    values = [item.get_item(name) for name in message_class.SCHEMA.names]
    return dict(_shown_fields(message, message_class.SCHEMA, values)), stream.tell()


def encode(value: dict[str, Any], message: str, version: int) -> bytes:
    """Encode a message. Raises Unsupported if the library lacks it, and for values that its schema cannot express."""
    message_class = _class(message, version)
    if message.endswith(("Response", "ResponseHeader")):
        raise Unsupported("a client does not write responses")
    values = _given_fields(message, message_class.SCHEMA, value)
    if message == "RequestHeader":
        key, number, *rest = values
        return bytes(message_class(SimpleNamespace(API_KEY=key, API_VERSION=number), *rest).encode())
    return bytes(message_class(*values).encode())


def _class(message: str, version: int) -> Any:
    if version not in CLASSES.get(message, {}):
        raise Unsupported(f"no {message} {version}")
    return CLASSES[message][version]


def _name(message: str, path: str) -> tuple[str, str]:
    """Return the definition's name of a field, and the name of the only field of its structures, if omitted."""
    names = NAMES.get(message, {})
    last = path.rpartition(".")[2]
    words = "".join(word[:1].upper() + word[1:] for word in last.split("_"))
    name, _, only = names.get(path, names.get(last, words)).partition("/")
    return name, only


# --- decode -------------------------------------------------------------------------------------------


def _shown_fields(message: str, schema: Any, values: Any, outer: str = "") -> Iterator[tuple[str, Any]]:
    for label, field, value in zip(schema.names, schema.fields, values, strict=True):
        name, only = _name(message, outer + label)
        if field is types.TaggedFields:
            if value:
                yield UNKNOWN, [{"tag": tag, "data": data} for tag, data in value.items()]
        elif name:
            shown = _shown(message, field, value, f"{outer}{label}.")
            yield name, [{only: item} for item in shown] if only and shown is not None else shown
        else:
            yield from _shown_fields(message, field, value, f"{outer}{label}.")


def _shown(message: str, field: Any, value: Any, outer: str) -> Any:
    if value is None:
        return None
    if isinstance(field, types.Array):
        return [_shown(message, field.array_of, item, outer) for item in value]
    return dict(_shown_fields(message, field, value, outer)) if isinstance(field, types.Schema) else value


# --- encode -------------------------------------------------------------------------------------------


def _given_fields(message: str, schema: Any, value: dict[str, Any], outer: str = "") -> tuple[Any, ...]:
    """Return the values of a schema. Each one is necessary, because the library has no defaults."""
    rest = dict(value)
    values = tuple(_taken_fields(message, schema, rest, outer))
    if rest.pop(UNKNOWN, None) or rest:
        raise Unsupported(f"the schema of {outer or message} has no field {', '.join(rest) or UNKNOWN}")
    return values


def _taken_fields(message: str, schema: Any, rest: dict[str, Any], outer: str) -> Iterator[Any]:
    """Return the values of a schema, and remove them from `rest`."""
    for label, field in zip(schema.names, schema.fields, strict=True):
        name, only = _name(message, outer + label)
        if field is types.TaggedFields:
            yield {}  # the library writes no tagged field
        elif not name:
            yield tuple(_taken_fields(message, field, rest, f"{outer}{label}."))
        elif name not in rest:
            raise Unsupported(f"{message}: the library has no default for {name}")
        else:
            given = rest.pop(name)
            given = [item[only] for item in given] if only and given is not None else given
            yield _given(message, field, given, f"{outer}{label}.")


def _given(message: str, field: Any, value: Any, outer: str) -> Any:
    if value is None:
        return None
    if isinstance(field, types.Array):
        return [_given(message, field.array_of, item, outer) for item in value]
    if isinstance(field, types.Schema):
        return _given_fields(message, field, value, outer)
    return SCALARS[field](value) if field in SCALARS else value


SCALARS: dict[Any, Any] = {
    types.Int64: int,
    types.Bytes: bytes.fromhex,
}
