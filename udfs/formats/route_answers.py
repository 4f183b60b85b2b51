"""What a name server answers of a topic's route in; a row for each of its brokers out.

Source: TopicRouteData, QueueData, BrokerData, 4.0.0 to 5.5.0; TopicQueueMappingInfo, 5.0 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hindsight.udfs.formats.answer_parts import broker_id, id_of, map_of, objects
from hindsight.udfs.lines.parsed_line import Fields, int32, optional_text, text_field


def topic_route(raw: Fields, capture: Fields) -> list[tuple[str, dict[str, Any]]]:
    """A row of ``topic_route`` for each broker of the route; refused: BAD_RAW and what the fields' readers refuse."""
    addresses = {text_field(b, "brokerName"): map_of(b, "brokerAddrs") for b in objects(raw, "brokerDatas")}
    mappings = map_of(raw, "topicQueueMappingByBroker")
    rows = []
    for place, queue_data in enumerate(objects(raw, "queueDatas")):
        name = text_field(queue_data, "brokerName")
        master = master_address(addresses.get(name, {}))
        rows.append(
            (
                "topic_route",
                {
                    "topic": capture["topic"],
                    "broker_name": name,
                    "read_queue_nums": int32(queue_data, "readQueueNums"),
                    "write_queue_nums": int32(queue_data, "writeQueueNums"),
                    "perm": int32(queue_data, "perm"),
                    "has_master": master is not None,
                    "master_address": master,
                    "slaves": slaves_of(addresses.get(name, {})),
                    "order_topic_conf": optional_text(raw, "orderTopicConf"),
                    "place_in_answer": place,
                    "is_static_topic": bool(mappings),
                    **_logical_queues(mappings.get(name)),
                },
            )
        )
    return rows


def _logical_queues(mapping: Any) -> dict[str, Any]:
    """What a broker's mapping of a static topic says: TopicQueueMappingInfo, 5.0 on."""
    scope = mapping.get("scope") if isinstance(mapping, dict) else None
    if not isinstance(scope, str) or not scope:
        return {}
    held = map_of(mapping, "currIdMap")
    return {
        # MixAll#LOGICAL_QUEUE_MOCK_BROKER_PREFIX; of the global scope the first two characters are left out.
        "logical_broker_name": f"__syslo__{scope[2:] if scope == '__global__' else scope}",
        "logical_queue_nums": int32(mapping, "totalQueues"),
        "logical_queues": [
            {"logical_id": id_of(logical, "currIdMap"), "queue_id": id_of(own, "currIdMap")}
            for logical, own in sorted(held.items(), key=lambda entry: str(entry[0]))
        ],
    }


def master_address(addresses: Mapping[Any, Any]) -> str | None:
    """Broker id 0 is the master; its key is a bare integer, or a string where strict JSON was asked for."""
    master = addresses.get(0, addresses.get("0"))
    return text_field({"brokerAddrs[0]": master}, "brokerAddrs[0]") if isinstance(master, str) and master else None


def slaves_of(addresses: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """The brokers with other ids than 0, in the order of these: BrokerData#brokerAddrs, 4.0.0 to 5.5.0."""
    told = {broker_id(key): value for key, value in addresses.items()}
    return [
        {"broker_id": number, "address": text_field({f"brokerAddrs[{number}]": address}, f"brokerAddrs[{number}]")}
        for number, address in sorted(told.items())
        if number != 0
    ]
